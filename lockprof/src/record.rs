//! The steps in which a hook records a call. The hook calls the real function between the steps.

use std::ffi::c_long;

use forebay_sync::profile::{Acquisition, LockWait, ProfiledHold, Stamp};

use crate::call_site::CallSite;
use crate::process::{self, ProcessState};
use crate::settings::settings;
use crate::thread::{self, HookGuard, ThreadState};
use crate::{calls, errno};

/// The result of an attempt, as the C library reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Acquired,
    /// The lock was acquired, and its last owner had died while it held the lock.
    AcquiredFromDead,
    Busy,
    TimedOut,
    Failed,
}

/// The start of an attempt.
pub(crate) enum AttemptStart<'thread> {
    /// Recording is off.
    Off,
    /// The attempt is not recorded. [`end_silently`] ends it.
    PassedOver,
    /// The attempt is recorded. [`end`] ends it.
    Recorded(HookGuard<'thread>),
}

/// A hold that is about to end.
pub(crate) struct EndingHold {
    hold: ProfiledHold,
    at: Stamp,
}

/// Begins an attempt, and finds its call site if it is recorded. The guard may be kept while the
/// lock is tried, but not while the thread waits.
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

/// Begins a wait for a held lock.
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

/// Ends a recorded attempt after the real function has waited.
#[cold]
pub(crate) fn end_wait(site: &CallSite, outcome: AttemptOutcome, wait: Option<LockWait>) {
    if let Some(guard) = thread::enter_ready() {
        end(guard, site, outcome, wait);
    }
}

/// Ends a recorded attempt. `wait` is the wait of [`begin_wait`], if there was one.
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

/// Ends an attempt that is not recorded.
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

/// Notes that a lock is about to be released; `None` if its acquisition was not recorded.
#[inline(always)]
pub(crate) fn begin_release(lock: usize) -> Option<EndingHold> {
    let mut guard = thread::enter_ready()?;
    let process = guard.process;
    let hold = guard.thread().recorder.find_hold(lock)?;
    Some(EndingHold { hold, at: process.profile.clock().now() })
}

/// Records a release, after the real function has released the lock.
#[inline(always)]
pub(crate) fn released(ending: &EndingHold) {
    let Some(mut guard) = thread::enter_ready() else {
        return;
    };
    let process = guard.process;
    let thread = guard.thread();
    thread.recorder.released_at(&process.profile, &ending.hold, ending.at);
    // The scan takes long, so it runs after the release: no other thread waits for this one now.
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

/// The time at which a thread that released its lock began to wait on a condition; `None` while
/// recording is off.
#[inline]
pub(crate) fn fall_asleep() -> Option<Stamp> {
    let profile = &thread::enter()?.process.profile;
    profile.is_on().then(|| profile.clock().now())
}

/// Records that the thread has its lock back. Whether it had to wait for the lock cannot be seen.
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

/// Forgets a lock that was destroyed, or initialised again.
#[inline]
pub(crate) fn forget(lock: usize) {
    let Some(mut guard) = thread::enter_ready() else {
        return;
    };
    let process = guard.process;
    let thread = guard.thread();
    thread.recorder.destroyed(lock);
    // These holds never ended, for instance those of a lock in memory that was reused.
    let forgotten = thread.recorder.forget_holds(lock);
    if forgotten > 0 {
        process.profile.count_lost(forgotten);
    }
}

/// Makes the profile of this process, unless it exists already or the settings ask for none.
#[cold]
pub(crate) fn make_profile() {
    if settings().is_some() {
        drop(thread::enter());
    }
}

/// Notes that a library may have been unloaded.
#[cold]
pub(crate) fn doubt_modules() {
    if let Some(process) = process::begun() {
        // If no scan is possible now, the doubt causes a later scan.
        process.modules.doubt();
        process.modules.look(&process.profile);
    }
}

/// A right that a program gives up by a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The right to make all system calls: a filter restricts them.
    Syscalls,
    /// The right to make any but a few system calls, and to read the processor's clock.
    StrictSyscalls,
    /// The right to read the processor's clock: a thread that reads it gets a signal.
    Clock,
}

/// Gives up a right by calling `set`, which returns -1 on failure. Before that, makes the system
/// calls that this library may need later. A thread that may not read the clock records nothing
/// from then on.
#[cold]
pub(crate) fn set_limit(limit: Limit, set: impl FnOnce() -> c_long) -> c_long {
    if settings().is_none() {
        return set();
    }
    // Nothing is prepared for a child of `vfork`: it has no state of its own, and the limit applies
    // only to this child. With a filter in place nothing can be prepared.
    let is_free = calls::CallPermit::begin().is_some();
    if is_free && !process::is_memory_ours() || !is_free && limit == Limit::Syscalls {
        return set();
    }
    if limit != Limit::Clock {
        errno::preserved(prepare_for_filter);
    }
    match limit {
        Limit::Syscalls => calls::set_up_filter(set),
        // After this no thread can start, so none inherits the limit.
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

/// The thread id that a mutex stores when this thread owns it; 0 while nothing is recorded.
#[cold]
pub(crate) fn own_number() -> u32 {
    thread::enter().map_or(0, |mut guard| guard.thread().tid)
}
