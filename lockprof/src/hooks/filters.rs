//! Calls by which a process limits its own rights: to system calls, or to the clock.

use std::ffi::{c_int, c_long, c_uint, c_ulong};
use std::mem::offset_of;

use crate::real::{self, RealFunction, Syscall};
use crate::record::{self, Limit};

#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    // SAFETY: the program's own arguments; the call takes no more than these.
    let real = || unsafe { real::PRCTL.get()(option, a, b, c, d) };
    match limit_of_prctl(option, a) {
        Some(limit) => record::set_limit(limit, || real().into()) as c_int,
        None => real(),
    }
}

/// The limit that this option of `prctl` sets.
fn limit_of_prctl(option: c_int, first: c_ulong) -> Option<Limit> {
    match (option, first as i64) {
        (libc::PR_SET_SECCOMP, STRICT) => Some(Limit::StrictSyscalls),
        (libc::PR_SET_SECCOMP, _) => Some(Limit::Syscalls),
        (libc::PR_SET_TSC, NO_CLOCK) => Some(Limit::Clock),
        _ => None,
    }
}

const STRICT: i64 = libc::SECCOMP_MODE_STRICT as i64;
const NO_CLOCK: i64 = libc::PR_TSC_SIGSEGV as i64;

/// The limit that this system call sets.
fn limit_of(number: c_long, first: c_long, second: c_long) -> Option<Limit> {
    match (number, first as c_uint) {
        (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_STRICT) => Some(Limit::StrictSyscalls),
        (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER) => Some(Limit::Syscalls),
        (libc::SYS_prctl, _) => limit_of_prctl(first as c_int, second as c_ulong),
        _ => None,
    }
}

unsafe extern "C" fn other_syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the program's own arguments; the call takes no more than these.
    let real = || unsafe { real::SYSCALL.get()(number, a, b, c, d, e, f) };
    match limit_of(number, a, b) {
        Some(limit) => record::set_limit(limit, real),
        None => real(),
    }
}

/// Jumps to the real function, as if the program had called it, because some calls return twice,
/// the second time on another stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long) -> c_long {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "endbr64",
        "mov r11, [rip + {real} + {address}]",
        "test r11, r11",
        "jz {other}",
        "cmp rdi, {seccomp}",
        "je {other}",
        "cmp rdi, {prctl}",
        "je {other}",
        "jmp r11",
        real = sym real::SYSCALL,
        address = const offset_of!(RealFunction<Syscall>, address),
        other = sym other_syscall,
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "hint #34",
        "adrp x16, {real}",
        "add x16, x16, :lo12:{real}",
        "ldr x16, [x16, #{address}]",
        "cbz x16, 2f",
        "cmp x0, #{seccomp}",
        "b.eq 2f",
        "cmp x0, #{prctl}",
        "b.eq 2f",
        "br x16",
        "2:",
        "b {other}",
        real = sym real::SYSCALL,
        address = const offset_of!(RealFunction<Syscall>, address),
        other = sym other_syscall,
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
    );
}
