//! Passive health checks for an origin whose site has other origins: after failures the origin gets
//! no requests for a while, then a growing share.

use std::cell::Cell;

/// The number of failures in a row after which an origin is ejected. A single failure may be the
/// fault of the request.
const EJECT_FAILURES: u32 = 3;

/// The number of failures in a row after which an origin is ejected although no other one gets
/// requests. If all origins are ejected, requests go to all of them, so the others get some again.
const EJECT_FAILURES_ALONE: u32 = 20;

/// The number of answers with an error status in a row after which an origin is ejected. It is
/// larger than [`EJECT_FAILURES`], because the reason may be the requests for one URL.
const EJECT_STATUSES: u32 = 5;

/// The number of hedged requests in a row that other origins answered first, after which an origin
/// that answers nothing is ejected.
const EJECT_LOST_HEDGES: u32 = 5;

/// The length of the first ejection of an origin; it doubles with each further ejection.
const EJECT_MS: u64 = 1_000;

/// The length of the first ejection of an origin that is slower than the others. It is longer than
/// [`EJECT_MS`], because many slow answers pass before it is noticed again.
const EJECT_OUTLIER_MS: u64 = 10_000;

/// The longest ejection, so that a repaired origin gets requests again within half a minute.
const EJECT_MS_MAX: u64 = 30_000;

/// The time in which the share of an origin grows to its full weight after an ejection. It grows
/// slowly because the caches of the origin are cold.
const SLOW_START_MS: u64 = 10_000;

/// Whether an origin of a group gets requests, the best state first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The origin gets requests.
    Available,
    /// The origin is ejected because it is slow. It answers, so it gets the requests that no
    /// available origin can take.
    Slow,
    /// The origin is ejected because it fails.
    Failing,
}

/// The recent failures of an origin, and the time until which it gets no requests. Times are
/// monotonic milliseconds.
#[derive(Debug, Default)]
pub(super) struct Ejection {
    failures: Cell<u32>,
    /// The number of answers with an error status since the last other answer.
    error_statuses: Cell<u32>,
    /// The number of bodies that broke off since the last whole one.
    broken_bodies: Cell<u32>,
    /// The number of hedged requests that another origin answered first since the last answer.
    lost_hedges: Cell<u32>,
    /// The number of ejections since the origin last stayed available for [`SLOW_START_MS`].
    count: Cell<u32>,
    until_ms: Cell<u64>,
    /// Whether the reason of the last ejection was that the origin is slow.
    is_slow: Cell<bool>,
    is_back: Cell<bool>,
    /// The number of failed health checks since the last check that passed.
    failed_checks: Cell<u32>,
    /// The time until which failed health checks keep the origin ejected; 0 if they do not.
    checks_until_ms: Cell<u64>,
}

impl Ejection {
    /// Returns the time until which the origin is ejected; 0 if it is not.
    pub(super) fn until_ms(&self, now_ms: u64) -> u64 {
        let until_ms = self.until_ms.get().max(self.checks_until_ms.get());
        Some(until_ms).filter(|until_ms| *until_ms > now_ms).unwrap_or(0)
    }

    /// Returns the standing of the origin.
    pub(super) fn standing(&self, now_ms: u64) -> Standing {
        match self.until_ms(now_ms) {
            0 => Standing::Available,
            _ if self.is_slow.get() && self.checks_until_ms.get() <= now_ms => Standing::Slow,
            _ => Standing::Failing,
        }
    }

    /// Records that no connection could be opened. Returns the length of the ejection in
    /// milliseconds if this causes one.
    pub(super) fn note_unreachable(&self, now_ms: u64) -> Option<u64> {
        self.eject(now_ms, true)
    }

    /// Records another failure. Returns the length of the ejection in milliseconds if the failure
    /// causes one; `has_other` says whether another origin gets requests.
    pub(super) fn note_failed(&self, now_ms: u64, has_other: bool) -> Option<u64> {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        let least = if has_other { EJECT_FAILURES } else { EJECT_FAILURES_ALONE };
        self.eject(now_ms, failures >= least)
    }

    /// Records an answer with an error status. Returns the length of the ejection as
    /// [`Ejection::note_failed`] does.
    pub(super) fn note_error_status(&self, now_ms: u64, has_other: bool) -> Option<u64> {
        let statuses = self.error_statuses.get().saturating_add(1);
        self.error_statuses.set(statuses);
        self.eject(now_ms, has_other && statuses >= EJECT_STATUSES)
    }

    /// Records a body that broke off. Returns the length of the ejection as
    /// [`Ejection::note_failed`] does.
    pub(super) fn note_broken_body(&self, now_ms: u64, has_other: bool) -> Option<u64> {
        let broken = self.broken_bodies.get().saturating_add(1);
        self.broken_bodies.set(broken);
        self.eject(now_ms, has_other && broken >= EJECT_FAILURES)
    }

    /// Records a body that arrived whole.
    pub(super) fn note_whole_body(&self) {
        self.broken_bodies.set(0);
    }

    /// Records a hedged request that another origin answered first. Returns the length of the
    /// ejection as [`Ejection::note_failed`] does: an origin that answers nothing has no failures
    /// if all its requests are hedged.
    pub(super) fn note_lost_hedge(&self, now_ms: u64, has_other: bool) -> Option<u64> {
        // No origin that is ejected is the first of a hedged request while another is available, so
        // this request began before the ejection.
        if self.until_ms(now_ms) != 0 {
            return None;
        }
        let lost = self.lost_hedges.get().saturating_add(1);
        self.lost_hedges.set(lost);
        self.eject(now_ms, has_other && lost >= EJECT_LOST_HEDGES)
    }

    /// Ejects the origin because it is slower than the others. Returns the length of the ejection
    /// in milliseconds; `None` if the origin is ejected already.
    pub(super) fn note_outlier(&self, now_ms: u64) -> Option<u64> {
        self.eject_for(now_ms, true, true)
    }

    /// Ejects the origin because it fails, if the ejection `is_due`. Returns the length of the
    /// ejection; `None` if the origin is ejected for a failure already.
    fn eject(&self, now_ms: u64, is_due: bool) -> Option<u64> {
        self.eject_for(now_ms, is_due, false)
    }

    /// As [`Ejection::eject`], for either reason.
    fn eject_for(&self, now_ms: u64, is_due: bool, is_slow: bool) -> Option<u64> {
        // An origin that is ejected because it is slow may still turn out to fail.
        let is_known = self.until_ms.get() > now_ms && (is_slow || !self.is_slow.get());
        if !is_due || is_known {
            return None;
        }
        let first_ms = if is_slow { EJECT_OUTLIER_MS } else { EJECT_MS };
        let for_ms = (first_ms << self.count.get().min(16)).min(EJECT_MS_MAX);
        self.count.set(self.count.get() + 1);
        // A failure does not shorten the longer ejection of an origin that is slow.
        let until_ms = self.until_ms.get().max(now_ms + for_ms);
        self.until_ms.set(until_ms);
        self.is_slow.set(is_slow);
        self.forget_failures();
        self.broken_bodies.set(0);
        self.is_back.set(false);
        Some(until_ms - now_ms)
    }

    fn forget_failures(&self) {
        self.failures.set(0);
        self.error_statuses.set(0);
        self.lost_hedges.set(0);
    }

    /// Records a failed health check. If several checks in a row have failed, or the origin is
    /// unreachable, the origin is ejected for `for_ms`, a time that lasts until after the next
    /// check. Returns whether this check has ejected an origin that was not ejected before.
    pub(super) fn note_check_failed(&self, now_ms: u64, is_unreachable: bool, for_ms: u64) -> bool {
        let failed = self.failed_checks.get().saturating_add(1);
        self.failed_checks.set(failed);
        if !is_unreachable && failed < EJECT_FAILURES {
            return false;
        }
        let is_new = self.until_ms(now_ms) == 0 && self.checks_until_ms.get() == 0;
        self.checks_until_ms.set(now_ms + for_ms);
        self.is_back.set(false);
        is_new
    }

    /// Records a health check that passed. It ends an ejection by failed checks, and the share of
    /// the origin grows from then on; it does not shorten an ejection by failed requests. Returns
    /// whether the origin gets requests again because of this check.
    pub(super) fn note_check_passed(&self, now_ms: u64) -> bool {
        self.failed_checks.set(0);
        if self.checks_until_ms.replace(0) == 0 {
            return false;
        }
        self.forget_failures();
        if self.until_ms.get() > now_ms {
            return false;
        }
        self.until_ms.set(now_ms);
        !self.is_back.replace(true)
    }

    /// Forgets failed health checks, because the origin is no longer checked.
    pub(super) fn end_checks(&self) {
        self.failed_checks.set(0);
        self.checks_until_ms.set(0);
    }

    /// Records an answer. Returns whether it is the first one after an ejection.
    pub(super) fn note_answered(&self, now_ms: u64) -> bool {
        self.forget_failures();
        self.note_connected(now_ms)
    }

    /// Records a connection for a tunnel, of which no answer is known. It ends an ejection as an
    /// answer does, but earlier failures of requests still count.
    pub(super) fn note_connected(&self, now_ms: u64) -> bool {
        let until_ms = self.until_ms.get();
        // An answer to a request that was sent before the ejection says nothing about the origin
        // now.
        if until_ms == 0 || self.until_ms(now_ms) != 0 {
            return false;
        }
        if now_ms > until_ms + SLOW_START_MS {
            self.until_ms.set(0);
            self.count.set(0);
        }
        !self.is_back.replace(true)
    }

    /// Returns the current share of an origin with this weight. After an ejection the share grows
    /// from a tenth of the weight to the whole weight. Its unit is a thousandth of a weight of 1,
    /// so that it is never zero.
    pub(super) fn ramped(&self, weight: u32, now_ms: u64) -> u64 {
        // A target of a service may have the weight 0 (RFC 2782).
        let full = (u64::from(weight) * 1000).max(10);
        let until_ms = self.until_ms.get();
        let back_ms = now_ms.saturating_sub(until_ms);
        if until_ms == 0 || back_ms >= SLOW_START_MS {
            return full;
        }
        (full * back_ms / SLOW_START_MS).max(full / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_ejected_for_longer_each_time_and_never_for_one_reset() {
        let ejection = Ejection::default();
        assert_eq!(ejection.note_failed(100, true), None);
        assert_eq!(ejection.note_failed(100, true), None);
        assert_eq!(ejection.note_failed(100, false), None, "no other origin gets requests");
        assert_eq!(ejection.note_failed(100, true), Some(EJECT_MS));
        assert_eq!(ejection.note_unreachable(101), None, "it is ejected already");
        assert_eq!(ejection.until_ms(101), 100 + EJECT_MS);
        assert_eq!(ejection.until_ms(100 + EJECT_MS), 0);
        assert_eq!(ejection.note_unreachable(2000), Some(2 * EJECT_MS));
        let mut now_ms = 10_000;
        for _ in 0..40 {
            ejection.note_unreachable(now_ms);
            now_ms += EJECT_MS_MAX;
        }
        assert_eq!(ejection.note_unreachable(now_ms), Some(EJECT_MS_MAX));
    }

    #[test]
    fn failed_checks_eject_an_origin_until_a_check_passes() {
        let ejection = Ejection::default();
        assert!(!ejection.note_check_failed(0, false, 3000));
        assert!(!ejection.note_check_passed(1000), "it was not ejected");
        for now_ms in [2000, 4000] {
            assert!(!ejection.note_check_failed(now_ms, false, 3000));
            ejection.note_answered(now_ms);
        }
        assert!(ejection.note_check_failed(6000, false, 3000), "answers to requests do not count");
        assert_eq!(ejection.until_ms(6001), 9000);
        for now_ms in [8000, 10_000, 12_000] {
            assert!(!ejection.note_check_failed(now_ms, false, 3000), "it is ejected already");
            assert_eq!(ejection.until_ms(now_ms), now_ms + 3000, "requests check nothing");
        }
        assert!(ejection.note_check_passed(14_000));
        assert_eq!((ejection.until_ms(14_000), ejection.ramped(1, 14_000)), (0, 100));
        assert!(ejection.note_check_failed(20_000, true, 3000), "no connection");
    }

    #[test]
    fn a_passed_check_does_not_shorten_an_ejection_by_failed_requests() {
        let ejection = Ejection::default();
        for _ in 0..5 {
            ejection.note_unreachable(0);
            ejection.until_ms.set(0);
        }
        assert_eq!(ejection.note_unreachable(0), Some(EJECT_MS_MAX));
        assert!(!ejection.note_check_failed(1000, true, 3000), "it is ejected already");
        assert!(!ejection.note_check_passed(2000), "the ejection by requests goes on");
        assert_eq!(ejection.until_ms(2001), EJECT_MS_MAX);
        assert!(ejection.note_answered(EJECT_MS_MAX));
    }

    #[test]
    fn a_short_ejection_by_requests_does_not_end_one_by_checks() {
        let ejection = Ejection::default();
        ejection.note_unreachable(0);
        assert!(!ejection.note_check_failed(100, true, 60_000), "it is ejected already");
        assert!(!ejection.note_answered(EJECT_MS), "failed checks keep it out");
        assert_eq!(ejection.until_ms(EJECT_MS), 60_100);
        assert!(ejection.note_check_passed(5_000));
    }

    #[test]
    fn error_statuses_and_broken_bodies_eject_an_origin_beside_another_one() {
        let ejection = Ejection::default();
        let errors = |ms, has_other| ejection.note_error_status(ms, has_other);
        assert!((1..EJECT_STATUSES).all(|number| errors(number.into(), true).is_none()));
        assert!(!ejection.note_answered(4));
        assert!((1..EJECT_STATUSES).all(|number| errors(number.into(), true).is_none()));
        assert_eq!(errors(5, false), None, "no other origin gets requests");
        assert_eq!(errors(6, true), Some(EJECT_MS));

        let ejection = Ejection::default();
        let errors = |ms| ejection.note_error_status(ms, true);
        assert_eq!((errors(0), errors(1), ejection.note_failed(2, true)), (None, None, None));
        assert_eq!((errors(3), errors(4), ejection.note_failed(5, true)), (None, None, None));
        assert_eq!(ejection.note_failed(6, true), Some(EJECT_MS), "the third of its kind");

        let ejection = Ejection::default();
        let alone = |ms| ejection.note_failed(ms, false);
        assert!((1..EJECT_FAILURES_ALONE).all(|number| alone(number.into()).is_none()));
        assert_eq!(alone(30), Some(EJECT_MS), "the others have to be asked again");

        let ejection = Ejection::default();
        let broken = |ms, has_other| ejection.note_broken_body(ms, has_other);
        assert_eq!((broken(0, true), broken(1, true)), (None, None));
        ejection.note_whole_body();
        assert_eq!((broken(2, true), broken(3, true)), (None, None));
        assert!(!ejection.note_answered(4), "a head says nothing about bodies");
        assert_eq!((broken(4, false), broken(5, true)), (None, Some(EJECT_MS)));
    }

    #[test]
    fn an_origin_that_is_slow_is_ejected_for_longer_and_its_share_grows_afterwards() {
        let ejection = Ejection::default();
        let mut now_ms = 0;
        for for_ms in [EJECT_OUTLIER_MS, 2 * EJECT_OUTLIER_MS, EJECT_MS_MAX, EJECT_MS_MAX] {
            assert_eq!(ejection.note_outlier(now_ms), Some(for_ms));
            assert_eq!(ejection.note_outlier(now_ms + 1), None, "it is ejected already");
            now_ms += for_ms;
            assert_eq!((ejection.until_ms(now_ms), ejection.ramped(1, now_ms)), (0, 100));
            assert!(ejection.note_answered(now_ms), "it is back");
        }
        ejection.note_answered(now_ms + SLOW_START_MS + 1);
        assert_eq!(ejection.note_outlier(now_ms + 60_000), Some(EJECT_OUTLIER_MS));
    }

    #[test]
    fn an_origin_that_is_left_out_as_slow_may_still_turn_out_to_fail() {
        let ejection = Ejection::default();
        assert_eq!(ejection.standing(0), Standing::Available);
        ejection.note_outlier(0);
        assert_eq!(ejection.standing(1), Standing::Slow);
        assert_eq!((ejection.note_failed(1, true), ejection.note_failed(2, true)), (None, None));
        assert_eq!(ejection.standing(2), Standing::Slow);
        let left_ms = EJECT_OUTLIER_MS - 3;
        assert_eq!(ejection.note_failed(3, true), Some(left_ms), "its pause is not shortened");
        assert_eq!(ejection.standing(4), Standing::Failing);
        assert_eq!(ejection.note_outlier(4), None, "it is ejected already");
        assert_eq!(ejection.standing(EJECT_OUTLIER_MS - 1), Standing::Failing);
        assert_eq!(ejection.standing(EJECT_OUTLIER_MS), Standing::Available);
        assert_eq!(ejection.note_outlier(15_000), Some(EJECT_MS_MAX));
        ejection.note_check_failed(15_001, true, 1_000);
        assert_eq!(ejection.standing(15_002), Standing::Failing);
    }

    #[test]
    fn hedges_that_an_ejected_origin_loses_do_not_count() {
        let ejection = Ejection::default();
        ejection.note_outlier(0);
        let lost = |ms| ejection.note_lost_hedge(ms, true);
        assert!((0..2 * EJECT_LOST_HEDGES).all(|number| lost(number.into()).is_none()));
        assert_eq!(ejection.standing(100), Standing::Slow);
        assert_eq!(lost(EJECT_OUTLIER_MS), None, "none has counted before");
    }

    #[test]
    fn the_share_of_an_origin_that_is_back_grows() {
        let ejection = Ejection::default();
        assert_eq!(ejection.ramped(2, 5), 2000);
        assert_eq!(ejection.ramped(0, 5), 10, "a hundredth of the weight 1");
        ejection.note_unreachable(0);
        assert!(!ejection.note_answered(EJECT_MS / 2), "a request from before");
        assert_eq!(ejection.ramped(2, EJECT_MS), 200);
        assert!(ejection.note_answered(EJECT_MS) && !ejection.note_answered(EJECT_MS));
        assert_eq!(ejection.ramped(2, EJECT_MS + SLOW_START_MS / 2), 1000);
        assert_eq!(ejection.ramped(2, EJECT_MS + SLOW_START_MS), 2000);
        assert!(!ejection.note_answered(EJECT_MS + SLOW_START_MS + 1));
        assert_eq!(ejection.note_unreachable(60_000), Some(EJECT_MS), "it was well for long");
    }
}
