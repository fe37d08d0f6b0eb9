//! Calls the real functions that take and release locks of any kind, and records these calls.

use std::ffi::c_int;

use libc::{clockid_t, timespec};

use crate::call_site::CallSite;
use crate::record::{self, AttemptOutcome, AttemptStart};

/// The outcome of a POSIX threads function.
#[inline(always)]
pub(super) fn of_posix(code: c_int) -> AttemptOutcome {
    match code {
        0 => AttemptOutcome::Acquired,
        libc::EOWNERDEAD => AttemptOutcome::AcquiredFromDead,
        libc::EBUSY => AttemptOutcome::Busy,
        libc::ETIMEDOUT => AttemptOutcome::TimedOut,
        _ => AttemptOutcome::Failed,
    }
}

/// The outcome of a C11 threads function.
#[inline(always)]
pub(super) fn of_c11(code: c_int) -> AttemptOutcome {
    const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    const TIMED_OUT: c_int = 4;
    match code {
        SUCCESS => AttemptOutcome::Acquired,
        BUSY => AttemptOutcome::Busy,
        TIMED_OUT => AttemptOutcome::TimedOut,
        _ => AttemptOutcome::Failed,
    }
}

/// Whether `until` is a valid time limit. With an invalid limit some functions fail before they
/// look at the lock, and others only if they would have to wait.
///
/// # Safety
/// - `until` points to a time, or is null.
#[inline]
pub(super) unsafe fn is_moment(clock: clockid_t, until: *const timespec) -> bool {
    if until.is_null() || !is_clock(clock) {
        return false;
    }
    // SAFETY: it is not null, so it points to a time (contract).
    let nanoseconds = unsafe { (*until).tv_nsec };
    (0..1_000_000_000).contains(&nanoseconds)
}

/// Whether the C library can wait by this clock.
#[inline]
pub(super) fn is_clock(clock: clockid_t) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
}

/// Takes a lock: first by `try_once`, so that a thread that finds the lock free counts no wait, and
/// then by `wait`.
#[inline(always)]
pub(super) fn lock(
    mut site: CallSite,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    try_once: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let guard = match record::begin(&mut site) {
        AttemptStart::Off => return wait(),
        AttemptStart::PassedOver => return pass_over(&site, outcome, wait),
        AttemptStart::Recorded(guard) => guard,
    };
    let code = try_once();
    if outcome(code) == AttemptOutcome::Busy {
        drop(guard);
        return wait_for(&site, outcome, wait);
    }
    record::end(guard, &site, outcome(code), None);
    code
}

/// Takes a lock by `wait` alone. `is_held` says whether the lock was found held, and so whether
/// this counts as a wait.
#[cold]
pub(super) fn lock_seen(
    mut site: CallSite,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    is_held: bool,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let guard = match record::begin(&mut site) {
        AttemptStart::Off => return wait(),
        AttemptStart::PassedOver => return pass_over(&site, outcome, wait),
        AttemptStart::Recorded(guard) => guard,
    };
    drop(guard);
    if is_held {
        return wait_for(&site, outcome, wait);
    }
    let code = wait();
    record::end_wait(&site, outcome(code), None);
    code
}

#[cold]
#[inline(never)]
fn wait_for(
    site: &CallSite,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let wait_start = record::begin_wait(site);
    let code = wait();
    record::end_wait(site, outcome(code), wait_start);
    code
}

#[inline(never)]
fn pass_over(
    site: &CallSite,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let code = wait();
    record::end_silently(site.lock, outcome(code));
    code
}

/// Tries to take a lock by `try_once`.
#[inline(always)]
pub(super) fn try_lock(
    mut site: CallSite,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    try_once: impl FnOnce() -> c_int,
) -> c_int {
    let start = record::begin(&mut site);
    let code = try_once();
    match start {
        AttemptStart::Off => {}
        AttemptStart::PassedOver => record::end_silently(site.lock, outcome(code)),
        AttemptStart::Recorded(guard) => record::end(guard, &site, outcome(code), None),
    }
    code
}

/// Releases a lock. The recorded end of the hold is just before other threads can take the lock.
#[inline(always)]
pub(super) fn unlock(lock: usize, unlock: impl FnOnce() -> c_int) -> c_int {
    let ending = record::begin_release(lock);
    let code = unlock();
    if let Some(ending) = ending {
        record::released(&ending);
    }
    code
}
