//! Waiting for a condition: the mutex is left, and taken back within the real function.
//!
//! The hold ends when the wait begins, and another one begins when the wait is over, at the place
//! of the wait. How long the lock was waited for within it can't be told from how long the
//! condition was: both together are time asleep, which is counted for itself.
//!
//! These functions may end by cancelling the thread, which unwinds through us: nothing here has a
//! destructor. A thread that is cancelled has the mutex then, but that is not recorded.

use std::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use super::attempt::{is_moment, of_c11, of_posix};
use super::mutex::is_inner_unlock;
use super::stub;
use crate::place::{Caller, Kind, Place};
use crate::real;
use crate::record::{self, Outcome};

type Cond = *mut pthread_cond_t;
type Mutex = *mut pthread_mutex_t;

/// # Safety
/// - `mutex` points to a mutex.
#[inline(always)]
unsafe fn sleep(
    mutex: Mutex,
    (address, frame): (usize, usize),
    outcome: impl Fn(c_int) -> Outcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    if unsafe { is_inner_unlock(mutex) } {
        return wait();
    }
    if let Some(left) = record::leave(mutex.addr()) {
        record::left(&left);
    }
    let since = record::fall_asleep();
    let code = wait();
    if let Some(since) = since {
        let caller = Caller { address, frame };
        let mut place = Place::new(Kind::MutexAfterSleep, mutex.addr(), caller);
        record::wake_up(&mut place, since, outcome(code));
    }
    code
}

/// The same until some time; with what is none the mutex is not left.
///
/// # Safety
/// - `mutex` points to a mutex.
/// - `until` points to a time, or is null.
#[inline(always)]
unsafe fn sleep_until(
    mutex: Mutex,
    caller: (usize, usize),
    (clock, until): (clockid_t, *const timespec),
    outcome: impl Fn(c_int) -> Outcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    if !unsafe { is_moment(clock, until) } {
        return wait();
    }
    // SAFETY: as above.
    unsafe { sleep(mutex, caller, outcome, wait) }
}

unsafe extern "C-unwind" fn wait(c: Cond, m: Mutex, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that they are a condition and a mutex.
    let wait = || unsafe { real::COND_WAIT.get()(c, m) };
    // SAFETY: as above.
    unsafe { sleep(m, (address, frame), of_posix, wait) }
}

unsafe extern "C-unwind" fn timedwait(
    c: Cond,
    m: Mutex,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a condition, a mutex and a time.
    let wait = || unsafe { real::COND_TIMEDWAIT.get()(c, m, until) };
    // SAFETY: as above.
    unsafe { sleep_until(m, (address, frame), (CLOCK_REALTIME, until), of_posix, wait) }
}

unsafe extern "C-unwind" fn clockwait(
    c: Cond,
    m: Mutex,
    clock: clockid_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a condition, a mutex and a time.
    let wait = || unsafe { real::COND_CLOCKWAIT.get()(c, m, clock, until) };
    // SAFETY: as above.
    unsafe { sleep_until(m, (address, frame), (clock, until), of_posix, wait) }
}

unsafe extern "C-unwind" fn wait_c11(c: Cond, m: Mutex, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that they are a condition and a mutex.
    let wait = || unsafe { real::CND_WAIT.get()(c, m) };
    // SAFETY: as above.
    unsafe { sleep(m, (address, frame), of_c11, wait) }
}

unsafe extern "C-unwind" fn timedwait_c11(
    c: Cond,
    m: Mutex,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a condition, a mutex and a time.
    let wait = || unsafe { real::CND_TIMEDWAIT.get()(c, m, until) };
    // SAFETY: as above.
    unsafe { sleep_until(m, (address, frame), (CLOCK_REALTIME, until), of_c11, wait) }
}

stub!(2 "C-unwind" pthread_cond_wait(c: Cond, m: Mutex) => wait);
stub!(3 "C-unwind" pthread_cond_timedwait(c: Cond, m: Mutex, until: *const timespec) => timedwait);
stub!(4 "C-unwind" pthread_cond_clockwait(
    c: Cond, m: Mutex, clock: clockid_t, until: *const timespec
) => clockwait);
stub!(2 "C-unwind" cnd_wait(c: Cond, m: Mutex) => wait_c11);
stub!(3 "C-unwind" cnd_timedwait(c: Cond, m: Mutex, until: *const timespec) => timedwait_c11);
