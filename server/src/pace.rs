//! Measures how far a peer lags behind the lowest permitted rate of a body.

use crate::clock;

/// The lowest rate at which a body has to move: after `grace_ms`, `rate_min` bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastRate {
    grace_ms: u64,
    rate_min: u64,
}

impl LeastRate {
    /// Creates a rate of `rate_min` bytes per second; with 0, a peer may stall without limit.
    pub(crate) fn new(rate_min: u64, grace_ms: u64) -> LeastRate {
        LeastRate { grace_ms: if rate_min == 0 { u64::MAX / 2 } else { grace_ms }, rate_min }
    }

    /// Creates a rate that permits pauses of this length. Any byte ends a pause.
    pub(crate) fn of_pauses(pause_ms_max: u32) -> LeastRate {
        LeastRate { grace_ms: pause_ms_max.into(), rate_min: 0 }
    }

    /// Returns the time in microseconds that `bytes` bytes take at the lowest rate.
    fn time_us(self, bytes: u64) -> u64 {
        match self.rate_min {
            0 if bytes > 0 => u64::MAX,
            rate_min => bytes.saturating_mul(1_000_000) / rate_min.max(1),
        }
    }
}

/// A leaky bucket that measures how far a peer lags behind the lowest rate.
///
/// The bucket's capacity is the grace time. Waiting for the peer fills the bucket, and each byte
/// that moves empties it by the time that the byte takes at the lowest rate. So a peer gains no
/// credit by a fast start, and waits for another peer do not count.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    behind_us: u64,
    waits_since_ms: Option<u64>,
}

impl Pace {
    /// Begins or continues a wait. Returns the milliseconds until the bucket is full; `None` if it
    /// is already full.
    pub(crate) fn wait(&mut self, rate: LeastRate) -> Option<u64> {
        let now_ms = clock::monotonic_ms();
        let since_ms = *self.waits_since_ms.get_or_insert(now_ms);
        let behind_ms = self.behind_us / 1000 + now_ms.saturating_sub(since_ms);
        rate.grace_ms.checked_sub(behind_ms).filter(|&left_ms| left_ms > 0)
    }

    /// Ends a wait and adds its duration to the bucket.
    pub(crate) fn stop_waiting(&mut self) {
        if let Some(since_ms) = self.waits_since_ms.take() {
            self.behind_us += clock::monotonic_ms().saturating_sub(since_ms).saturating_mul(1000);
        }
    }

    /// Ends a wait, and records that `bytes` bytes were sent or received.
    pub(crate) fn moved(&mut self, bytes: u64, rate: LeastRate) {
        self.stop_waiting();
        self.behind_us = self.behind_us.saturating_sub(rate.time_us(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;
    use crate::clock::simulated::VirtualClocks;

    fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("an event loop");
        runtime.block_on(async {
            let _clocks = VirtualClocks::start(1_800_000_000);
            test.await;
        });
    }

    #[test]
    fn time_after_a_wait_that_was_broken_off_does_not_count() {
        run(async {
            let (rate, mut pace) = (LeastRate::new(100, 1000), Pace::default());
            assert_eq!(pace.wait(rate), Some(1000));
            advance(Duration::from_millis(600)).await;
            pace.stop_waiting();
            advance(Duration::from_secs(60)).await;
            assert_eq!(pace.wait(rate), Some(400), "only 600 ms of waiting have passed");
            advance(Duration::from_millis(500)).await;
            assert_eq!(pace.wait(rate), None, "1,100 ms of waiting have passed");
        });
    }

    #[test]
    fn bytes_that_move_allow_further_waits_but_gain_no_credit() {
        run(async {
            let (rate, mut pace) = (LeastRate::new(100, 1000), Pace::default());
            pace.moved(1_000_000, rate);
            assert_eq!(pace.wait(rate), Some(1000));
            advance(Duration::from_millis(900)).await;
            pace.moved(50, rate);
            assert_eq!(pace.wait(rate), Some(600));
            // Single bytes count too: together they move faster than the lowest rate.
            let (fast, mut pace) = (LeastRate::new(2000, 1000), Pace::default());
            for _ in 0..10 {
                assert!(pace.wait(fast).is_some());
                advance(Duration::from_millis(200)).await;
                (0..400).for_each(|_| pace.moved(1, fast));
            }
            let (unlimited, mut pace) = (LeastRate::new(0, 1000), Pace::default());
            assert!(pace.wait(unlimited).is_some_and(|left_ms| left_ms > 1 << 60));
            let (quiet, mut pace) = (LeastRate::of_pauses(1000), Pace::default());
            for _ in 0..10 {
                assert_eq!(pace.wait(quiet), Some(1000), "one byte ended the last pause");
                advance(Duration::from_millis(900)).await;
                pace.moved(1, quiet);
            }
            pace.wait(quiet);
            advance(Duration::from_millis(1000)).await;
            assert_eq!(pace.wait(quiet), None);
        });
    }
}
