//! The profile of this crate's own locks: one for the whole process, for good.

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

/// The locks are observed already, or have a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyWatched;

impl fmt::Display for AlreadyWatched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the locks have a profile or an observer already")
    }
}

impl std::error::Error for AlreadyWatched {}

/// From now on this profile is where the locks of this crate are recorded, while it is on: by
/// itself, or by a tool that has its words too.
///
/// # Errors
/// There is one already, or an observer.
pub fn install(profile: &'static Profile) -> Result<(), AlreadyWatched> {
    observe::watch_by_profile(profile).map_err(|_| AlreadyWatched)
}

/// The profile of this process's locks, if there is one.
#[must_use]
pub fn installed() -> Option<&'static Profile> {
    observe::profile()
}

/// A place in the source, for locks of one class.
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

/// Locks that a thread can have at a time so that an observer is told of them; with more, attempts
/// are silent.
const HELD_MAX: usize = HOLDS_MAX;

/// What a thread tells with, and for an observer what it has to remember of the locks that it has:
/// guards need not carry that.
struct ThreadLocal {
    recorder: Recorder,
    held: [Option<(LockSite, LockMode)>; HELD_MAX],
}

thread_local! {
    /// Has no destructor, so it can be used until the thread's last instruction.
    static LOCAL: RefCell<ThreadLocal> = const {
        RefCell::new(ThreadLocal { recorder: Recorder::new(), held: [None; HELD_MAX] })
    };
    static LEAVE: LeaveOnExit = const { LeaveOnExit };
}

/// Gives the block back when the thread ends.
struct LeaveOnExit;

impl Drop for LeaveOnExit {
    fn drop(&mut self) {
        if let Some(profile) = observe::profile() {
            LOCAL.with_borrow_mut(|local| local.recorder.leave(profile));
        }
    }
}

/// Is the attempt that begins now recorded?
#[inline(always)]
pub(crate) fn begin(profile: &Profile) -> bool {
    LOCAL.with_borrow_mut(|local| match local.recorder.has_room() {
        true => local.recorder.begin(profile, this_thread),
        false => local.recorder.pass_over(profile),
    })
}

/// Can an observer be told of one more lock?
#[cold]
pub(crate) fn has_room() -> bool {
    LOCAL.with_borrow(|local| local.held.iter().any(Option::is_none))
}

/// An observer was told that this thread has a lock; gives what [`unhold`] wants.
#[cold]
pub(crate) fn hold(site: LockSite, mode: LockMode) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let free = local.held.iter().position(Option::is_none).unwrap_or(0);
        local.held[free] = Some((site, mode));
        free as u32
    })
}

/// The thread has it no more.
#[cold]
pub(crate) fn unhold(index: u32) -> Option<(LockSite, LockMode)> {
    LOCAL.with_borrow_mut(|local| local.held.get_mut(index as usize)?.take())
}

/// A wait for a lock begins.
#[cold]
pub(crate) fn begin_wait(profile: &Profile, place: ClassSite, lock: usize) -> LockWait {
    LOCAL.with_borrow(|local| local.recorder.begin_wait(profile, &place, lock))
}

/// The lock is this thread's; gives what [`released`] wants.
#[inline(always)]
pub(crate) fn acquired(profile: &Profile, place: ClassSite, taken: &Acquisition) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let hold = local.recorder.acquired(profile, &place, taken);
        hold.map_or(u32::MAX, |hold| hold.index())
    })
}

/// The lock is this thread's by an attempt that is not recorded.
#[inline]
pub(crate) fn acquired_silently(profile: &Profile, lock: usize) {
    LOCAL.with_borrow_mut(|local| local.recorder.acquired_silently(profile, lock));
}

/// The lock is about to be left.
#[inline(always)]
pub(crate) fn released(profile: &Profile, index: u32) {
    LOCAL.with_borrow_mut(|local| {
        if let Some(hold) = local.recorder.hold_at(index) {
            local.recorder.released(profile, &hold);
        }
    });
}

/// The lock is no more.
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

/// This thread, if it will be able to give a block back.
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
