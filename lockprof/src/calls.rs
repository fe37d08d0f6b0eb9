//! Permits for the library's own system calls. A program may set up a filter of system calls
//! (seccomp), which may kill the program for a call of ours.
//!
//! The library makes the system calls that it needs later before a filter is set up. After that it
//! makes none, in any thread or child, since children inherit the filter.
//!
//! Invariant: no other thread is inside our system calls when a filter is set up, since the filter
//! may immediately apply to all threads. The wait for such threads has a limit, however.
//!
//! No ordering is needed: one word contains the whole state.

use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::thread::nanosleep;
use rustix::time::Timespec;

static GATE: CallGate = CallGate(AtomicU64::new(0));

/// A permit for system calls. While it lives, this thread runs no signal handlers, except those for
/// its own faults. A handler that never returns would leave other threads waiting for a half-made
/// value, and handlers that come one after another would keep our calls from ever ending.
pub(crate) struct CallPermit {
    /// The signal mask that the thread had before.
    before: libc::sigset_t,
}

/// The signals of the thread's own faults, which are not blocked.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

impl CallPermit {
    /// Returns a permit; `None` if a filter is set up or about to be.
    pub(crate) fn begin() -> Option<CallPermit> {
        GATE.enter().then(|| CallPermit { before: hold_signals_back() })
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        // SAFETY: the set of signals is valid, and the pointer for the former set may be null. The
        // call does not fail, and leaves errno alone.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
        // This comes last, since the call above is a system call too.
        GATE.leave();
    }
}

fn hold_signals_back() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: there is room for a set, which the call fills in.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: the set and the signal are valid.
        unsafe { libc::sigdelset(set.as_mut_ptr(), fault) };
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: the set is valid, and there is room for the former one. The call does not fail, and
    // leaves errno alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: the call has filled it in.
    unsafe { before.assume_init() }
}

/// Sets up a filter by calling `set_up`, which returns -1 on failure. Before that, no further
/// permits are given, and this waits for system calls in progress.
pub(crate) fn set_up_filter(set_up: impl FnOnce() -> c_long) -> c_long {
    GATE.shut_by(set_up)
}

/// Called in a forked child. Clears the number of calls in progress, since the child has only this
/// thread.
pub(crate) fn forked() {
    GATE.0.fetch_and(!AT_WORK, Relaxed);
}

/// The upper half is the number of filters that are set up or about to be. The lower half is the
/// number of calls in progress.
#[derive(Debug)]
struct CallGate(AtomicU64);

const FILTER: u64 = 1 << 32;
const AT_WORK: u64 = FILTER - 1;

/// The largest number of waits for calls in progress, of a millisecond each. There is a limit
/// because a thread that is stopped, or that is itself waiting here, never finishes its call.
const WAITS_MAX: usize = 1000;

impl CallGate {
    fn enter(&self) -> bool {
        let one_more = |state: u64| (state < FILTER).then_some(state + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    fn leave(&self) {
        // In a child that was forked during the call, `forked` has cleared the number.
        let one_less = |state: u64| (state & AT_WORK != 0).then(|| state - 1);
        let _ = self.0.fetch_update(Relaxed, Relaxed, one_less);
    }

    fn shut_by(&self, set_up: impl FnOnce() -> c_long) -> c_long {
        self.0.fetch_add(FILTER, Relaxed);
        self.wait_for_others();
        let code = set_up();
        if code == -1 {
            self.0.fetch_sub(FILTER, Relaxed);
        }
        code
    }

    fn wait_for_others(&self) {
        const MILLISECOND: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..WAITS_MAX {
            if self.0.load(Relaxed) & AT_WORK == 0 {
                return;
            }
            let _ = nanosleep(&MILLISECOND);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn a_filter_waits_for_running_calls_and_then_no_call_begins() {
        let (gate, has_left) = (CallGate(AtomicU64::new(0)), AtomicBool::new(false));
        assert!(gate.enter());
        thread::scope(|scope| {
            let filter = scope.spawn(|| gate.shut_by(|| has_left.load(Relaxed).into()));
            while gate.0.load(Relaxed) < FILTER {
                thread::yield_now();
            }
            assert!(!gate.enter(), "a filter is about to be set up");
            // A filter that does not wait is set up by now.
            for _ in 0..100 {
                thread::yield_now();
            }
            has_left.store(true, Relaxed);
            gate.leave();
            assert_eq!(
                filter.join().unwrap(),
                1,
                "the filter was set up while a call was in progress"
            );
        });
        assert!(!gate.enter());
        assert_eq!(gate.shut_by(|| -1), -1);
        assert!(!gate.enter(), "the first filter is still there, so no call may begin");
    }

    #[test]
    fn a_failed_filter_shuts_nothing_and_the_wait_for_running_calls_is_bounded() {
        let gate = CallGate(AtomicU64::new(0));
        assert_eq!(gate.shut_by(|| -1), -1);
        assert!(gate.enter());
        assert_eq!(gate.shut_by(|| 0), 0);
        assert!(!gate.enter());
        gate.leave();
        gate.leave();
        assert_eq!(gate.0.load(Relaxed), FILTER, "a second end of the same call changed the state");
    }
}
