//! Deadlines and bounded waiting: the one place of the testkit that reads the clock.
#![allow(clippy::disallowed_methods)]

use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a test waits for anything before it fails. The time is generous, because only a failing
/// test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The time at which a wait gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `patience` from now.
    pub fn after(patience: Duration) -> Deadline {
        Deadline(Instant::now() + patience)
    }

    /// Returns the time left, or `None` after the deadline. It is never zero, because sockets
    /// refuse a zero timeout.
    pub fn remaining(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (left > Duration::ZERO).then_some(left)
    }
}

/// Polls `condition` until it holds. Panics with `what` after [`PATIENCE`].
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, condition), "not true within {PATIENCE:?}: {what}");
}

/// Whether `condition` becomes true within `patience`.
pub fn holds_within(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Deadline::after(patience);
    let mut pause = Duration::from_micros(100);
    while !condition() {
        let Some(left) = deadline.remaining() else {
            return false;
        };
        thread::park_timeout(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

/// The wall clock moved by `offset_s` seconds, as an HTTP-date (RFC 9110 §5.6.7).
pub fn http_date(offset_s: i64) -> String {
    let offset = Duration::from_secs(offset_s.unsigned_abs());
    let now = SystemTime::now();
    httpdate::fmt_http_date(if offset_s < 0 { now - offset } else { now + offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_and_a_condition_is_looked_at_again() {
        assert!(Deadline::after(Duration::ZERO).remaining().is_none());
        assert!(Deadline::after(PATIENCE).remaining().is_some());
        let mut looks = 0;
        assert!(holds_within(PATIENCE, || {
            looks += 1;
            looks == 3
        }));
        assert!(!holds_within(Duration::from_millis(1), || false));
    }
}
