//! An attempt at a lock, of whatever kind.

use std::ffi::c_int;

use libc::{clockid_t, timespec};

use crate::place::Place;
use crate::record::{self, Begun, Outcome};

/// What a function of POSIX threads answered.
#[inline(always)]
pub(super) fn of_posix(code: c_int) -> Outcome {
    match code {
        0 => Outcome::Taken,
        libc::EOWNERDEAD => Outcome::TakenFromDead,
        libc::EBUSY => Outcome::Busy,
        libc::ETIMEDOUT => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}

/// What a function of C11 threads answered.
#[inline(always)]
pub(super) fn of_c11(code: c_int) -> Outcome {
    const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    const TIMED_OUT: c_int = 4;
    match code {
        SUCCESS => Outcome::Taken,
        BUSY => Outcome::Busy,
        TIMED_OUT => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}

/// Is it a moment that can be waited for? With another some functions answer an error before they
/// look at the lock, and others only if they would have to wait.
///
/// # Safety
/// - `until` points to a time, or is null.
#[inline]
pub(super) unsafe fn is_moment(clock: clockid_t, until: *const timespec) -> bool {
    if until.is_null() || !is_clock(clock) {
        return false;
    }
    // SAFETY: it is not null; the caller says that it points to a time then.
    let nanoseconds = unsafe { (*until).tv_nsec };
    (0..1_000_000_000).contains(&nanoseconds)
}

/// Can the C library wait by this clock?
#[inline]
pub(super) fn is_clock(clock: clockid_t) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
}

/// Takes a lock by `wait`, after it was tried: who finds it free has not waited.
#[inline(always)]
pub(super) fn lock(
    mut place: Place,
    outcome: impl Fn(c_int) -> Outcome,
    try_once: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let entered = match record::begin(&mut place) {
        Begun::Off => return wait(),
        Begun::PassedOver => return pass_over(&place, outcome, wait),
        Begun::Recorded(entered) => entered,
    };
    let code = try_once();
    if outcome(code) == Outcome::Busy {
        drop(entered);
        return wait_for(&place, outcome, wait);
    }
    record::end(entered, &place, outcome(code), None);
    code
}

/// Takes a lock by `wait` that cannot be tried, but was looked at.
#[cold]
pub(super) fn lock_seen(
    mut place: Place,
    outcome: impl Fn(c_int) -> Outcome,
    is_held: bool,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let entered = match record::begin(&mut place) {
        Begun::Off => return wait(),
        Begun::PassedOver => return pass_over(&place, outcome, wait),
        Begun::Recorded(entered) => entered,
    };
    drop(entered);
    if is_held {
        return wait_for(&place, outcome, wait);
    }
    let code = wait();
    record::end_wait(&place, outcome(code), None);
    code
}

#[cold]
#[inline(never)]
fn wait_for(
    place: &Place,
    outcome: impl Fn(c_int) -> Outcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let began = record::begin_wait(place);
    let code = wait();
    record::end_wait(place, outcome(code), began);
    code
}

#[inline(never)]
fn pass_over(
    place: &Place,
    outcome: impl Fn(c_int) -> Outcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let code = wait();
    record::end_silently(place.lock, outcome(code));
    code
}

/// Tries a lock.
#[inline(always)]
pub(super) fn try_lock(
    mut place: Place,
    outcome: impl Fn(c_int) -> Outcome,
    try_once: impl FnOnce() -> c_int,
) -> c_int {
    let begun = record::begin(&mut place);
    let code = try_once();
    match begun {
        Begun::Off => {}
        Begun::PassedOver => record::end_silently(place.lock, outcome(code)),
        Begun::Recorded(entered) => record::end(entered, &place, outcome(code), None),
    }
    code
}

/// Leaves a lock: the hold has ended just before others can take it.
#[inline(always)]
pub(super) fn unlock(lock: usize, unlock: impl FnOnce() -> c_int) -> c_int {
    let left = record::leave(lock);
    let code = unlock();
    if let Some(left) = left {
        record::left(&left);
    }
    code
}
