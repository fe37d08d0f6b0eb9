//! The replacements for functions of the C library.
//!
//! A hook that takes a lock consists of two functions. A *stub* has the name of the C library's
//! function. It adds two arguments, its return address and the caller's frame pointer, and jumps to
//! the second function, which does the work.

mod attempt;
mod cond;
mod filters;
mod modules;
pub(crate) mod mutex;
mod rights;
mod rwlock;
mod spin;

use crate::{process, real, settings, thread};

/// Defines a stub. `$number` is the number of the function's arguments.
macro_rules! stub {
    ($number:tt $abi:literal $name:ident($($argument:ident: $kind:ty),*) => $inner:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern $abi fn $name($($argument: $kind),*) -> std::ffi::c_int {
            stub!(@jump $number $inner)
        }
    };
    (@jump 1 $inner:path) => { stub!(@jump "rsi" "rdx" "x1" "x2" $inner) };
    (@jump 2 $inner:path) => { stub!(@jump "rdx" "rcx" "x2" "x3" $inner) };
    (@jump 3 $inner:path) => { stub!(@jump "rcx" "r8" "x3" "x4" $inner) };
    (@jump 4 $inner:path) => { stub!(@jump "r8" "r9" "x4" "x5" $inner) };
    (@jump $address:literal $frame:literal $on_arm:literal $frame_on_arm:literal $inner:path) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::naked_asm!(
            "endbr64",
            concat!("mov ", $address, ", [rsp]"),
            concat!("mov ", $frame, ", rbp"),
            "jmp {inner}",
            inner = sym $inner,
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::naked_asm!(
            "hint #34",
            concat!("mov ", $on_arm, ", x30"),
            concat!("mov ", $frame_on_arm, ", x29"),
            "b {inner}",
            inner = sym $inner,
        );
    }};
}
use stub;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("lockprof supports only x86-64 and AArch64: its stubs are written in assembly");

/// Called by the dynamic linker when the library is loaded; there is one thread then.
extern "C" fn loaded() {
    real::find_all();
    if settings::settings().is_some() {
        process::loaded();
        // The C library allocates no memory for the first 32 keys, so this key is made early.
        thread::leave_key();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
