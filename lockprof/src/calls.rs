//! System calls of our own, and filters that may kill a process for them.
//!
//! A process that sets up a filter (seccomp) has done before what needs calls; from then on we make
//! none any more, in no thread, nor in its children, which have the filter too.
//!
//! Invariant: when a filter is set up no other thread is at work with calls of ours, for it may be
//! set up for all threads at once.
//!
//! No ordering is needed: all is said by one word.

use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::thread::nanosleep;
use rustix::time::Timespec;

static GATE: CallGate = CallGate(AtomicU64::new(0));

/// As long as this lives, calls may be made, and no handler of a signal runs in this thread: one
/// that never returns would leave others waiting for what is half made, and one that comes again
/// and again would let no call come to its end.
pub(crate) struct CallPermit {
    /// The signals that were held back before.
    before: libc::sigset_t,
}

/// What a fault of the thread itself is answered with is not held back.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

impl CallPermit {
    /// `None` if there is a filter.
    pub(crate) fn begin() -> Option<CallPermit> {
        GATE.enter().then(|| CallPermit { before: hold_signals_back() })
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        // SAFETY: a set of signals; where the one before is put nobody wants to know. It does not
        // fail, and leaves errno alone.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
        // Last, since that was a call too.
        GATE.leave();
    }
}

fn hold_signals_back() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: room for a set, which this fills in.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: a set, and a signal.
        unsafe { libc::sigdelset(set.as_mut_ptr(), fault) };
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: a set, and room for one. It does not fail, and leaves errno alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: it was filled in.
    unsafe { before.assume_init() }
}

/// Sets a filter up, by a call that answers -1 if it could not.
pub(crate) fn set_up_filter(set_up: impl FnOnce() -> c_long) -> c_long {
    GATE.shut_by(set_up)
}

/// In a child that was just forked off: no other thread is here.
pub(crate) fn forked() {
    GATE.0.fetch_and(!AT_WORK, Relaxed);
}

/// Upper half: filters that are set up, or are about to be. Lower half: how often calls are being
/// made.
#[derive(Debug)]
struct CallGate(AtomicU64);

const FILTER: u64 = 1 << 32;
const AT_WORK: u64 = FILTER - 1;

/// How often a filter waits, for a millisecond each, until nobody makes calls of ours: a thread
/// that is stopped, or is the one that waits, never comes to an end with them.
const WAITS_MAX: usize = 1000;

impl CallGate {
    fn enter(&self) -> bool {
        let one_more = |state: u64| (state < FILTER).then_some(state + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    fn leave(&self) {
        // There is none to take away in a child that was forked off meanwhile.
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
    fn a_filter_waits_for_who_makes_calls_and_then_nobody_does() {
        let (gate, has_left) = (CallGate(AtomicU64::new(0)), AtomicBool::new(false));
        assert!(gate.enter());
        thread::scope(|scope| {
            let filter = scope.spawn(|| gate.shut_by(|| has_left.load(Relaxed).into()));
            while gate.0.load(Relaxed) < FILTER {
                thread::yield_now();
            }
            assert!(!gate.enter(), "a filter is about to be set up");
            // Who does not wait is done now.
            for _ in 0..100 {
                thread::yield_now();
            }
            has_left.store(true, Relaxed);
            gate.leave();
            assert_eq!(filter.join().unwrap(), 1, "it was set up before that");
        });
        assert!(!gate.enter());
        assert_eq!(gate.shut_by(|| -1), -1);
        assert!(!gate.enter(), "the first filter stays");
    }

    #[test]
    fn a_filter_that_could_not_be_set_up_shuts_nothing_and_who_stays_at_work_is_not_waited_for() {
        let gate = CallGate(AtomicU64::new(0));
        assert_eq!(gate.shut_by(|| -1), -1);
        assert!(gate.enter());
        assert_eq!(gate.shut_by(|| 0), 0);
        assert!(!gate.enter());
        gate.leave();
        gate.leave();
        assert_eq!(gate.0.load(Relaxed), FILTER, "nobody is at work, however often that is said");
    }
}
