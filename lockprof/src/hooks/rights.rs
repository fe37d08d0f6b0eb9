//! Calls after which a process may be unable to make its profile. The profile is made before them.

use std::ffi::{c_char, c_int};

use libc::uid_t;

use crate::{real, record};

#[unsafe(no_mangle)]
extern "C" fn setuid(user: uid_t) -> c_int {
    record::make_profile();
    // SAFETY: the function takes only numbers.
    unsafe { real::SETUID.get()(user) }
}

#[unsafe(no_mangle)]
extern "C" fn seteuid(user: uid_t) -> c_int {
    record::make_profile();
    // SAFETY: the function takes only numbers.
    unsafe { real::SETEUID.get()(user) }
}

#[unsafe(no_mangle)]
extern "C" fn setreuid(real: uid_t, effective: uid_t) -> c_int {
    record::make_profile();
    // SAFETY: the function takes only numbers.
    unsafe { real::SETREUID.get()(real, effective) }
}

#[unsafe(no_mangle)]
extern "C" fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    record::make_profile();
    // SAFETY: the function takes only numbers.
    unsafe { real::SETRESUID.get()(real, effective, saved) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    record::make_profile();
    // SAFETY: the program says that it is a text.
    unsafe { real::CHROOT.get()(path) }
}
