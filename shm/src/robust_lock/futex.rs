//! Sleeping on a word until a thread of any process wakes a sleeper.

use std::time::Duration;

use forebay_sync::atomic::AtomicU64;

/// A way to sleep on a word and to wake its sleepers, with a monotonic clock. The system has one;
/// loom models have another one.
pub trait Futex {
    /// Sleeps until woken, but at most `at_most`, and not at all if the low half of `word` is not
    /// `expected`. May also wake up spuriously.
    fn wait(&self, word: &AtomicU64, expected: u32, at_most: Duration);

    /// Wakes one thread that sleeps on `word`.
    fn wake_one(&self, word: &AtomicU64);

    /// The time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The kernel's futexes, shared between processes.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFutex;

#[cfg(not(loom))]
impl Futex for SystemFutex {
    fn wait(&self, word: &AtomicU64, expected: u32, at_most: Duration) {
        let timeout = rustix::thread::Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // Woken, timed out, interrupted, or the word had changed: the caller checks again anyway.
        let _ = rustix::thread::futex::wait(
            crate::map::low_half(word),
            rustix::thread::futex::Flags::empty(),
            expected,
            Some(&timeout),
        );
    }

    fn wake_one(&self, word: &AtomicU64) {
        // The call fails only for invalid addresses.
        let _ = rustix::thread::futex::wake(
            crate::map::low_half(word),
            rustix::thread::futex::Flags::empty(),
            1,
        );
    }

    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }
}
