//! The traits of lock_api for this lock.

use std::time::{Duration, Instant};

use lock_api::{GuardNoSend, RawRwLock, RawRwLockDowngrade, RawRwLockTimed};

use super::wait::Patience;
use super::{Bravo, SlotTable, clock};

/// A reader's hold: a slot, or the underlying lock. It stays on its thread, since its slot is in
/// the thread's row.
pub struct SharedHold<G> {
    hold: ReaderHold<G>,
    _stays: GuardNoSend,
}

enum ReaderHold<G> {
    /// The slot with this index shows the lock.
    Slot(u32),
    /// The underlying lock is held.
    Underlying(G),
}

impl<G> SharedHold<G> {
    #[inline(always)]
    fn slot(index: u32) -> SharedHold<G> {
        SharedHold { hold: ReaderHold::Slot(index), _stays: GuardNoSend::new() }
    }

    fn underlying(guard: G) -> SharedHold<G> {
        SharedHold { hold: ReaderHold::Underlying(guard), _stays: GuardNoSend::new() }
    }
}

impl<R: RawRwLock, S: SlotTable> Bravo<R, S> {
    /// The hold of a reader that has taken the underlying lock; switches the bias on if it is time.
    fn entered(&self, guard: R::SharedGuard) -> SharedHold<R::SharedGuard> {
        self.rebias();
        SharedHold::underlying(guard)
    }

    #[cold]
    fn lock_shared_slow(&self) -> SharedHold<R::SharedGuard> {
        self.entered(self.underlying.lock_shared())
    }
}

// SAFETY:
// - A writer holds the underlying lock, which excludes readers of that lock. It also excludes
//   readers by slot: it has switched the bias off and waited, with acquire, until no slot showed
//   this lock; and only a reader that holds the underlying lock switches the bias on again.
// - A reader holds the underlying lock or a slot that the next writer waits for. It comes after
//   earlier writers by the acquire of `state` or of the underlying lock.
// - A forgotten guard leaves its slot or the underlying lock held.
// The models show each of these.
unsafe impl<R: RawRwLock, S: SlotTable> RawRwLock for Bravo<R, S> {
    #[cfg(not(loom))]
    const INIT: Self = Bravo::new(R::INIT, S::INIT);
    #[cfg(loom)]
    const INIT: Self = panic!("loom's atomics have no constant form");

    type SharedGuard = SharedHold<R::SharedGuard>;
    type ExclusiveGuard = R::ExclusiveGuard;

    #[inline]
    fn lock_shared(&self) -> Self::SharedGuard {
        match self.enter() {
            Some(slot) => SharedHold::slot(slot),
            None => self.lock_shared_slow(),
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<Self::SharedGuard> {
        match self.enter() {
            Some(slot) => Some(SharedHold::slot(slot)),
            None => self.underlying.try_lock_shared().map(|guard| self.entered(guard)),
        }
    }

    #[inline]
    unsafe fn unlock_shared(&self, guard: Self::SharedGuard) {
        match guard.hold {
            ReaderHold::Slot(slot) => self.leave(slot),
            // SAFETY: the guard is of a read lock that the caller holds.
            ReaderHold::Underlying(guard) => unsafe { self.underlying.unlock_shared(guard) },
        }
    }

    /// Aborts the process if the kernel refuses the `membarrier` that it granted before.
    #[inline]
    fn lock_exclusive(&self) -> Self::ExclusiveGuard {
        let exclusive = self.underlying.lock_exclusive();
        let is_alone = self.revoke(Patience::Endless);
        assert!(is_alone, "a writer without a deadline stopped waiting for biased readers");
        exclusive
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<Self::ExclusiveGuard> {
        self.try_revoke(self.underlying.try_lock_exclusive()?, Patience::None)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, guard: Self::ExclusiveGuard) {
        // SAFETY: a write lock of ours is one of the underlying lock.
        unsafe { self.underlying.unlock_exclusive(guard) };
    }

    fn is_locked(&self) -> bool {
        self.underlying.is_locked() || self.has_slot()
    }

    /// Whether a writer has the underlying lock. It may still wait for biased readers.
    fn is_locked_exclusive(&self) -> bool {
        self.underlying.is_locked_exclusive()
    }
}

// SAFETY: as above; the underlying lock goes from write to read without a gap, and readers by slot
// may share with it.
unsafe impl<R: RawRwLockDowngrade, S: SlotTable> RawRwLockDowngrade for Bravo<R, S> {
    unsafe fn downgrade(&self, guard: Self::ExclusiveGuard) -> Self::SharedGuard {
        // SAFETY: a write lock of ours is one of the underlying lock.
        SharedHold::underlying(unsafe { self.underlying.downgrade(guard) })
    }
}

// SAFETY: as above; an attempt that times out holds nothing.
unsafe impl<R, S: SlotTable> RawRwLockTimed for Bravo<R, S>
where
    R: RawRwLockTimed<Duration = Duration, Instant = Instant>,
{
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<Self::SharedGuard> {
        match self.enter() {
            Some(slot) => Some(SharedHold::slot(slot)),
            None => self.underlying.try_lock_shared_for(timeout).map(|guard| self.entered(guard)),
        }
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> Option<Self::SharedGuard> {
        match self.enter() {
            Some(slot) => Some(SharedHold::slot(slot)),
            None => self.underlying.try_lock_shared_until(timeout).map(|guard| self.entered(guard)),
        }
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<Self::ExclusiveGuard> {
        match clock::now().checked_add(timeout) {
            Some(deadline) => self.try_lock_exclusive_until(deadline),
            None => Some(self.lock_exclusive()),
        }
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<Self::ExclusiveGuard> {
        let exclusive = self.underlying.try_lock_exclusive_until(timeout)?;
        self.try_revoke(exclusive, Patience::Until(timeout))
    }
}
