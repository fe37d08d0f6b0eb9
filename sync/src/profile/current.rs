//! The profile into which the locks of this crate record: one for the whole process, permanently.

use std::cell::RefCell;
use std::fmt;

use rustix::thread as system;

use super::attempt::{Acquisition, LockWait, ProfiledSite};
use super::block::ThreadIdentity;
use super::hash::mix;
use super::plan::HOLDS_MAX;
use super::recorder::Recorder;
use super::shared::{Profile, SiteDescription};
use super::stack;
use crate::class::LockClass;
use crate::lock::observe::{self, LockMode, LockSite};

/// The locks already have an observer or a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyWatched;

impl fmt::Display for AlreadyWatched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the locks already have a profile or an observer")
    }
}

impl std::error::Error for AlreadyWatched {}

/// Makes the locks of this crate record into this profile, from now on, while the profile is on.
/// The process can switch the profile on and off, and so can a tool that maps the profile's file.
///
/// Fails if the process already has a profile or an observer.
pub fn install(profile: &'static Profile) -> Result<(), AlreadyWatched> {
    observe::watch_by_profile(profile).map_err(|_| AlreadyWatched)
}

/// The profile of this process's locks, if one is installed.
#[must_use]
pub fn installed() -> Option<&'static Profile> {
    observe::profile()
}

/// A place in the source at which locks of one class are taken.
#[derive(Clone, Copy)]
pub(crate) struct ClassSite {
    pub(crate) site: LockSite,
    pub(crate) class: LockClass,
}

impl ProfiledSite for ClassSite {
    #[inline]
    fn key(&self) -> u64 {
        let address = std::ptr::from_ref(self.site).addr() as u64;
        mix(address.rotate_left(8) ^ self.class as u64).max(1)
    }

    fn describe(&self) -> SiteDescription<'_> {
        SiteDescription {
            name: self.class.name(),
            place: self.site.file(),
            line: self.site.line(),
            column: self.site.column(),
            ..SiteDescription::default()
        }
    }

    fn callers(&self, out: &mut [u64]) -> usize {
        stack::callers(out)
    }
}

/// The largest number of reported holds that a thread can have at one time. With an observer,
/// further attempts are not reported.
const HELD_MAX: usize = HOLDS_MAX;

/// The recorder of a thread and, for an observer, the site and mode of each of the thread's
/// reported holds, so that guards need not carry them.
struct ThreadLocal {
    recorder: Recorder,
    held: [Option<(LockSite, LockMode)>; HELD_MAX],
}

thread_local! {
    /// Has no destructor, so destructors of other thread-locals can still use it.
    static LOCAL: RefCell<ThreadLocal> = const {
        RefCell::new(ThreadLocal { recorder: Recorder::new(), held: [None; HELD_MAX] })
    };
    static LEAVE: LeaveOnExit = const { LeaveOnExit };
}

/// Gives the thread's block back when the thread ends.
struct LeaveOnExit;

impl Drop for LeaveOnExit {
    fn drop(&mut self) {
        if let Some(profile) = observe::profile() {
            LOCAL.with_borrow_mut(|local| local.recorder.leave(profile));
        }
    }
}

/// Begins an attempt; returns whether it is recorded.
#[inline(always)]
pub(crate) fn begin(profile: &Profile) -> bool {
    LOCAL.with_borrow_mut(|local| match local.recorder.has_room() {
        true => local.recorder.begin(profile, this_thread),
        false => local.recorder.pass_over(profile),
    })
}

/// Whether this thread can report one more hold to an observer.
#[cold]
pub(crate) fn has_room() -> bool {
    LOCAL.with_borrow(|local| local.held.iter().any(Option::is_none))
}

/// Remembers a hold that was reported to an observer; returns the argument for [`unhold`].
#[cold]
pub(crate) fn hold(site: LockSite, mode: LockMode) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let free = local.held.iter().position(Option::is_none).unwrap_or(0);
        local.held[free] = Some((site, mode));
        free as u32
    })
}

/// Forgets a hold, and returns its site and mode.
#[cold]
pub(crate) fn unhold(index: u32) -> Option<(LockSite, LockMode)> {
    LOCAL.with_borrow_mut(|local| local.held.get_mut(index as usize)?.take())
}

/// Begins a wait for a lock.
#[cold]
pub(crate) fn begin_wait(profile: &Profile, place: ClassSite, lock: usize) -> LockWait {
    LOCAL.with_borrow(|local| local.recorder.begin_wait(profile, &place, lock))
}

/// Records an acquisition; returns the argument for [`released`].
#[inline(always)]
pub(crate) fn acquired(profile: &Profile, place: ClassSite, taken: &Acquisition) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let hold = local.recorder.acquired(profile, &place, taken);
        hold.map_or(u32::MAX, |hold| hold.index())
    })
}

/// Notes an acquisition whose attempt is not recorded.
#[inline]
pub(crate) fn acquired_silently(profile: &Profile, lock: usize) {
    LOCAL.with_borrow_mut(|local| local.recorder.acquired_silently(profile, lock));
}

/// Records a release, just before it happens.
#[inline(always)]
pub(crate) fn released(profile: &Profile, index: u32) {
    LOCAL.with_borrow_mut(|local| {
        if let Some(hold) = local.recorder.hold_at(index) {
            local.recorder.released(profile, &hold);
        }
    });
}

/// Forgets this thread's failed try-locks of a lock that is being dropped.
#[cold]
pub(crate) fn destroyed(lock: usize) {
    LOCAL.with_borrow_mut(|local| local.recorder.destroyed(lock));
}

#[cold]
pub(crate) fn try_failed(profile: &Profile, place: ClassSite, lock: usize) {
    let holder = profile.holder_of(lock);
    LOCAL.with_borrow_mut(|local| local.recorder.try_failed(profile, &place, lock, holder));
}

#[cold]
pub(crate) fn timed_out(profile: &Profile, place: ClassSite, lock: usize, wait: LockWait) {
    LOCAL.with_borrow_mut(|local| local.recorder.timed_out(profile, &place, lock, wait));
}

/// The identity of this thread; `None` if the thread is ending and could not give a block back.
fn this_thread() -> Option<ThreadIdentity> {
    LEAVE.try_with(|_| ()).ok()?;
    let mut name = [0; 16];
    if let Ok(found) = system::name() {
        for (to, from) in name.iter_mut().zip(found.as_bytes()) {
            *to = *from;
        }
    }
    let tid = system::gettid().as_raw_nonzero().get().unsigned_abs();
    Some(ThreadIdentity { tid, name })
}
