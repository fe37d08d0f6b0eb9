//! The watcher of the locks: one observer or one profile for the whole process, switched on and off
//! while the process runs.
//!
//! While the watcher is off, each lock executes two relaxed loads and one branch more than its raw
//! lock when it is acquired, one branch on its guard when it is released, and two loads and one
//! branch when the lock itself is dropped. While the watcher is on, a reported acquisition first
//! tries the lock, to learn whether another thread holds it and where that thread took it.
//!
//! Invariants:
//! - Events come in pairs, no matter when the switch is turned: each `acquired` is followed by
//!   exactly one `released`, and there is no `released` without an `acquired`. The release of a
//!   hold is reported if and only if its acquisition was reported.
//! - After `waiting` the same thread next reports `acquired` or `try_failed` for that attempt.
//! - A thread that has 31 reported holds reports no further attempts until one of them ends.
//! - An observer must take no lock of this crate (it would be called again without end), must not
//!   panic (the hold would count as reported for ever), and must be quick: it runs while the lock
//!   is held.
//!
//! Nothing here reads a clock: an observer takes its own times when it is called.

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
    /// For reading: other readers may hold the lock at the same time.
    Shared,
    /// With no other holder: a mutex, or a lock taken for writing.
    Exclusive,
}

/// One attempt at a lock, and the hold that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// The kind of lock.
    pub class: LockClass,
    /// The address of the lock, which distinguishes locks of one class while they live.
    pub address: usize,
    /// The place in the source where the lock is taken.
    pub site: LockSite,
    /// How the lock is taken.
    pub mode: LockMode,
}

/// Whether the lock was held when an attempt began, and by which call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// No thread held the lock.
    Free,
    /// Another thread held the lock. If several readers held it, `by` belongs to the reader that
    /// came last.
    Held {
        /// The call site of the holder; `None` if the holder took the lock while the watcher was
        /// off.
        by: Option<LockSite>,
    },
}

/// Receives the events of the locks.
pub trait Observer: Sync {
    /// The attempt found the lock held and waits from now on.
    fn waiting(&self, attempt: &LockUse, holder: Option<LockSite>);

    /// The lock is acquired; if the lock was found held, the wait ends here.
    fn acquired(&self, hold: &LockUse, found: LockState);

    /// The lock is about to be released; `was_wanted` says whether another attempt failed or waited
    /// during the hold.
    fn released(&self, hold: &LockUse, was_wanted: bool);

    /// The attempt failed: it was a try-lock, or it reached its time limit.
    fn try_failed(&self, attempt: &LockUse, holder: Option<LockSite>);
}

/// The process already has an observer or a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySet;

impl std::fmt::Display for AlreadySet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the locks already have an observer or a profile")
    }
}

impl std::error::Error for AlreadySet {}

/// The receiver of the events.
#[derive(Clone, Copy)]
pub(super) enum Watcher {
    Observer(&'static dyn Observer),
    Profile(&'static Profile),
}

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// The switch of a process without a profile: not zero while events are reported.
static OWN_SWITCH: AtomicU64 = AtomicU64::new(0);

/// The switch in use: `OWN_SWITCH`, or the switch of the profile, which other processes can turn.
static SWITCH: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const OWN_SWITCH).cast_mut());

/// Sets the observer of this process, permanently. It receives events only after a call of [`on`].
///
/// Fails if there is already an observer or a profile.
pub fn set(observer: &'static dyn Observer) -> Result<(), AlreadySet> {
    WATCHER.set(Watcher::Observer(observer)).map_err(|_| AlreadySet)
}

/// Sets the profile of this process, permanently. The profile may be switched on already.
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

/// Switches reporting on: attempts that begin from now on are reported, if there is an observer or
/// a profile. Other threads see the change a moment later.
pub fn on() {
    turn(true);
}

/// Switches reporting off: attempts that begin from now on are not reported. Other threads see the
/// change a moment later.
pub fn off() {
    turn(false);
}

/// Turns the switch. A profile uses a different value in each period in which it is on.
fn turn(is_on: bool) {
    match profile() {
        Some(profile) => profile.turn(is_on),
        None => OWN_SWITCH.store(is_on.into(), Relaxed),
    }
}

/// Whether attempts that begin now are reported.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    on_since() != 0
}

/// The value of the switch: 0 while reporting is off. A profile has a different value in each
/// period in which it is on.
#[inline(always)]
pub(super) fn on_since() -> u64 {
    switch().load(Relaxed)
}

#[inline(always)]
#[allow(unsafe_code)]
fn switch() -> &'static AtomicU64 {
    // SAFETY: every pointer stored there comes from a reference that is valid for ever.
    unsafe { &*SWITCH.load(Relaxed) }
}

/// The observer or profile, if one was set.
#[inline]
pub(super) fn watcher() -> Option<Watcher> {
    WATCHER.get().copied()
}
