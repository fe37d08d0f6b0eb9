//! What is recorded of a call, step by step. Between the steps the real functions run.

use std::ffi::c_long;

use forebay_sync::profile::{Acquisition, LockWait, ProfiledHold, Stamp};

use crate::place::Place;
use crate::process::{self, Process};
use crate::settings::settings;
use crate::thread::{self, Entered, Thread};
use crate::{calls, errno};

/// How an attempt ended, as the functions of the C library say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken,
    /// The last owner died while it had the lock.
    TakenFromDead,
    Busy,
    TimedOut,
    Failed,
}

/// How an attempt began.
pub(crate) enum Begun<'thread> {
    /// Nothing is recorded now.
    Off,
    /// Not this one: it [ends silently](end_silently).
    PassedOver,
    /// It [ends](end).
    Recorded(Entered<'thread>),
}

/// A lock that is about to be left.
pub(crate) struct Left {
    hold: ProfiledHold,
    at: Stamp,
}

/// Begins an attempt, if it is recorded: finds out where it is made. What is given back may be kept
/// while the lock is tried, but not while it is waited for.
#[inline(always)]
pub(crate) fn begin<'thread>(place: &mut Place) -> Begun<'thread> {
    let Some(mut entered) = thread::enter() else {
        return Begun::Off;
    };
    let process = entered.process;
    let thread = entered.thread();
    if !process.profile.is_on() {
        return Begun::Off;
    }
    if !thread.begin(process) {
        return Begun::PassedOver;
    }
    if process.frame_count > 1 {
        look_up(place, thread, process);
    }
    place.seal(process.is_by_lock);
    Begun::Recorded(entered)
}

#[cold]
fn look_up(place: &mut Place, thread: &mut Thread, process: &Process) {
    let caller = place.caller;
    place.fill(|frames| thread.stack.callers(caller, &mut frames[..process.frame_count]));
}

/// The lock is found held, and is now waited for.
#[cold]
pub(crate) fn begin_wait(place: &Place) -> Option<LockWait> {
    let mut entered = thread::enter_ready()?;
    let process = entered.process;
    let wait = entered.thread().recorder.begin_wait(&process.profile, place, place.lock);
    if place.take_is_new() {
        look(process, place.frames());
    }
    Some(wait)
}

/// An attempt of [`begin`] is over, after a wait.
#[cold]
pub(crate) fn end_wait(place: &Place, outcome: Outcome, wait: Option<LockWait>) {
    if let Some(entered) = thread::enter_ready() {
        end(entered, place, outcome, wait);
    }
}

/// An attempt of [`begin`] is over.
#[inline(always)]
pub(crate) fn end(entered: Entered<'_>, place: &Place, outcome: Outcome, wait: Option<LockWait>) {
    match outcome {
        Outcome::Taken => taken(entered, place, wait, false),
        Outcome::TakenFromDead => taken_from_dead(entered, place, wait),
        outcome => not_taken(entered, place, outcome, wait),
    }
}

#[cold]
#[inline(never)]
fn taken_from_dead(entered: Entered<'_>, place: &Place, wait: Option<LockWait>) {
    taken(entered, place, wait, true);
}

#[inline(always)]
fn taken(mut entered: Entered<'_>, place: &Place, wait: Option<LockWait>, has_owner_died: bool) {
    let process = entered.process;
    let thread = entered.thread();
    let is_shared = place.kind.is_shared();
    let taken = Acquisition { lock: place.lock, wait, is_shared, has_owner_died };
    thread.recorder.acquired(&process.profile, place, &taken);
    if place.take_is_new() {
        thread.must_look |= !place.frames().iter().all(|at| process.modules.knows(*at));
    }
}

/// An attempt is over that was passed over.
#[inline]
pub(crate) fn end_silently(lock: usize, outcome: Outcome) {
    if !matches!(outcome, Outcome::Taken | Outcome::TakenFromDead) {
        return;
    }
    if let Some(mut entered) = thread::enter_ready() {
        let process = entered.process;
        entered.thread().recorder.acquired_silently(&process.profile, lock);
    }
}

#[cold]
fn not_taken(mut entered: Entered<'_>, place: &Place, outcome: Outcome, wait: Option<LockWait>) {
    let process = entered.process;
    let (profile, recorder) = (&process.profile, &mut entered.thread().recorder);
    match (outcome, wait) {
        (Outcome::Busy, None) => {
            let holder = profile.holder_of(place.lock);
            recorder.try_failed(profile, place, place.lock, holder);
        }
        (Outcome::TimedOut, Some(wait)) => recorder.timed_out(profile, place, place.lock, wait),
        (_, Some(_)) => recorder.give_up(),
        (_, None) => {}
    }
    if place.take_is_new() {
        look(process, place.frames());
    }
}

/// The lock is about to be left; `None` if nobody recorded that it was taken.
#[inline(always)]
pub(crate) fn leave(lock: usize) -> Option<Left> {
    let mut entered = thread::enter_ready()?;
    let process = entered.process;
    let hold = entered.thread().recorder.find_hold(lock)?;
    Some(Left { hold, at: process.profile.clock().now() })
}

/// The lock is left.
#[inline(always)]
pub(crate) fn left(left: &Left) {
    let Some(mut entered) = thread::enter_ready() else {
        return;
    };
    let process = entered.process;
    let thread = entered.thread();
    thread.recorder.released_at(&process.profile, &left.hold, left.at);
    // Not before: it takes long, and nobody waits for us now.
    if thread.must_look {
        thread.must_look = false;
        process.modules.look(&process.profile);
    }
}

#[cold]
fn look(process: &Process, frames: &[u64]) {
    if !frames.iter().all(|at| process.modules.knows(*at)) {
        process.modules.look(&process.profile);
    }
}

/// When a thread that has left its lock began to wait for a condition; `None` while nothing is
/// recorded.
#[inline]
pub(crate) fn fall_asleep() -> Option<Stamp> {
    let profile = &thread::enter()?.process.profile;
    profile.is_on().then(|| profile.clock().now())
}

/// It has taken its lock back. Whether it found that held cannot be seen.
#[inline]
pub(crate) fn wake_up(place: &mut Place, since: Stamp, outcome: Outcome) {
    let has_lock = matches!(outcome, Outcome::Taken | Outcome::TakenFromDead | Outcome::TimedOut);
    if !has_lock {
        return;
    }
    match begin(place) {
        Begun::Off => {}
        Begun::PassedOver => end_silently(place.lock, Outcome::Taken),
        Begun::Recorded(mut entered) => {
            let process = entered.process;
            entered.thread().recorder.slept(&process.profile, place, since);
            taken(entered, place, None, outcome == Outcome::TakenFromDead);
        }
    }
}

/// There is no lock here any more, or a new one.
#[inline]
pub(crate) fn forget(lock: usize) {
    let Some(mut entered) = thread::enter_ready() else {
        return;
    };
    let process = entered.process;
    let thread = entered.thread();
    thread.recorder.destroyed(lock);
    // A hold that never ended, such as one of a lock in memory that was used again.
    let forgotten = thread.recorder.forget_holds(lock);
    if forgotten > 0 {
        process.profile.count_lost(forgotten);
    }
}

/// Makes the profile of this process, if there is to be one and it is not there.
#[cold]
pub(crate) fn make_profile() {
    if settings().is_some() {
        drop(thread::enter());
    }
}

/// A library may have been taken out of memory.
#[cold]
pub(crate) fn doubt_modules() {
    if let Some(process) = process::begun() {
        // In case that nobody can look now.
        process.modules.doubt();
        process.modules.look(&process.profile);
    }
}

/// What a program takes from itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// System calls, by a filter.
    Calls,
    /// All system calls but a few, and with them the processor's clock.
    StrictCalls,
    /// The processor's clock: who reads it is sent a signal.
    Clock,
}

/// Sets a limit, by a call that answers -1 if it could not. What we may need of it later is done
/// before. A thread that may not read the clock records nothing any more.
#[cold]
pub(crate) fn set_limit(limit: Limit, set: impl FnOnce() -> c_long) -> c_long {
    // A child of `vfork` is limited alone, and has nothing of its own.
    if settings().is_none() {
        return set();
    }
    // With a filter already there we ask the system nothing, and have nothing to prepare.
    let is_free = calls::Calls::begin().is_some();
    if is_free && !process::is_memory_ours() || !is_free && limit == Limit::Calls {
        return set();
    }
    if limit != Limit::Clock {
        errno::kept(prepare_for_filter);
    }
    match limit {
        Limit::Calls => calls::set_up_filter(set),
        // No threads can be begun any more.
        Limit::StrictCalls => thread::stop_by(false, || calls::set_up_filter(set)),
        Limit::Clock => thread::stop_by(true, set),
    }
}

fn prepare_for_filter() {
    if let Some(mut entered) = thread::enter() {
        entered.process.prepare_for_filter();
        entered.thread().stack.look();
    }
}

/// The system's number of this thread, as locks note their owners; 0 while nothing is recorded.
#[cold]
pub(crate) fn own_number() -> u32 {
    thread::enter().map_or(0, |mut entered| entered.thread().tid)
}
