//! A lock of C functions as lock_api's raw lock.

use std::cell::UnsafeCell;

use lock_api::{GuardNoSend, RawRwLock};

use super::Functions;

/// A lock made of C functions.
pub(crate) struct Raw<F: Functions>(UnsafeCell<F::State>);

// SAFETY: any thread may call the functions, and the memory holds only the lock's state.
unsafe impl<F: Functions> Send for Raw<F> {}
// SAFETY: any thread may call the functions, and only the functions access the memory.
unsafe impl<F: Functions> Sync for Raw<F> {}

// SAFETY: the contract of `Functions`. The lock is borrowed while it is in use, so it does not
// move; guards stay on their thread.
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
        // SAFETY: the guard shows that this thread holds the lock.
        guard.into_iter().for_each(|guard| unsafe { self.unlock_exclusive(guard) });
        is_locked
    }

    fn is_locked_exclusive(&self) -> bool {
        let guard = self.try_lock_shared();
        let is_locked = guard.is_none();
        // SAFETY: the guard shows that this thread holds the lock.
        guard.into_iter().for_each(|guard| unsafe { self.unlock_shared(guard) });
        is_locked
    }
}
