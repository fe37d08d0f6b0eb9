//! What is recorded of a call, step by step. Between the steps the real functions run.

use std::ffi::c_long;

use forebay_sync::profile::{Acquisition, LockWait, ProfiledHold, Stamp};

use crate::call_site::CallSite;
use crate::process::{self, ProcessState};
use crate::settings::settings;
use crate::thread::{self, HookGuard, ThreadState};
use crate::{calls, errno};

/// How an attempt ended, as the functions of the C library say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Acquired,
    /// The last owner died while it had the lock.
    AcquiredFromDead,
    Busy,
    TimedOut,
    Failed,
}

/// How an attempt began.
pub(crate) enum AttemptStart<'thread> {
    /// Nothing is recorded now.
    Off,
    /// Not this one: it [ends silently](end_silently).
    PassedOver,
    /// It [ends](end).
    Recorded(HookGuard<'thread>),
}

/// A lock that is about to be left.
pub(crate) struct EndingHold {
    hold: ProfiledHold,
    at: Stamp,
}

/// Begins an attempt, if it is recorded: finds out where it is made. What is given back may be kept
/// while the lock is tried, but not while it is waited for.
#[inline(always)]
pub(crate) fn begin<'thread>(site: &mut CallSite) -> AttemptStart<'thread> {
    let Some(mut guard) = thread::enter() else {
        return AttemptStart::Off;
    };
    let process = guard.process;
    let thread = guard.thread();
    if !process.profile.is_on() {
        return AttemptStart::Off;
    }
    if !thread.begin(process) {
        return AttemptStart::PassedOver;
    }
    if process.frame_count > 1 {
        look_up(site, thread, process);
    }
    site.seal(process.is_by_lock);
    AttemptStart::Recorded(guard)
}

#[cold]
fn look_up(site: &mut CallSite, thread: &mut ThreadState, process: &ProcessState) {
    let caller = site.caller;
    site.fill(|frames| thread.stack.callers(caller, &mut frames[..process.frame_count]));
}

/// The lock is found held, and is now waited for.
#[cold]
pub(crate) fn begin_wait(site: &CallSite) -> Option<LockWait> {
    let mut guard = thread::enter_ready()?;
    let process = guard.process;
    let wait = guard.thread().recorder.begin_wait(&process.profile, site, site.lock);
    if site.take_is_new() {
        look(process, site.frames());
    }
    Some(wait)
}

/// An attempt of [`begin`] is over, after a wait.
#[cold]
pub(crate) fn end_wait(site: &CallSite, outcome: AttemptOutcome, wait: Option<LockWait>) {
    if let Some(guard) = thread::enter_ready() {
        end(guard, site, outcome, wait);
    }
}

/// An attempt of [`begin`] is over.
#[inline(always)]
pub(crate) fn end(
    guard: HookGuard<'_>,
    site: &CallSite,
    outcome: AttemptOutcome,
    wait: Option<LockWait>,
) {
    match outcome {
        AttemptOutcome::Acquired => acquired(guard, site, wait, false),
        AttemptOutcome::AcquiredFromDead => acquired_from_dead(guard, site, wait),
        outcome => not_acquired(guard, site, outcome, wait),
    }
}

#[cold]
#[inline(never)]
fn acquired_from_dead(guard: HookGuard<'_>, site: &CallSite, wait: Option<LockWait>) {
    acquired(guard, site, wait, true);
}

#[inline(always)]
fn acquired(
    mut guard: HookGuard<'_>,
    site: &CallSite,
    wait: Option<LockWait>,
    has_owner_died: bool,
) {
    let process = guard.process;
    let thread = guard.thread();
    let is_shared = site.kind.is_shared();
    let acquired = Acquisition { lock: site.lock, wait, is_shared, has_owner_died };
    thread.recorder.acquired(&process.profile, site, &acquired);
    if site.take_is_new() {
        thread.must_look |= !site.frames().iter().all(|at| process.modules.knows(*at));
    }
}

/// An attempt is over that was passed over.
#[inline]
pub(crate) fn end_silently(lock: usize, outcome: AttemptOutcome) {
    if !matches!(outcome, AttemptOutcome::Acquired | AttemptOutcome::AcquiredFromDead) {
        return;
    }
    if let Some(mut guard) = thread::enter_ready() {
        let process = guard.process;
        guard.thread().recorder.acquired_silently(&process.profile, lock);
    }
}

#[cold]
fn not_acquired(
    mut guard: HookGuard<'_>,
    site: &CallSite,
    outcome: AttemptOutcome,
    wait: Option<LockWait>,
) {
    let process = guard.process;
    let (profile, recorder) = (&process.profile, &mut guard.thread().recorder);
    match (outcome, wait) {
        (AttemptOutcome::Busy, None) => {
            let holder = profile.holder_of(site.lock);
            recorder.try_failed(profile, site, site.lock, holder);
        }
        (AttemptOutcome::TimedOut, Some(wait)) => {
            recorder.timed_out(profile, site, site.lock, wait)
        }
        (_, Some(_)) => recorder.give_up(),
        (_, None) => {}
    }
    if site.take_is_new() {
        look(process, site.frames());
    }
}

/// The lock is about to be left; `None` if nobody recorded that it was taken.
#[inline(always)]
pub(crate) fn begin_release(lock: usize) -> Option<EndingHold> {
    let mut guard = thread::enter_ready()?;
    let process = guard.process;
    let hold = guard.thread().recorder.find_hold(lock)?;
    Some(EndingHold { hold, at: process.profile.clock().now() })
}

/// The lock is left.
#[inline(always)]
pub(crate) fn released(ending: &EndingHold) {
    let Some(mut guard) = thread::enter_ready() else {
        return;
    };
    let process = guard.process;
    let thread = guard.thread();
    thread.recorder.released_at(&process.profile, &ending.hold, ending.at);
    // Not before: it takes long, and nobody waits for us now.
    if thread.must_look {
        thread.must_look = false;
        process.modules.look(&process.profile);
    }
}

#[cold]
fn look(process: &ProcessState, frames: &[u64]) {
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
pub(crate) fn wake_up(site: &mut CallSite, since: Stamp, outcome: AttemptOutcome) {
    let has_lock = matches!(
        outcome,
        AttemptOutcome::Acquired | AttemptOutcome::AcquiredFromDead | AttemptOutcome::TimedOut
    );
    if !has_lock {
        return;
    }
    match begin(site) {
        AttemptStart::Off => {}
        AttemptStart::PassedOver => end_silently(site.lock, AttemptOutcome::Acquired),
        AttemptStart::Recorded(mut guard) => {
            let process = guard.process;
            guard.thread().recorder.slept(&process.profile, site, since);
            acquired(guard, site, None, outcome == AttemptOutcome::AcquiredFromDead);
        }
    }
}

/// There is no lock here any more, or a new one.
#[inline]
pub(crate) fn forget(lock: usize) {
    let Some(mut guard) = thread::enter_ready() else {
        return;
    };
    let process = guard.process;
    let thread = guard.thread();
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
    Syscalls,
    /// All system calls but a few, and with them the processor's clock.
    StrictSyscalls,
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
    let is_free = calls::CallPermit::begin().is_some();
    if is_free && !process::is_memory_ours() || !is_free && limit == Limit::Syscalls {
        return set();
    }
    if limit != Limit::Clock {
        errno::preserved(prepare_for_filter);
    }
    match limit {
        Limit::Syscalls => calls::set_up_filter(set),
        // No threads can be begun any more.
        Limit::StrictSyscalls => thread::stop_by(false, || calls::set_up_filter(set)),
        Limit::Clock => thread::stop_by(true, set),
    }
}

fn prepare_for_filter() {
    if let Some(mut guard) = thread::enter() {
        guard.process.prepare_for_filter();
        guard.thread().stack.look();
    }
}

/// The system's number of this thread, as locks note their owners; 0 while nothing is recorded.
#[cold]
pub(crate) fn own_number() -> u32 {
    thread::enter().map_or(0, |mut guard| guard.thread().tid)
}
