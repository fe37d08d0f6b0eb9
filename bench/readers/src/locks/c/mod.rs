//! Locks of the C world, behind lock_api.

#[cfg(feature = "ck")]
mod ck;
mod pthread;

use std::cell::UnsafeCell;

use lock_api::{GuardNoSend, RawRwLock};

#[cfg(feature = "ck")]
pub(crate) use ck::Ck;
pub(crate) use pthread::Pthread;

/// The functions of one such lock.
///
/// # Safety
/// - `INIT` is an open lock, also after a move, while nobody has used it.
/// - The functions keep writers out while somebody reads or writes, and readers while somebody
///   writes; they order memory accordingly; any thread may call them.
pub(crate) unsafe trait Functions {
    /// The lock's own memory.
    type State;

    const INIT: Self::State;

    /// # Safety
    /// For this and all below:
    /// - `state` points to a lock that is alive and does not move any more.
    unsafe fn read(state: *mut Self::State);

    /// # Safety
    /// - As for `read`.
    unsafe fn try_read(state: *mut Self::State) -> bool;

    /// # Safety
    /// - As for `read`, and the calling thread reads.
    unsafe fn end_read(state: *mut Self::State);

    /// # Safety
    /// - As for `read`.
    unsafe fn write(state: *mut Self::State);

    /// # Safety
    /// - As for `read`.
    unsafe fn try_write(state: *mut Self::State) -> bool;

    /// # Safety
    /// - As for `read`, and the calling thread writes.
    unsafe fn end_write(state: *mut Self::State);
}

/// A lock made of C functions.
pub(crate) struct Raw<F: Functions>(UnsafeCell<F::State>);

// SAFETY: any thread may call the functions; the memory holds nothing else.
unsafe impl<F: Functions> Send for Raw<F> {}
// SAFETY: as above; all access is by the functions.
unsafe impl<F: Functions> Sync for Raw<F> {}

// SAFETY: the contract of `Functions`. The lock is borrowed while it is in use, so it does not move;
// between uses these two locks hold no pointer to themselves and may. Guards stay on their thread.
unsafe impl<F: Functions> RawRwLock for Raw<F> {
    const INIT: Self = Raw(UnsafeCell::new(F::INIT));
    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    fn lock_shared(&self) -> GuardNoSend {
        // SAFETY: the lock is alive while it is borrowed.
        unsafe { F::read(self.0.get()) };
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        // SAFETY: the lock is alive while it is borrowed.
        unsafe { F::try_read(self.0.get()) }.then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        // SAFETY: the caller reads; the lock is alive while it is borrowed.
        unsafe { F::end_read(self.0.get()) };
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardNoSend {
        // SAFETY: the lock is alive while it is borrowed.
        unsafe { F::write(self.0.get()) };
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        // SAFETY: the lock is alive while it is borrowed.
        unsafe { F::try_write(self.0.get()) }.then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        // SAFETY: the caller writes; the lock is alive while it is borrowed.
        unsafe { F::end_write(self.0.get()) };
    }

    fn is_locked(&self) -> bool {
        let guard = self.try_lock_exclusive();
        let is_locked = guard.is_none();
        // SAFETY: we have it.
        guard.into_iter().for_each(|guard| unsafe { self.unlock_exclusive(guard) });
        is_locked
    }

    fn is_locked_exclusive(&self) -> bool {
        let guard = self.try_lock_shared();
        let is_locked = guard.is_none();
        // SAFETY: we have it.
        guard.into_iter().for_each(|guard| unsafe { self.unlock_shared(guard) });
        is_locked
    }
}
