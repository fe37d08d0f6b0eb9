//! The C library's lock.

use libc::{PTHREAD_RWLOCK_INITIALIZER, pthread_rwlock_t};

use super::{Functions, Raw};

/// The C library's lock.
pub(crate) type Pthread = Raw<PthreadFunctions>;

pub(crate) struct PthreadFunctions;

// SAFETY: POSIX defines the functions as a reader-writer lock. An error ends the program, except in
// a try-lock.
unsafe impl Functions for PthreadFunctions {
    type State = pthread_rwlock_t;

    const INIT: pthread_rwlock_t = PTHREAD_RWLOCK_INITIALIZER;

    #[inline]
    unsafe fn read(state: *mut pthread_rwlock_t) {
        // SAFETY: the caller meets the same contract.
        assert_eq!(unsafe { libc::pthread_rwlock_rdlock(state) }, 0);
    }

    #[inline]
    unsafe fn try_read(state: *mut pthread_rwlock_t) -> bool {
        // SAFETY: the caller meets the same contract.
        unsafe { libc::pthread_rwlock_tryrdlock(state) == 0 }
    }

    #[inline]
    unsafe fn end_read(state: *mut pthread_rwlock_t) {
        // SAFETY: the caller meets the same contract.
        assert_eq!(unsafe { libc::pthread_rwlock_unlock(state) }, 0);
    }

    #[inline]
    unsafe fn write(state: *mut pthread_rwlock_t) {
        // SAFETY: the caller meets the same contract.
        assert_eq!(unsafe { libc::pthread_rwlock_wrlock(state) }, 0);
    }

    #[inline]
    unsafe fn try_write(state: *mut pthread_rwlock_t) -> bool {
        // SAFETY: the caller meets the same contract.
        unsafe { libc::pthread_rwlock_trywrlock(state) == 0 }
    }

    #[inline]
    unsafe fn end_write(state: *mut pthread_rwlock_t) {
        // SAFETY: the caller meets the same contract.
        assert_eq!(unsafe { libc::pthread_rwlock_unlock(state) }, 0);
    }
}
