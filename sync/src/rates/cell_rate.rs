//! The generic cell rate algorithm (GCRA) in its form of virtual scheduling (ITU-T I.371).
//!
//! A key's state is one time: the *theoretical arrival time*, at which the key has used up nothing.
//! Each admitted request moves it one interval into the future. A request is admitted if the
//! theoretical arrival time is at most the tolerance away.

/// Largest time for which a key's state can be ahead of the present: one day.
pub(super) const AHEAD_US_MAX: u64 = 86_400_000_000;

/// A rate of requests, and the number of requests that may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRate {
    /// Microseconds from one request to the next at the highest steady rate.
    interval_us: u64,
    /// How far the theoretical arrival time may be ahead of a request that is admitted.
    tolerance_us: u64,
}

impl CellRate {
    /// Returns the rate of `count` requests in each `period_us`, of which `burst` may come at once.
    ///
    /// The interval is rounded up to whole microseconds, so the rate is never above the given one:
    /// below 10,000 requests a second it is at most 1 % lower.
    ///
    /// Returns `None` if a number is 0, if the interval is shorter than ten microseconds, or if a
    /// burst takes more than a day to be available again.
    #[must_use]
    pub const fn new(count: u64, period_us: u64, burst: u64) -> Option<CellRate> {
        if count == 0 || burst == 0 || period_us / 10 < count {
            return None;
        }
        let interval_us = period_us.div_ceil(count);
        let Some(ahead_us) = interval_us.checked_mul(burst) else { return None };
        if ahead_us > AHEAD_US_MAX {
            return None;
        }
        Some(CellRate { interval_us, tolerance_us: ahead_us - interval_us })
    }

    /// Decides about a request of a key whose theoretical arrival time is `ahead_us` from now.
    /// Returns how far ahead it is after the request.
    ///
    /// # Errors
    /// The request is not admitted: the microseconds until it would be.
    pub(super) const fn admit(self, ahead_us: u64) -> Result<u64, u64> {
        match ahead_us.saturating_sub(self.tolerance_us) {
            0 => Ok(ahead_us + self.interval_us),
            wait_us => Err(wait_us),
        }
    }

    /// Returns how far the theoretical arrival time can be ahead of the present.
    pub(super) const fn ahead_us_max(self) -> u64 {
        self.tolerance_us + self.interval_us
    }

    /// Returns the microseconds from one request to the next at the highest steady rate.
    pub(super) const fn interval_us(self) -> u64 {
        self.interval_us
    }
}
