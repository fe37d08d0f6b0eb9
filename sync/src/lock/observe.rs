//! Who watches the locks: one observer or one profile for the whole process, switched on and off
//! while it runs.
//!
//! While it is off, a lock does two relaxed loads and one branch more than its raw lock when it is
//! taken, and one branch on its own guard when it is left. While it is on, every lock is first
//! tried, so that it is known whether somebody was in the way, and who. A lock that ends costs a
//! branch too.
//!
//! Invariants:
//! - Events come in pairs, whenever the switch is turned: whatever was told as acquired is told as
//!   released, once, and nothing else is told as released. So a hold that
//!   began while off is silent to its end, and one that began while on is told to its end.
//! - Whatever was told as waiting is next told, by the same thread, as acquired or as failed.
//! - A thread that has 31 told locks is silent about further ones.
//! - An observer takes no lock of this crate (it would be told of it, without end), does not panic
//!   (the hold would count as told for ever), and is quick: it is told while the lock is held.
//!
//! Nothing here reads a clock: times are the observer's own, taken when it is told.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use crate::class::LockClass;
use crate::profile::Profile;

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
pub enum LockState {
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
    fn acquired(&self, hold: &LockUse, found: LockState);

    /// The lock is about to be left. Was it wanted by another attempt meanwhile?
    fn released(&self, hold: &LockUse, was_wanted: bool);

    /// The attempt has failed: at once, or because its time is over.
    fn try_failed(&self, attempt: &LockUse, holder: Option<LockSite>);
}

/// There is an observer already, or a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySet;

impl std::fmt::Display for AlreadySet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the locks have an observer or a profile already")
    }
}

impl std::error::Error for AlreadySet {}

/// Who is told.
#[derive(Clone, Copy)]
pub(super) enum Watcher {
    Observer(&'static dyn Observer),
    Profile(&'static Profile),
}

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// The switch of an observer.
static OWN_SWITCH: AtomicU64 = AtomicU64::new(0);

/// The switch that counts: a profile has one that others can reach.
static SWITCH: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const OWN_SWITCH).cast_mut());

/// Names the observer of this process, for good. It is told nothing before [`on`].
///
/// # Errors
/// Another one was named before, or there is a profile.
pub fn set(observer: &'static dyn Observer) -> Result<(), AlreadySet> {
    WATCHER.set(Watcher::Observer(observer)).map_err(|_| AlreadySet)
}

/// The same for a profile, which may be on.
pub(crate) fn watch_by_profile(profile: &'static Profile) -> Result<(), AlreadySet> {
    WATCHER.set(Watcher::Profile(profile)).map_err(|_| AlreadySet)?;
    SWITCH.store(std::ptr::from_ref(profile.switch()).cast_mut(), Relaxed);
    Ok(())
}

/// The profile of this process, if it has one.
pub(crate) fn profile() -> Option<&'static Profile> {
    match watcher()? {
        Watcher::Profile(profile) => Some(profile),
        Watcher::Observer(_) => None,
    }
}

/// Attempts that begin from now on are told, if there is an observer or a profile; other threads
/// see it a moment later.
pub fn on() {
    turn(true);
}

/// Attempts that begin from now on are silent; other threads see it a moment later.
pub fn off() {
    turn(false);
}

/// The switch of a profile tells the times in which it is on apart.
fn turn(is_on: bool) {
    match profile() {
        Some(profile) => profile.turn(is_on),
        None => OWN_SWITCH.store(is_on.into(), Relaxed),
    }
}

/// Is what begins now told?
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    on_since() != 0
}

/// What tells the time in which a profile is on from those before; 0 while off.
#[inline(always)]
pub(super) fn on_since() -> u64 {
    switch().load(Relaxed)
}

#[inline(always)]
#[allow(unsafe_code)]
fn switch() -> &'static AtomicU64 {
    // SAFETY: whatever was stored there comes from a reference that is valid for ever.
    unsafe { &*SWITCH.load(Relaxed) }
}

/// Who was named.
#[inline]
pub(super) fn watcher() -> Option<Watcher> {
    WATCHER.get().copied()
}
