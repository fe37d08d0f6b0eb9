//! Waiting on a condition. The real function releases the mutex and acquires it again.
//!
//! The recorded hold ends when the wait begins. When the wait is over, another hold begins at the
//! call site of the wait. The time spent waiting for the condition and the time spent waiting for
//! the mutex cannot be told apart: their sum counts as time asleep.
//!
//! The thread may be cancelled in these functions, which unwinds the stack through them. So nothing
//! here has a destructor. A cancelled thread holds the mutex again, but that hold is not recorded.

use std::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use super::attempt::{is_moment, of_c11, of_posix};
use super::mutex::is_inner_unlock;
use super::stub;
use crate::call_site::{CallSite, Caller, LockKind};
use crate::real;
use crate::record::{self, AttemptOutcome};

type CondPtr = *mut pthread_cond_t;
type MutexPtr = *mut pthread_mutex_t;

/// # Safety
/// - `mutex` points to a mutex.
#[inline(always)]
unsafe fn sleep(
    mutex: MutexPtr,
    (address, frame): (usize, usize),
    outcome: impl Fn(c_int) -> AttemptOutcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    if unsafe { is_inner_unlock(mutex) } {
        return wait();
    }
    if let Some(ending) = record::begin_release(mutex.addr()) {
        record::released(&ending);
    }
    let since = record::fall_asleep();
    let code = wait();
    if let Some(since) = since {
        let caller = Caller { address, frame };
        let mut site = CallSite::new(LockKind::MutexAfterSleep, mutex.addr(), caller);
        record::wake_up(&mut site, since, outcome(code));
    }
    code
}

/// Waits like [`sleep`], with a time limit. With an invalid limit the mutex is not released.
///
/// # Safety
/// - `mutex` points to a mutex.
/// - `until` points to a time, or is null.
#[inline(always)]
unsafe fn sleep_until(
    mutex: MutexPtr,
    caller: (usize, usize),
    (clock, until): (clockid_t, *const timespec),
    outcome: impl Fn(c_int) -> AttemptOutcome,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    if !unsafe { is_moment(clock, until) } {
        return wait();
    }
    // SAFETY: as above.
    unsafe { sleep(mutex, caller, outcome, wait) }
}

unsafe extern "C-unwind" fn wait(c: CondPtr, m: MutexPtr, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that they are a condition and a mutex.
    let wait = || unsafe { real::COND_WAIT.get()(c, m) };
    // SAFETY: as above.
    unsafe { sleep(m, (address, frame), of_posix, wait) }
}

unsafe extern "C-unwind" fn timedwait(
    c: CondPtr,
    m: MutexPtr,
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
    c: CondPtr,
    m: MutexPtr,
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

unsafe extern "C-unwind" fn wait_c11(
    c: CondPtr,
    m: MutexPtr,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a condition and a mutex.
    let wait = || unsafe { real::CND_WAIT.get()(c, m) };
    // SAFETY: as above.
    unsafe { sleep(m, (address, frame), of_c11, wait) }
}

unsafe extern "C-unwind" fn timedwait_c11(
    c: CondPtr,
    m: MutexPtr,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a condition, a mutex and a time.
    let wait = || unsafe { real::CND_TIMEDWAIT.get()(c, m, until) };
    // SAFETY: as above.
    unsafe { sleep_until(m, (address, frame), (CLOCK_REALTIME, until), of_c11, wait) }
}

stub!(2 "C-unwind" pthread_cond_wait(c: CondPtr, m: MutexPtr) => wait);
stub!(3 "C-unwind" pthread_cond_timedwait(c: CondPtr, m: MutexPtr, until: *const timespec)
    => timedwait);
stub!(4 "C-unwind" pthread_cond_clockwait(
    c: CondPtr, m: MutexPtr, clock: clockid_t, until: *const timespec
) => clockwait);
stub!(2 "C-unwind" cnd_wait(c: CondPtr, m: MutexPtr) => wait_c11);
stub!(3 "C-unwind" cnd_timedwait(c: CondPtr, m: MutexPtr, until: *const timespec)
    => timedwait_c11);
