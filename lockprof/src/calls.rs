//! System calls of our own, and filters that may kill a process for them.
//!
//! A process that sets up a filter (seccomp) has done before what needs calls; from then on we make
//! none any more, in no thread, nor in its children, which have the filter too.
//!
//! Invariant: when a filter is set up no other thread is at work with calls of ours, for it may be
//! set up for all threads at once.
//!
//! No ordering is needed: all is said by one word.

use std::ffi::c_long;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::thread::nanosleep;
use rustix::time::Timespec;

/// Upper half: filters that are set up, or are about to be. Lower half: how often calls are being
/// made.
static STATE: AtomicU64 = AtomicU64::new(0);

const FILTER: u64 = 1 << 32;
const AT_WORK: u64 = FILTER - 1;

/// How often a filter waits, for a millisecond each, until nobody makes calls of ours: a thread
/// that is stopped, or is the one that waits, never comes to an end with them.
const WAITS_MAX: usize = 200;

/// As long as this lives, calls may be made.
#[derive(Debug)]
pub(crate) struct Calls(());

impl Calls {
    /// `None` if there is a filter.
    pub(crate) fn begin() -> Option<Calls> {
        let one_more = |state: u64| (state < FILTER).then_some(state + 1);
        STATE.fetch_update(Relaxed, Relaxed, one_more).ok().map(|_| Calls(()))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // There is none to take away in a child that was forked off meanwhile.
        let one_less = |state: u64| (state & AT_WORK != 0).then(|| state - 1);
        let _ = STATE.fetch_update(Relaxed, Relaxed, one_less);
    }
}

/// Sets a filter up, by a call that answers -1 if it could not.
pub(crate) fn set_up_filter(set_up: impl FnOnce() -> c_long) -> c_long {
    STATE.fetch_add(FILTER, Relaxed);
    wait_for_others();
    let code = set_up();
    if code == -1 {
        STATE.fetch_sub(FILTER, Relaxed);
    }
    code
}

fn wait_for_others() {
    const MILLISECOND: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..WAITS_MAX {
        if STATE.load(Relaxed) & AT_WORK == 0 {
            return;
        }
        let _ = nanosleep(&MILLISECOND);
    }
}

/// In a child that was just forked off: no other thread is here.
pub(crate) fn forked() {
    STATE.fetch_and(!AT_WORK, Relaxed);
}
