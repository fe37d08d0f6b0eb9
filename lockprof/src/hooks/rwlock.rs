//! Reader-writer locks.

use std::ffi::c_int;

use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use super::attempt::{lock, of_posix, try_lock, unlock};
use super::stub;
use crate::place::{Caller, Kind, Place};
use crate::{real, record};

type Lock = *mut pthread_rwlock_t;

fn reading(lock: Lock, address: usize, frame: usize) -> Place {
    Place::new(Kind::RwlockForReading, lock.addr(), Caller { address, frame })
}

fn writing(lock: Lock, address: usize, frame: usize) -> Place {
    Place::new(Kind::RwlockForWriting, lock.addr(), Caller { address, frame })
}

fn try_read(lock: Lock) -> impl FnOnce() -> c_int {
    // SAFETY: the program says that it is a lock.
    move || unsafe { real::RWLOCK_TRYRDLOCK.get()(lock) }
}

fn try_write(lock: Lock) -> impl FnOnce() -> c_int {
    // SAFETY: the program says that it is a lock.
    move || unsafe { real::RWLOCK_TRYWRLOCK.get()(lock) }
}

unsafe extern "C" fn rdlock(l: Lock, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a lock.
    let wait = || unsafe { real::RWLOCK_RDLOCK.get()(l) };
    lock(reading(l, address, frame), of_posix, try_read(l), wait)
}

unsafe extern "C" fn timedrdlock(
    l: Lock,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a lock and a time.
    let wait = || unsafe { real::RWLOCK_TIMEDRDLOCK.get()(l, until) };
    lock(reading(l, address, frame), of_posix, try_read(l), wait)
}

unsafe extern "C" fn clockrdlock(
    l: Lock,
    clock: clockid_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a lock and a time.
    let wait = || unsafe { real::RWLOCK_CLOCKRDLOCK.get()(l, clock, until) };
    lock(reading(l, address, frame), of_posix, try_read(l), wait)
}

unsafe extern "C" fn tryrdlock(l: Lock, address: usize, frame: usize) -> c_int {
    try_lock(reading(l, address, frame), of_posix, try_read(l))
}

unsafe extern "C" fn wrlock(l: Lock, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a lock.
    let wait = || unsafe { real::RWLOCK_WRLOCK.get()(l) };
    lock(writing(l, address, frame), of_posix, try_write(l), wait)
}

unsafe extern "C" fn timedwrlock(
    l: Lock,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a lock and a time.
    let wait = || unsafe { real::RWLOCK_TIMEDWRLOCK.get()(l, until) };
    lock(writing(l, address, frame), of_posix, try_write(l), wait)
}

unsafe extern "C" fn clockwrlock(
    l: Lock,
    clock: clockid_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a lock and a time.
    let wait = || unsafe { real::RWLOCK_CLOCKWRLOCK.get()(l, clock, until) };
    lock(writing(l, address, frame), of_posix, try_write(l), wait)
}

unsafe extern "C" fn trywrlock(l: Lock, address: usize, frame: usize) -> c_int {
    try_lock(writing(l, address, frame), of_posix, try_write(l))
}

stub!(1 "C" pthread_rwlock_rdlock(l: Lock) => rdlock);
stub!(1 "C" pthread_rwlock_tryrdlock(l: Lock) => tryrdlock);
stub!(2 "C" pthread_rwlock_timedrdlock(l: Lock, until: *const timespec) => timedrdlock);
stub!(3 "C" pthread_rwlock_clockrdlock(l: Lock, clock: clockid_t, until: *const timespec)
    => clockrdlock);
stub!(1 "C" pthread_rwlock_wrlock(l: Lock) => wrlock);
stub!(1 "C" pthread_rwlock_trywrlock(l: Lock) => trywrlock);
stub!(2 "C" pthread_rwlock_timedwrlock(l: Lock, until: *const timespec) => timedwrlock);
stub!(3 "C" pthread_rwlock_clockwrlock(l: Lock, clock: clockid_t, until: *const timespec)
    => clockwrlock);

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
