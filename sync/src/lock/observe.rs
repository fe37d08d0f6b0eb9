//! Who watches the locks: one observer for the whole process, switched on and off while it runs.
//!
//! While it is off, a lock does one relaxed load and one branch more than its raw lock when it is
//! taken, and one branch on its own guard when it is left. While it is on, every lock is first
//! tried, so that it is known whether somebody was in the way, and who.
//!
//! Invariants:
//! - Events come in pairs, whenever the switch is turned: whatever was told as acquired is told as
//!   released, once, and nothing else is told as released. So a hold that
//!   began while off is silent to its end, and one that began while on is told to its end.
//! - Whatever was told as waiting is next told, by the same thread, as acquired or as failed.
//! - An observer takes no lock of this crate (it would be told of it, without end), does not panic
//!   (the hold would count as told for ever), and is quick: it is told while the lock is held.
//!
//! Nothing here reads a clock: times are the observer's own, taken when it is told.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::class::LockClass;

/// The place in the source where a lock is taken.
pub type LockSite = &'static Location<'static>;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// For reading, beside other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// One attempt at a lock, and the hold that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// The kind of lock.
    pub class: LockClass,
    /// Where the lock lies; tells the locks of one class apart while they live.
    pub address: usize,
    /// Where it is taken.
    pub site: LockSite,
    /// How it is taken.
    pub mode: LockMode,
}

/// What stood in the way of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nobody.
    Free,
    /// Somebody who took the lock here; nobody knows where if that was while off. Of several
    /// readers it is the one who came last.
    Held {
        /// Where the holder took it.
        by: Option<LockSite>,
    },
}

/// Is told what happens to the locks.
pub trait Observer: Sync {
    /// The attempt found the lock held, and waits from now on.
    fn waiting(&self, attempt: &LockUse, holder: Option<LockSite>);

    /// The lock is taken; if it was found held, this ends the wait.
    fn acquired(&self, hold: &LockUse, found: Found);

    /// The lock is about to be left. Was it wanted by another attempt meanwhile?
    fn released(&self, hold: &LockUse, was_wanted: bool);

    /// The attempt has failed: at once, or because its time is over.
    fn try_failed(&self, attempt: &LockUse, holder: Option<LockSite>);
}

/// There is an observer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySet;

impl std::fmt::Display for AlreadySet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the locks have an observer already")
    }
}

impl std::error::Error for AlreadySet {}

static ON: AtomicBool = AtomicBool::new(false);
static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();

/// Names the observer of this process, for good. It is told nothing before [`on`].
///
/// # Errors
/// Another one was named before.
pub fn set(observer: &'static dyn Observer) -> Result<(), AlreadySet> {
    OBSERVER.set(observer).map_err(|_| AlreadySet)
}

/// Attempts that begin from now on are told, if there is an observer; other threads see it a moment
/// later.
pub fn on() {
    ON.store(true, Relaxed);
}

/// Attempts that begin from now on are silent; other threads see it a moment later.
pub fn off() {
    ON.store(false, Relaxed);
}

/// Is what begins now told?
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// The observer that was set.
pub(super) fn observer() -> Option<&'static dyn Observer> {
    OBSERVER.get().copied()
}
