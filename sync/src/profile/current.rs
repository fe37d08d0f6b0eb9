//! The profile of this crate's own locks: one for the whole process, for good.

use std::cell::RefCell;
use std::fmt;

use rustix::thread as system;

use super::block::ThreadIdentity;
use super::clock::Stamp;
use super::hash::mix;
use super::recorder::{Held, Recorder, Site, Taken, Wait};
use super::shared::{Description, Profile};
use crate::class::LockClass;
use crate::lock::observe::{self, LockSite};

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
}

thread_local! {
    /// Has no destructor, so it can be used until the thread's last instruction.
    static RECORDER: RefCell<Recorder> = const { RefCell::new(Recorder::new()) };
    static LEAVE: Leave = const { Leave };
}

/// Gives the block back when the thread ends.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(profile) = observe::profile() {
            RECORDER.with_borrow_mut(|recorder| recorder.leave(profile));
        }
    }
}

/// Is the attempt that begins now recorded?
#[inline]
pub(crate) fn begin(profile: &Profile) -> bool {
    RECORDER.with_borrow_mut(|recorder| recorder.begin(profile, this_thread))
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

#[inline]
pub(crate) fn acquired(profile: &Profile, place: Place, taken: &Taken) -> Option<Held> {
    RECORDER.with_borrow_mut(|recorder| recorder.acquired(profile, &place, taken))
}

#[inline]
pub(crate) fn released(profile: &Profile, held: &Held) {
    RECORDER.with_borrow_mut(|recorder| recorder.released(profile, held));
}

#[cold]
pub(crate) fn try_failed(profile: &Profile, place: Place, lock: usize, holder: Option<Place>) {
    let holder = key_of(holder);
    RECORDER.with_borrow_mut(|recorder| recorder.try_failed(profile, &place, lock, holder));
}

#[cold]
pub(crate) fn timed_out(profile: &Profile, place: Place, lock: usize, wait: Wait) {
    RECORDER.with_borrow_mut(|recorder| recorder.timed_out(profile, &place, lock, wait));
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
