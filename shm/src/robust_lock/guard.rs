//! The guard of a robust lock.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use forebay_sync::Words;

use super::futex::Futex;
use super::lock::RobustLock;
use super::watched::Hold;

/// The right to use the data that a [`RobustLock`] protects, until it is dropped.
///
/// If a panic drops the guard, the lock is free, but the protected data needs repair.
#[must_use = "the lock is free again as soon as the guard is dropped"]
pub struct RobustGuard<'a, W: Words, F: Futex> {
    lock: &'a RobustLock<W, F>,
    must_repair: bool,
    hold: Hold<'a>,
    /// Borrows the participant, which belongs to one thread.
    of_participant: PhantomData<&'a Cell<()>>,
}

impl<'a, W: Words, F: Futex> RobustGuard<'a, W, F> {
    pub(super) fn new(lock: &'a RobustLock<W, F>, must_repair: bool, hold: Hold<'a>) -> Self {
        RobustGuard { lock, must_repair, hold, of_participant: PhantomData }
    }

    /// Whether an owner has died or panicked and no later owner has repaired the protected data,
    /// which may be in the middle of a change.
    pub fn must_repair(&self) -> bool {
        self.must_repair
    }

    /// Declares the protected data consistent again.
    pub fn repaired(&mut self) {
        self.must_repair = false;
        self.lock.clear_repair();
    }
}

impl<W: Words, F: Futex> Drop for RobustGuard<'_, W, F> {
    fn drop(&mut self) {
        self.hold.end();
        self.lock.unlock(self.must_repair || std::thread::panicking());
    }
}

impl<W: Words, F: Futex> fmt::Debug for RobustGuard<'_, W, F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RobustGuard").field("must_repair", &self.must_repair).finish()
    }
}
