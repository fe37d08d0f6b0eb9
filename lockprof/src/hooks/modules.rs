//! The hook for unloading a library. Other libraries may later be loaded at the same addresses.

use std::ffi::{c_int, c_void};

use crate::{real, record};

#[unsafe(no_mangle)]
unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    // SAFETY: the program says that it is a library.
    let code = unsafe { real::DLCLOSE.get()(library) };
    record::doubt_modules();
    code
}
