//! The real functions of the C library.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::marker::PhantomData;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use libc::{
    RTLD_NEXT, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t,
    pthread_rwlockattr_t, pthread_spinlock_t, timespec, uid_t,
};

use crate::errno;

/// A function of a library that the dynamic linker searches after this library. `F` is the type of
/// a pointer to the function.
pub(crate) struct RealFunction<F> {
    name: &'static CStr,
    /// Whether programs use the version `GLIBC_2.3.2` of the function, if it exists.
    is_second: bool,
    /// The address of the function; 0 until it is found.
    pub(crate) address: AtomicUsize,
    kind: PhantomData<F>,
}

/// The version of the condition functions that current programs use; the conditions of older
/// versions are smaller. Newer architectures have no other version.
const SECOND: &CStr = c"GLIBC_2.3.2";

impl<F: Copy> RealFunction<F> {
    /// # Safety
    /// - `F` is a pointer to a function, as the C library declares the function of this name.
    const unsafe fn new(name: &'static CStr, is_second: bool) -> RealFunction<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        RealFunction { name, is_second, address: AtomicUsize::new(0), kind: PhantomData }
    }

    /// The real function. The first call searches for it.
    #[inline]
    pub(crate) fn get(&self) -> F {
        let address = match self.address.load(Relaxed) {
            0 => self.find(),
            address => address,
        };
        // SAFETY: this is the address of the function with this name, and `F` is its type: see
        // `new`.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// Searches for the function. The dynamic linker allocates nothing if it finds the function.
    #[cold]
    pub(crate) fn find(&self) -> usize {
        errno::preserved(|| self.look())
    }

    fn look(&self) -> usize {
        let mut found = std::ptr::null_mut::<c_void>();
        if self.is_second {
            // SAFETY: both names are C strings.
            found = unsafe { libc::dlvsym(RTLD_NEXT, self.name.as_ptr(), SECOND.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: the argument is a C string.
            found = unsafe { libc::dlsym(RTLD_NEXT, self.name.as_ptr()) };
        }
        self.address.store(found.addr(), Relaxed);
        if found.is_null() { missing as *const () as usize } else { found.addr() }
    }
}

/// Called instead of a function that the C library lacks. A program may call such a function, since
/// it finds our hook.
extern "C" fn missing() -> c_int {
    libc::ENOSYS
}

type MutexFunction = unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int;
type RwlockFunction = unsafe extern "C" fn(*mut pthread_rwlock_t) -> c_int;
type SpinFunction = unsafe extern "C" fn(*mut pthread_spinlock_t) -> c_int;

/// The type of `syscall`, which makes any system call.
pub(crate) type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

macro_rules! functions {
    ($($constant:ident = $name:literal $(of $version:ident)?: $kind:ty,)*) => {
        $(
            pub(crate) static $constant: RealFunction<$kind> = {
                const IS_SECOND: bool = functions!(@is_second $($version)?);
                // SAFETY: POSIX, C11 or the manual of Linux declares the function so.
                unsafe { RealFunction::new($name, IS_SECOND) }
            };
        )*

        /// Searches for all functions, so that no search is needed while locks are held.
        pub(crate) fn find_all() {
            $($constant.find();)*
        }
    };
    (@is_second) => { false };
    (@is_second second) => { true };
}

functions! {
    MUTEX_LOCK = c"pthread_mutex_lock": MutexFunction,
    MUTEX_UNLOCK = c"pthread_mutex_unlock": MutexFunction,
    MUTEX_TRYLOCK = c"pthread_mutex_trylock": MutexFunction,
    MUTEX_TIMEDLOCK = c"pthread_mutex_timedlock":
        unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int,
    MUTEX_CLOCKLOCK = c"pthread_mutex_clocklock":
        unsafe extern "C" fn(*mut pthread_mutex_t, clockid_t, *const timespec) -> c_int,
    MUTEX_INIT = c"pthread_mutex_init":
        unsafe extern "C" fn(*mut pthread_mutex_t, *const pthread_mutexattr_t) -> c_int,
    MUTEX_DESTROY = c"pthread_mutex_destroy": MutexFunction,

    RWLOCK_RDLOCK = c"pthread_rwlock_rdlock": RwlockFunction,
    RWLOCK_TRYRDLOCK = c"pthread_rwlock_tryrdlock": RwlockFunction,
    RWLOCK_TIMEDRDLOCK = c"pthread_rwlock_timedrdlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int,
    RWLOCK_CLOCKRDLOCK = c"pthread_rwlock_clockrdlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int,
    RWLOCK_WRLOCK = c"pthread_rwlock_wrlock": RwlockFunction,
    RWLOCK_TRYWRLOCK = c"pthread_rwlock_trywrlock": RwlockFunction,
    RWLOCK_TIMEDWRLOCK = c"pthread_rwlock_timedwrlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int,
    RWLOCK_CLOCKWRLOCK = c"pthread_rwlock_clockwrlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int,
    RWLOCK_UNLOCK = c"pthread_rwlock_unlock": RwlockFunction,
    RWLOCK_INIT = c"pthread_rwlock_init":
        unsafe extern "C" fn(*mut pthread_rwlock_t, *const pthread_rwlockattr_t) -> c_int,
    RWLOCK_DESTROY = c"pthread_rwlock_destroy": RwlockFunction,

    SPIN_LOCK = c"pthread_spin_lock": SpinFunction,
    SPIN_TRYLOCK = c"pthread_spin_trylock": SpinFunction,
    SPIN_UNLOCK = c"pthread_spin_unlock": SpinFunction,
    SPIN_INIT = c"pthread_spin_init": unsafe extern "C" fn(*mut pthread_spinlock_t, c_int) -> c_int,
    SPIN_DESTROY = c"pthread_spin_destroy": SpinFunction,

    COND_WAIT = c"pthread_cond_wait" of second:
        unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int,
    COND_TIMEDWAIT = c"pthread_cond_timedwait" of second:
        unsafe extern "C-unwind" fn(
            *mut pthread_cond_t, *mut pthread_mutex_t, *const timespec,
        ) -> c_int,
    COND_CLOCKWAIT = c"pthread_cond_clockwait":
        unsafe extern "C-unwind" fn(
            *mut pthread_cond_t, *mut pthread_mutex_t, clockid_t, *const timespec,
        ) -> c_int,

    SETUID = c"setuid": unsafe extern "C" fn(uid_t) -> c_int,
    SETEUID = c"seteuid": unsafe extern "C" fn(uid_t) -> c_int,
    SETREUID = c"setreuid": unsafe extern "C" fn(uid_t, uid_t) -> c_int,
    SETRESUID = c"setresuid": unsafe extern "C" fn(uid_t, uid_t, uid_t) -> c_int,
    CHROOT = c"chroot": unsafe extern "C" fn(*const c_char) -> c_int,

    PRCTL = c"prctl": unsafe extern "C" fn(c_int, ...) -> c_int,
    SYSCALL = c"syscall": Syscall,
    DLCLOSE = c"dlclose": unsafe extern "C" fn(*mut c_void) -> c_int,

    MTX_LOCK = c"mtx_lock": MutexFunction,
    MTX_TRYLOCK = c"mtx_trylock": MutexFunction,
    MTX_TIMEDLOCK = c"mtx_timedlock":
        unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int,
    MTX_UNLOCK = c"mtx_unlock": MutexFunction,
    MTX_INIT = c"mtx_init": unsafe extern "C" fn(*mut pthread_mutex_t, c_int) -> c_int,
    MTX_DESTROY = c"mtx_destroy": unsafe extern "C" fn(*mut pthread_mutex_t),
    CND_WAIT = c"cnd_wait":
        unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int,
    CND_TIMEDWAIT = c"cnd_timedwait":
        unsafe extern "C-unwind" fn(
            *mut pthread_cond_t, *mut pthread_mutex_t, *const timespec,
        ) -> c_int,
}
