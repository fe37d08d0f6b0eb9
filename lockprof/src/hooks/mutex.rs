//! Mutexes of POSIX and of C11, which have the same layout in memory.

use std::ffi::c_int;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use super::attempt::{is_clock, lock, lock_seen, of_c11, of_posix, try_lock, unlock};
use super::stub;
use crate::call_site::{CallSite, Caller, LockKind};
use crate::real::{self, RealFunction};
use crate::record::{self, AttemptOutcome};

/// The first words of a mutex, which glibc can never change: programs have their initialisers
/// compiled in.
#[repr(C)]
struct MutexWords {
    lock: AtomicI32,
    /// The number of times that the owner has taken the mutex, if the mutex is recursive.
    count: AtomicI32,
    /// The thread id of the owner.
    owner: AtomicI32,
    user_count: AtomicI32,
    kind: AtomicI32,
}

const KIND_MASK: i32 = 3;
const RECURSIVE: i32 = 1;
const ERROR_CHECKING: i32 = 2;
const ROBUST: i32 = 16;
const INHERITING: i32 = 32;

/// The value of `owner` in a robust mutex whose state is inconsistent. Then `lock` has the thread
/// id of the holder.
const INCONSISTENT: i32 = i32::MAX;
const THREAD_MASK: i32 = 0x3fff_ffff;

/// # Safety
/// - `mutex` points to a mutex.
unsafe fn words<'a>(mutex: *mut pthread_mutex_t) -> &'a MutexWords {
    const { assert!(size_of::<pthread_mutex_t>() >= size_of::<MutexWords>()) };
    // SAFETY: the caller says so; all words are atomic, so other writers do no harm.
    unsafe { &*mutex.cast::<MutexWords>() }
}

impl MutexWords {
    fn is(&self, kind: i32) -> bool {
        self.kind.load(Relaxed) & KIND_MASK == kind
    }

    #[cold]
    fn is_ours(&self) -> bool {
        let owner = match self.owner.load(Relaxed) {
            // An owner has died, and no later one has declared the protected data consistent.
            INCONSISTENT => self.lock.load(Relaxed) & THREAD_MASK,
            owner => owner,
        };
        owner != 0 && owner.unsigned_abs() == record::own_number()
    }

    /// Whether the mutex is robust. A robust mutex must not be tried: after a try, glibc (at least
    /// 2.36) leaves an unrecoverable mutex locked.
    #[inline]
    fn is_robust(&self) -> bool {
        self.kind.load(Relaxed) & ROBUST != 0
    }

    /// Whether the owner of the mutex inherits the priority of the waiters.
    fn is_inheriting(&self) -> bool {
        self.kind.load(Relaxed) & INHERITING != 0
    }

    /// Whether the mutex is held. For some kinds of mutex `lock` has the thread id of the owner,
    /// for the others only a flag.
    #[cold]
    fn is_held(&self) -> bool {
        self.lock.load(Relaxed) & THREAD_MASK != 0
    }

    /// Whether this thread already has the mutex and the mutex is recursive, so that taking it
    /// again only raises a count.
    #[inline]
    pub(super) fn is_inner_lock(&self) -> bool {
        self.is(RECURSIVE) && self.is_ours()
    }

    /// Whether an unlock by this thread does not release the mutex: because the thread has taken a
    /// recursive mutex several times, or because the mutex checks its owner and this thread is not
    /// the owner.
    #[inline]
    pub(super) fn is_inner_unlock(&self) -> bool {
        let kind = self.kind.load(Relaxed);
        let is_checked =
            kind & ROBUST != 0 || matches!(kind & KIND_MASK, RECURSIVE | ERROR_CHECKING);
        is_checked && (!self.is_ours() || self.is(RECURSIVE) && self.count.load(Relaxed) > 1)
    }
}

/// # Safety
/// - `mutex` points to a mutex.
#[inline]
pub(super) unsafe fn is_inner_unlock(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller says so.
    unsafe { words(mutex) }.is_inner_unlock()
}

/// The thread id that a mutex stores when this thread owns it. The id is read from a mutex, since
/// system calls may be forbidden.
pub(crate) fn own_number() -> u32 {
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    // The mutex is made recursive, since a mutex of another kind may not note its owner.
    // SAFETY: only this thread has the mutex.
    unsafe { words(&raw mut mutex) }.kind.store(RECURSIVE, Relaxed);
    // SAFETY: as above.
    unsafe { real::MUTEX_LOCK.get()(&raw mut mutex) };
    // SAFETY: as above.
    let owner = unsafe { words(&raw mut mutex) }.owner.load(Relaxed);
    // SAFETY: as above, and we have taken it.
    unsafe { real::MUTEX_UNLOCK.get()(&raw mut mutex) };
    owner.unsigned_abs()
}

fn call_site(mutex: *mut pthread_mutex_t, address: usize, frame: usize) -> CallSite {
    CallSite::new(LockKind::Mutex, mutex.addr(), Caller { address, frame })
}

type RealMutexFunction = RealFunction<unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int>;

/// # Safety
/// - `mutex` points to a mutex.
#[inline]
unsafe fn take(
    site: CallSite,
    mutex: *mut pthread_mutex_t,
    (outcome, try_once): (impl Fn(c_int) -> AttemptOutcome, &RealMutexFunction),
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    let words = unsafe { words(mutex) };
    if words.is_inner_lock() {
        return wait();
    }
    if words.is_robust() {
        return lock_seen(site, outcome, words.is_held(), wait);
    }
    // SAFETY: as above.
    lock(site, outcome, || unsafe { try_once.get()(mutex) }, wait)
}

unsafe extern "C" fn lock_mutex(m: *mut pthread_mutex_t, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a mutex.
    let wait = || unsafe { real::MUTEX_LOCK.get()(m) };
    // SAFETY: as above.
    unsafe { take(call_site(m, address, frame), m, (of_posix, &real::MUTEX_TRYLOCK), wait) }
}

unsafe extern "C" fn timedlock_mutex(
    m: *mut pthread_mutex_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a mutex and a time.
    let wait = || unsafe { real::MUTEX_TIMEDLOCK.get()(m, until) };
    // SAFETY: as above.
    unsafe { take(call_site(m, address, frame), m, (of_posix, &real::MUTEX_TRYLOCK), wait) }
}

unsafe extern "C" fn clocklock_mutex(
    m: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a mutex and a time.
    let wait = || unsafe { real::MUTEX_CLOCKLOCK.get()(m, clock, until) };
    let site = call_site(m, address, frame);
    // SAFETY: as above.
    let words = unsafe { words(m) };
    if is_clock(clock) && !words.is_inheriting() || words.is_inner_lock() {
        // SAFETY: as above.
        return unsafe { take(site, m, (of_posix, &real::MUTEX_TRYLOCK), wait) };
    }
    // With such a clock or mutex, the real function may never acquire the mutex, even a free one.
    lock_seen(site, of_posix, words.is_held(), wait)
}

unsafe extern "C" fn trylock_mutex(m: *mut pthread_mutex_t, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a mutex.
    unsafe { try_mutex(call_site(m, address, frame), m, of_posix, &real::MUTEX_TRYLOCK) }
}

/// # Safety
/// - `mutex` points to a mutex.
unsafe fn try_mutex(
    site: CallSite,
    mutex: *mut pthread_mutex_t,
    outcome: impl Fn(c_int) -> AttemptOutcome,
    try_once: &RealMutexFunction,
) -> c_int {
    // SAFETY: the caller says so.
    let try_once = || unsafe { try_once.get()(mutex) };
    // SAFETY: as above.
    if unsafe { words(mutex) }.is_inner_lock() {
        return try_once();
    }
    try_lock(site, outcome, try_once)
}

/// # Safety
/// - `mutex` points to a mutex.
unsafe fn unlock_mutex(mutex: *mut pthread_mutex_t, real: &RealMutexFunction) -> c_int {
    // SAFETY: the caller says so.
    let unlock_once = || unsafe { real.get()(mutex) };
    // SAFETY: as above.
    if unsafe { is_inner_unlock(mutex) } {
        return unlock_once();
    }
    unlock(mutex.addr(), unlock_once)
}

stub!(1 "C" pthread_mutex_lock(m: *mut pthread_mutex_t) => lock_mutex);
stub!(1 "C" pthread_mutex_trylock(m: *mut pthread_mutex_t) => trylock_mutex);
stub!(2 "C" pthread_mutex_timedlock(m: *mut pthread_mutex_t, until: *const timespec)
    => timedlock_mutex);
stub!(3 "C" pthread_mutex_clocklock(
    m: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec
) => clocklock_mutex);

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program says that it is a mutex.
    unsafe { unlock_mutex(mutex, &real::MUTEX_UNLOCK) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    record::forget(mutex.addr());
    // SAFETY: the program says that the arguments are valid.
    unsafe { real::MUTEX_INIT.get()(mutex, attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program says that it is a mutex.
    let code = unsafe { real::MUTEX_DESTROY.get()(mutex) };
    if code == 0 {
        record::forget(mutex.addr());
    }
    code
}

unsafe extern "C" fn lock_mtx(m: *mut pthread_mutex_t, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a mutex.
    let wait = || unsafe { real::MTX_LOCK.get()(m) };
    // SAFETY: as above.
    unsafe { take(call_site(m, address, frame), m, (of_c11, &real::MTX_TRYLOCK), wait) }
}

unsafe extern "C" fn timedlock_mtx(
    m: *mut pthread_mutex_t,
    until: *const timespec,
    address: usize,
    frame: usize,
) -> c_int {
    // SAFETY: the program says that they are a mutex and a time.
    let wait = || unsafe { real::MTX_TIMEDLOCK.get()(m, until) };
    // SAFETY: as above.
    unsafe { take(call_site(m, address, frame), m, (of_c11, &real::MTX_TRYLOCK), wait) }
}

unsafe extern "C" fn trylock_mtx(m: *mut pthread_mutex_t, address: usize, frame: usize) -> c_int {
    // SAFETY: the program says that it is a mutex.
    unsafe { try_mutex(call_site(m, address, frame), m, of_c11, &real::MTX_TRYLOCK) }
}

stub!(1 "C" mtx_lock(m: *mut pthread_mutex_t) => lock_mtx);
stub!(1 "C" mtx_trylock(m: *mut pthread_mutex_t) => trylock_mtx);
stub!(2 "C" mtx_timedlock(m: *mut pthread_mutex_t, until: *const timespec) => timedlock_mtx);

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program says that it is a mutex.
    unsafe { unlock_mutex(mutex, &real::MTX_UNLOCK) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int {
    record::forget(mutex.addr());
    // SAFETY: the program says that it is room for a mutex.
    unsafe { real::MTX_INIT.get()(mutex, kind) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_destroy(mutex: *mut pthread_mutex_t) {
    // SAFETY: the program says that it is a mutex.
    unsafe { real::MTX_DESTROY.get()(mutex) };
    record::forget(mutex.addr());
}
