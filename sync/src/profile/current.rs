//! The profile of this crate's own locks: one for the whole process, for good.

use std::cell::RefCell;
use std::fmt;

use rustix::thread as system;

use super::block::ThreadIdentity;
use super::clock::Stamp;
use super::hash::mix;
use super::recorder::{Held, Recorder, Site, Taken, Wait};
use super::shared::{Description, Profile};
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
pub(crate) struct Place {
    pub(crate) site: LockSite,
    pub(crate) class: LockClass,
}

impl Site for Place {
    #[inline]
    fn key(&self) -> u64 {
        let address = std::ptr::from_ref(self.site).addr() as u64;
        mix(address.rotate_left(8) ^ self.class as u64).max(1)
    }

    fn describe(&self) -> Description<'_> {
        Description {
            name: self.class.name(),
            place: self.site.file(),
            line: self.site.line(),
            column: self.site.column(),
            ..Description::default()
        }
    }

    fn callers(&self, out: &mut [u64]) -> usize {
        stack::callers(out)
    }
}

/// Locks that a thread can have at a time so that they are told of; with more, attempts are silent.
const HELD_MAX: usize = 32;

/// What a thread tells with, and what it has to remember of the locks that it has: guards need not
/// carry that.
struct Local {
    recorder: Recorder,
    /// Bit *i* is set while `held[i]` is free.
    free: u32,
    held: [Slot; HELD_MAX],
}

/// A lock that the thread has.
#[derive(Clone, Copy)]
struct Slot {
    site: Option<LockSite>,
    mode: LockMode,
    held: Option<Held>,
}

impl Slot {
    const FREE: Slot = Slot { site: None, mode: LockMode::Exclusive, held: None };
}

impl Local {
    /// A slot for a lock; there is one, or the attempt would not have begun.
    #[inline(always)]
    fn take_slot(&mut self) -> (u32, &mut Slot) {
        let index = self.free.trailing_zeros() % HELD_MAX as u32;
        self.free &= !(1 << index);
        (index, &mut self.held[index as usize])
    }

    #[inline(always)]
    fn free_slot(&mut self, index: u32) -> Slot {
        let index = index % HELD_MAX as u32;
        self.free |= 1 << index;
        self.held[index as usize]
    }
}

thread_local! {
    /// Has no destructor, so it can be used until the thread's last instruction.
    static LOCAL: RefCell<Local> = const {
        RefCell::new(Local {
            recorder: Recorder::new(),
            free: u32::MAX,
            held: [Slot::FREE; HELD_MAX],
        })
    };
    static LEAVE: Leave = const { Leave };
}

/// Gives the block back when the thread ends.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(profile) = observe::profile() {
            LOCAL.with_borrow_mut(|local| local.recorder.leave(profile));
        }
    }
}

/// Is the attempt that begins now recorded?
#[inline(always)]
pub(crate) fn begin(profile: &Profile) -> bool {
    LOCAL.with_borrow_mut(|local| match local.free {
        0 => local.recorder.pass_over(profile),
        _ => local.recorder.begin(profile, this_thread),
    })
}

/// Can an observer be told of one more lock?
#[cold]
pub(crate) fn has_room() -> bool {
    LOCAL.with_borrow(|local| local.free != 0)
}

/// An observer was told that this thread has a lock; gives what [`unhold`] wants.
#[cold]
pub(crate) fn hold(site: LockSite, mode: LockMode) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let (index, slot) = local.take_slot();
        *slot = Slot { site: Some(site), mode, held: None };
        index
    })
}

/// The thread has it no more.
#[cold]
pub(crate) fn unhold(index: u32) -> Option<(LockSite, LockMode)> {
    let slot = LOCAL.with_borrow_mut(|local| local.free_slot(index));
    slot.site.map(|site| (site, slot.mode))
}

/// A wait begins; `holder` is where whoever is in the way took the lock.
#[cold]
pub(crate) fn begin_wait(profile: &Profile, holder: Option<Place>) -> Wait {
    Wait { since: now(profile), holder: key_of(holder) }
}

fn now(profile: &Profile) -> Stamp {
    profile.clock().now()
}

fn key_of(place: Option<Place>) -> u64 {
    place.map_or(0, |place| place.key())
}

/// The lock is this thread's; gives what [`released`] wants.
#[inline(always)]
pub(crate) fn acquired(profile: &Profile, place: Place, mode: LockMode, taken: &Taken) -> u32 {
    LOCAL.with_borrow_mut(|local| {
        let held = local.recorder.acquired(profile, &place, taken);
        let (index, slot) = local.take_slot();
        *slot = Slot { site: Some(place.site), mode, held };
        index
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
        let index = index as usize % HELD_MAX;
        local.free |= 1 << index;
        if let Some(held) = &local.held[index].held {
            local.recorder.released(profile, held);
        }
    });
}

/// The lock is no more.
#[cold]
pub(crate) fn destroyed(lock: usize) {
    LOCAL.with_borrow_mut(|local| local.recorder.destroyed(lock));
}

#[cold]
pub(crate) fn try_failed(profile: &Profile, place: Place, lock: usize, holder: Option<Place>) {
    let holder = key_of(holder);
    LOCAL.with_borrow_mut(|local| local.recorder.try_failed(profile, &place, lock, holder));
}

#[cold]
pub(crate) fn timed_out(profile: &Profile, place: Place, lock: usize, wait: Wait) {
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
