//! The retry budget: it limits retries to a share of the requests, so that failing origins do not
//! get much additional load. The same budget, with a share of its own, limits requests on pooled
//! connections that turn out to be closed.

use std::cell::Cell;

/// The most retries that one worker may send in quick succession for all origins of a site and its
/// routes: enough to repeat the requests that are in progress when an origin fails.
const RETRY_BURST: u64 = 20;

/// The retries that a worker may still send, counted in hundredths of a retry.
#[derive(Debug)]
pub(super) struct RetryBudget {
    left: Cell<u64>,
    refilled_ms: Cell<u64>,
}

/// One retry, in hundredths.
const ONE: u64 = 100;

impl RetryBudget {
    /// Creates a full budget.
    pub(super) fn new(now_ms: u64) -> RetryBudget {
        RetryBudget { left: Cell::new(RETRY_BURST * ONE), refilled_ms: Cell::new(now_ms) }
    }

    /// Adds the share that one request earns: `percent` hundredths of a retry.
    pub(super) fn note_request(&self, percent: u8) {
        self.add(u64::from(percent));
    }

    /// Takes one retry; returns false if none is left. The budget also grows by one retry per
    /// second. If `percent` is 0, there are no retries at all.
    pub(super) fn take(&self, percent: u8, now_ms: u64) -> bool {
        if percent == 0 || !self.is_left(now_ms) {
            return false;
        }
        self.left.set(self.left.get() - ONE);
        true
    }

    /// Takes one retry as [`RetryBudget::take`] does, but leaves half of a full budget.
    pub(super) fn take_spare(&self, percent: u8, now_ms: u64) -> bool {
        let is_spare = self.is_left(now_ms) && self.left.get() >= (RETRY_BURST / 2 + 1) * ONE;
        is_spare && self.take(percent, now_ms)
    }

    /// Whether at least one retry is left.
    pub(super) fn is_left(&self, now_ms: u64) -> bool {
        let seconds = now_ms.saturating_sub(self.refilled_ms.get()) / 1000;
        self.refilled_ms.set(self.refilled_ms.get() + seconds * 1000);
        self.add(seconds.saturating_mul(ONE));
        self.left.get() >= ONE
    }

    fn add(&self, hundredths: u64) {
        self.left.set(self.left.get().saturating_add(hundredths).min(RETRY_BURST * ONE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_the_requests() {
        let budget = RetryBudget::new(0);
        assert!(!budget.take(0, 0), "no retries are allowed");
        let mut sent = 0;
        for _ in 0..1000 {
            budget.note_request(10);
            sent += u64::from(budget.take(10, 0));
        }
        assert!((100..=100 + RETRY_BURST).contains(&sent), "{sent}");
    }

    #[test]
    fn half_of_the_budget_is_left_for_requests_that_fail() {
        let budget = RetryBudget::new(0);
        assert!(!budget.take_spare(0, 0), "no retries are allowed");
        let spare = (0..RETRY_BURST).filter(|_| budget.take_spare(10, 0)).count() as u64;
        assert_eq!(spare, RETRY_BURST / 2);
        assert!(budget.take(10, 0) && !budget.take_spare(10, 0));
        assert!(!budget.take_spare(10, 1000) && budget.take_spare(10, 2000));
    }

    #[test]
    fn one_retry_a_second_is_allowed() {
        let budget = RetryBudget::new(0);
        while budget.take(10, 0) {}
        assert!(!budget.take(10, 999));
        assert!(budget.take(10, 1000) && !budget.take(10, 1999) && budget.take(10, 2000));
    }
}
