//! Reader-writer locks.

use std::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use super::attempt::{is_moment, lock, lock_seen, of_posix, try_lock, unlock};
use super::stub;
use crate::place::{Caller, Kind, Place};
use crate::{real, record};

type Lock = *mut pthread_rwlock_t;

/// How a lock is taken for reading, or for writing.
macro_rules! side {
    (
        $side:ident, $kind:ident;
        $lock:ident = $real_lock:ident, $try:ident = $real_try:ident,
        $timed:ident = $real_timed:ident, $clock:ident = $real_clock:ident
    ) => {
        mod $side {
            use super::*;

            fn place(lock: Lock, address: usize, frame: usize) -> Place {
                Place::new(Kind::$kind, lock.addr(), Caller { address, frame })
            }

            fn try_once(lock: Lock) -> impl FnOnce() -> c_int {
                // SAFETY: the program says that it is a lock.
                move || unsafe { real::$real_try.get()(lock) }
            }

            unsafe extern "C" fn take(l: Lock, address: usize, frame: usize) -> c_int {
                // SAFETY: the program says that it is a lock.
                let wait = || unsafe { real::$real_lock.get()(l) };
                lock(place(l, address, frame), of_posix, try_once(l), wait)
            }

            unsafe extern "C" fn take_timed(
                l: Lock,
                until: *const timespec,
                address: usize,
                frame: usize,
            ) -> c_int {
                // SAFETY: the program says that they are a lock and a time.
                let wait = || unsafe { real::$real_timed.get()(l, until) };
                // SAFETY: as above.
                let is_moment = unsafe { is_moment(CLOCK_REALTIME, until) };
                take_until(place(l, address, frame), is_moment, try_once(l), wait)
            }

            unsafe extern "C" fn take_by_clock(
                l: Lock,
                clock: clockid_t,
                until: *const timespec,
                address: usize,
                frame: usize,
            ) -> c_int {
                // SAFETY: the program says that they are a lock and a time.
                let wait = || unsafe { real::$real_clock.get()(l, clock, until) };
                // SAFETY: as above.
                let is_moment = unsafe { is_moment(clock, until) };
                take_until(place(l, address, frame), is_moment, try_once(l), wait)
            }

            unsafe extern "C" fn try_to_take(l: Lock, address: usize, frame: usize) -> c_int {
                try_lock(place(l, address, frame), of_posix, try_once(l))
            }

            stub!(1 "C" $lock(l: Lock) => take);
            stub!(1 "C" $try(l: Lock) => try_to_take);
            stub!(2 "C" $timed(l: Lock, until: *const timespec) => take_timed);
            stub!(3 "C" $clock(l: Lock, clock: clockid_t, until: *const timespec)
                => take_by_clock);
        }
    };
}

/// With what is no moment it can't be taken, be it free or not.
#[inline(always)]
fn take_until(
    place: Place,
    is_moment: bool,
    try_once: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    match is_moment {
        true => lock(place, of_posix, try_once, wait),
        false => lock_seen(place, of_posix, false, wait),
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
unsafe extern "C" fn pthread_rwlock_unlock(lock: Lock) -> c_int {
    // SAFETY: the program says that it is a lock.
    unlock(lock.addr(), || unsafe { real::RWLOCK_UNLOCK.get()(lock) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_init(
    lock: Lock,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that they are what they are to be.
    unsafe { real::RWLOCK_INIT.get()(lock, attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_destroy(lock: Lock) -> c_int {
    // SAFETY: the program says that it is a lock.
    let code = unsafe { real::RWLOCK_DESTROY.get()(lock) };
    if code == 0 {
        record::forget(lock.addr());
    }
    code
}
