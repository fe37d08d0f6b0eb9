//! Spinlocks.

use std::ffi::c_int;

use libc::pthread_spinlock_t;

use super::attempt::{lock, of_posix, try_lock, unlock};
use super::stub;
use crate::place::{Caller, Kind, Place};
use crate::{real, record};

type Lock = *mut pthread_spinlock_t;

fn place(lock: Lock, address: usize, frame: usize) -> Place {
    Place::new(Kind::Spinlock, lock.addr(), Caller { address, frame })
}

fn try_once(lock: Lock) -> impl FnOnce() -> c_int {
    // SAFETY: the program says that it is a lock.
    move || unsafe { real::SPIN_TRYLOCK.get()(lock) }
}

unsafe extern "C" fn lock_spin(l: Lock, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a lock.
    let wait = || unsafe { real::SPIN_LOCK.get()(l) };
    lock(place(l, address, frame), of_posix, try_once(l), wait)
}

unsafe extern "C" fn try_spin(l: Lock, address: usize, frame: usize) -> c_int {
    try_lock(place(l, address, frame), of_posix, try_once(l))
}

stub!(1 "C" pthread_spin_lock(l: Lock) => lock_spin);
stub!(1 "C" pthread_spin_trylock(l: Lock) => try_spin);

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: Lock) -> c_int {
    // SAFETY: the program says that it is a lock.
    unlock(lock.addr(), || unsafe { real::SPIN_UNLOCK.get()(lock) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: Lock, is_shared: c_int) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that it is room for a lock.
    unsafe { real::SPIN_INIT.get()(lock, is_shared) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_destroy(lock: Lock) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that it is a lock.
    unsafe { real::SPIN_DESTROY.get()(lock) }
}
