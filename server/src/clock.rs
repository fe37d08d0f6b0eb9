//! Clocks; no other module reads one.
//!
//! Decisions take time as an argument; the code that needs the time of day or a deadline reads it
//! here. Reading a coarse clock of Linux needs no system call and costs a few nanoseconds. Coarse
//! clocks step with the kernel's tick (1–10 ms), which is finer than any unit of HTTP.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1970, as HTTP dates count them.
pub fn unix_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// Milliseconds since 1970, for log lines.
pub fn unix_ms() -> u64 {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Nanoseconds since 1970, for the time at which a lock was taken.
pub fn unix_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Milliseconds on a clock that never goes back, for deadlines; at least 1.
pub fn monotonic_ms() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    (seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000).max(1)
}

/// Nanoseconds on a clock that never goes back, for the cost of a rule and of a loop's turn.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Microseconds on a clock that never goes back, for durations of requests and of origins.
pub fn monotonic_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}
