//! The clocks of the benchmark: monotonic time, the same in every process of the machine, and a
//! `Date` line that is written once a second.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC. Processes may compare their values.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Seconds since 1970 from the coarse clock, which takes a few nanoseconds to read and is at most 4
/// ms late.
pub(crate) fn unix_seconds() -> u64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec.cast_unsigned()
}

/// The line `Date: …\r
/// `, formatted again only when the second has changed.
#[derive(Default)]
pub(crate) struct DateLine {
    second: u64,
    line: String,
}

impl DateLine {
    /// Returns the line for `second`, counted from 1970.
    pub(crate) fn at(&mut self, second: u64) -> &[u8] {
        if second != self.second || self.line.is_empty() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            self.line = format!("Date: {}\r\n", httpdate::fmt_http_date(time));
            self.second = second;
        }
        self.line.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_line_follows_the_second() {
        let mut line = DateLine::default();
        for (second, want) in [
            (0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            (1_000_000_000, "Date: Sun, 09 Sep 2001 01:46:40 GMT\r\n"),
        ] {
            assert_eq!(line.at(second), want.as_bytes(), "second {second}");
        }
    }

    #[test]
    fn monotonic_time_does_not_go_back() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
    }
}
