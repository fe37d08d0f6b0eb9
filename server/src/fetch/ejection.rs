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
mod tests;
