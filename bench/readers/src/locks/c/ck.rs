//! Concurrency Kit's lock, through `ck/rwlock.c`.

use super::{Functions, Raw};

/// Concurrency Kit's lock.
pub(crate) type Ck = Raw<CkFunctions>;

/// The writer's word and the number of readers. Both are zero when the lock is open.
type State = [u32; 2];

// These are the signatures of ck/rwlock.c.
//
// # Safety
// - For all functions: the lock is alive and no longer moves.
// - For the unlocks: the calling thread holds the lock for reading, or for writing.
unsafe extern "C" {
    fn readers_ck_read_lock(lock: *mut State);
    fn readers_ck_read_trylock(lock: *mut State) -> bool;
    fn readers_ck_read_unlock(lock: *mut State);
    fn readers_ck_write_lock(lock: *mut State);
    fn readers_ck_write_trylock(lock: *mut State) -> bool;
    fn readers_ck_write_unlock(lock: *mut State);
}

pub(crate) struct CkFunctions;

// SAFETY: ck_rwlock(3) defines the functions as a reader-writer lock. The lock is two words without
// a pointer, which the functions change with fences.
unsafe impl Functions for CkFunctions {
    type State = State;

    const INIT: State = [0, 0];

    #[inline]
    unsafe fn read(state: *mut State) {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_read_lock(state) };
    }

    #[inline]
    unsafe fn try_read(state: *mut State) -> bool {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_read_trylock(state) }
    }

    #[inline]
    unsafe fn end_read(state: *mut State) {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_read_unlock(state) };
    }

    #[inline]
    unsafe fn write(state: *mut State) {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_write_lock(state) };
    }

    #[inline]
    unsafe fn try_write(state: *mut State) -> bool {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_write_trylock(state) }
    }

    #[inline]
    unsafe fn end_write(state: *mut State) {
        // SAFETY: the caller meets the same contract.
        unsafe { readers_ck_write_unlock(state) };
    }
}
