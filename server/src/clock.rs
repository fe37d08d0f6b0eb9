//! The clocks of the server. No other module reads a clock.
//!
//! Decisions take time as an argument; code that needs the time of day or a deadline reads it here.
//! Reading a coarse clock of Linux needs no system call and costs a few nanoseconds. Coarse clocks
//! advance with the kernel's tick (1–10 ms), which is precise enough for HTTP's seconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the seconds since 1970, as in HTTP dates.
pub fn unix_seconds() -> u64 {
    read(ClockId::RealtimeCoarse).as_secs()
}

/// Returns the milliseconds since 1970, for log lines.
pub fn unix_ms() -> u64 {
    ms(read(ClockId::RealtimeCoarse))
}

/// Returns the nanoseconds since 1970 on the clock from which file systems take the times of files.
pub(crate) fn unix_coarse_ns() -> u64 {
    ns(read(ClockId::RealtimeCoarse))
}

/// Returns the nanoseconds since 1970, for the time at which a lock was taken.
pub fn unix_ns() -> u64 {
    ns(read(ClockId::Realtime))
}

/// Returns milliseconds on a clock that never goes back, for deadlines; at least 1.
pub fn monotonic_ms() -> u64 {
    ms(read(ClockId::MonotonicCoarse)).max(1)
}

/// Returns nanoseconds on a clock that never goes back, to time rules and turns of the event loop.
pub fn monotonic_ns() -> u64 {
    ns(read(ClockId::Monotonic))
}

/// Returns microseconds on a clock that never goes back, to time requests.
pub fn monotonic_us() -> u64 {
    ns(read(ClockId::Monotonic)) / 1000
}

#[inline]
fn read(clock: ClockId) -> Duration {
    #[cfg(test)]
    if let Some(time) = simulated::read(clock) {
        return time;
    }
    let time = clock_gettime(clock);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

#[inline]
fn ms(time: Duration) -> u64 {
    time.as_secs() * 1000 + u64::from(time.subsec_millis())
}

#[inline]
fn ns(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000) + u64::from(time.subsec_nanos())
}

/// The clocks of a thread that runs a simulated server: they follow the event loop's virtual time.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::Duration;

    use rustix::time::ClockId;
    use tokio::time::Instant;

    #[derive(Clone, Copy)]
    struct Clocks {
        began: Instant,
        unix_at_begin: Duration,
    }

    thread_local! {
        static CLOCKS: Cell<Option<Clocks>> = const { Cell::new(None) };
    }

    /// A guard: while it exists, its thread has virtual clocks. The thread must run an event loop
    /// whose time is paused.
    pub(crate) struct VirtualClocks;

    impl VirtualClocks {
        pub(crate) fn start(unix_seconds: u64) -> VirtualClocks {
            let unix_at_begin = Duration::from_secs(unix_seconds);
            CLOCKS.set(Some(Clocks { began: Instant::now(), unix_at_begin }));
            VirtualClocks
        }
    }

    impl Drop for VirtualClocks {
        fn drop(&mut self) {
            CLOCKS.set(None);
        }
    }

    /// Moves the time of day forward, or back if `ms` is negative.
    pub(crate) fn step_unix_ms(ms: i64) {
        let step = Duration::from_millis(ms.unsigned_abs());
        let set = |clocks: Clocks| {
            let at = clocks.unix_at_begin;
            let unix_at_begin = if ms < 0 { at.saturating_sub(step) } else { at + step };
            Clocks { unix_at_begin, ..clocks }
        };
        CLOCKS.set(CLOCKS.get().map(set));
    }

    pub(super) fn read(clock: ClockId) -> Option<Duration> {
        let clocks = CLOCKS.get()?;
        let since = clocks.began.elapsed();
        Some(match clock {
            ClockId::Realtime | ClockId::RealtimeCoarse => clocks.unix_at_begin + since,
            // An offset that is not zero, so that the machine seems to have been running for a
            // while.
            _ => Duration::from_secs(1000) + since,
        })
    }
}
