//! The right to use what a lock protects.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use forebay_sync::Words;

use super::futex::Futex;
use super::lock::RobustLock;
use super::watched::Hold;

/// The right to use what a [`RobustLock`] protects, until it is dropped.
///
/// Dropped by a panic, it leaves the lock free but in need of repair.
#[must_use = "the lock is free again as soon as this is dropped"]
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

    /// Did an owner die, or panic, and nobody has repaired since? Then what the lock protects may
    /// be in the middle of a change.
    pub fn must_repair(&self) -> bool {
        self.must_repair
    }

    /// Says that what the lock protects is whole again.
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
