//! Reader-writer locks.

use std::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use super::attempt::{is_moment, lock, lock_seen, of_posix, try_lock, unlock};
use super::stub;
use crate::call_site::{CallSite, Caller, LockKind};
use crate::{real, record};

type RwlockPtr = *mut pthread_rwlock_t;

/// Defines the hooks that take a lock for reading, or for writing.
macro_rules! side {
    (
        $side:ident, $kind:ident;
        $lock:ident = $real_lock:ident, $try:ident = $real_try:ident,
        $timed:ident = $real_timed:ident, $clock:ident = $real_clock:ident
    ) => {
        mod $side {
            use super::*;

            fn call_site(lock: RwlockPtr, address: usize, frame: usize) -> CallSite {
                CallSite::new(LockKind::$kind, lock.addr(), Caller { address, frame })
            }

            fn try_once(lock: RwlockPtr) -> impl FnOnce() -> c_int {
                // SAFETY: the program says that it is a lock.
                move || unsafe { real::$real_try.get()(lock) }
            }

            unsafe extern "C" fn take(l: RwlockPtr, address: usize, frame: usize) -> c_int {
                // SAFETY: the program says that it is a lock.
                let wait = || unsafe { real::$real_lock.get()(l) };
                lock(call_site(l, address, frame), of_posix, try_once(l), wait)
            }

            unsafe extern "C" fn take_timed(
                l: RwlockPtr,
                until: *const timespec,
                address: usize,
                frame: usize,
            ) -> c_int {
                // SAFETY: the program says that they are a lock and a time.
                let wait = || unsafe { real::$real_timed.get()(l, until) };
                // SAFETY: as above.
                let is_moment = unsafe { is_moment(CLOCK_REALTIME, until) };
                take_until(call_site(l, address, frame), is_moment, try_once(l), wait)
            }

            unsafe extern "C" fn take_by_clock(
                l: RwlockPtr,
                clock: clockid_t,
                until: *const timespec,
                address: usize,
                frame: usize,
            ) -> c_int {
                // SAFETY: the program says that they are a lock and a time.
                let wait = || unsafe { real::$real_clock.get()(l, clock, until) };
                // SAFETY: as above.
                let is_moment = unsafe { is_moment(clock, until) };
                take_until(call_site(l, address, frame), is_moment, try_once(l), wait)
            }

            unsafe extern "C" fn try_to_take(l: RwlockPtr, address: usize, frame: usize) -> c_int {
                try_lock(call_site(l, address, frame), of_posix, try_once(l))
            }

            stub!(1 "C" $lock(l: RwlockPtr) => take);
            stub!(1 "C" $try(l: RwlockPtr) => try_to_take);
            stub!(2 "C" $timed(l: RwlockPtr, until: *const timespec) => take_timed);
            stub!(3 "C" $clock(l: RwlockPtr, clock: clockid_t, until: *const timespec)
                => take_by_clock);
        }
    };
}

/// Takes a lock with a time limit. With an invalid limit the lock is never acquired, even if it is
/// free.
#[inline(always)]
fn take_until(
    site: CallSite,
    is_moment: bool,
    try_once: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    match is_moment {
        true => lock(site, of_posix, try_once, wait),
        false => lock_seen(site, of_posix, false, wait),
    }
}

side! {
    reading, RwlockForReading;
    pthread_rwlock_rdlock = RWLOCK_RDLOCK, pthread_rwlock_tryrdlock = RWLOCK_TRYRDLOCK,
    pthread_rwlock_timedrdlock = RWLOCK_TIMEDRDLOCK,
    pthread_rwlock_clockrdlock = RWLOCK_CLOCKRDLOCK
}

side! {
    writing, RwlockForWriting;
    pthread_rwlock_wrlock = RWLOCK_WRLOCK, pthread_rwlock_trywrlock = RWLOCK_TRYWRLOCK,
    pthread_rwlock_timedwrlock = RWLOCK_TIMEDWRLOCK,
    pthread_rwlock_clockwrlock = RWLOCK_CLOCKWRLOCK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_unlock(lock: RwlockPtr) -> c_int {
    // SAFETY: the program says that it is a lock.
    unlock(lock.addr(), || unsafe { real::RWLOCK_UNLOCK.get()(lock) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_init(
    lock: RwlockPtr,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that the arguments are valid.
    unsafe { real::RWLOCK_INIT.get()(lock, attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_destroy(lock: RwlockPtr) -> c_int {
    // SAFETY: the program says that it is a lock.
    let code = unsafe { real::RWLOCK_DESTROY.get()(lock) };
    if code == 0 {
        record::forget(lock.addr());
    }
    code
}
