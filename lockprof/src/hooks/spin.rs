//! Spinlocks.

use std::ffi::c_int;

use libc::pthread_spinlock_t;

use super::attempt::{lock, of_posix, try_lock, unlock};
use super::stub;
use crate::call_site::{CallSite, Caller, LockKind};
use crate::{real, record};

type SpinlockPtr = *mut pthread_spinlock_t;

fn call_site(lock: SpinlockPtr, address: usize, frame: usize) -> CallSite {
    CallSite::new(LockKind::Spinlock, lock.addr(), Caller { address, frame })
}

fn try_once(lock: SpinlockPtr) -> impl FnOnce() -> c_int {
    // SAFETY: the program says that it is a lock.
    move || unsafe { real::SPIN_TRYLOCK.get()(lock) }
}

unsafe extern "C" fn lock_spin(l: SpinlockPtr, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a lock.
    let wait = || unsafe { real::SPIN_LOCK.get()(l) };
    lock(call_site(l, address, frame), of_posix, try_once(l), wait)
}

unsafe extern "C" fn try_spin(l: SpinlockPtr, address: usize, frame: usize) -> c_int {
    try_lock(call_site(l, address, frame), of_posix, try_once(l))
}

stub!(1 "C" pthread_spin_lock(l: SpinlockPtr) => lock_spin);
stub!(1 "C" pthread_spin_trylock(l: SpinlockPtr) => try_spin);

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: SpinlockPtr) -> c_int {
    // SAFETY: the program says that it is a lock.
    unlock(lock.addr(), || unsafe { real::SPIN_UNLOCK.get()(lock) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: SpinlockPtr, is_shared: c_int) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that it is room for a lock.
    unsafe { real::SPIN_INIT.get()(lock, is_shared) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_destroy(lock: SpinlockPtr) -> c_int {
    record::forget(lock.addr());
    // SAFETY: the program says that it is a lock.
    unsafe { real::SPIN_DESTROY.get()(lock) }
}
