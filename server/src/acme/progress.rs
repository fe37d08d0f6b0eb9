//! The order in progress, which a new plan does not cut off if it has the same terms.

use std::cell::{Cell, RefCell};

use super::schedule::retry_time;
use super::status::Failures;
use super::thread::AcmePlan;
use crate::clock;
use crate::config::AcmeTerms;
use crate::limits::ACME_CUT_OFF_MS;

/// The order in progress of a plan.
#[derive(Debug, Default)]
pub(super) struct OrderProgress {
    /// The terms of the order; `None` without an order.
    terms: RefCell<Option<AcmeTerms>>,
    /// Whether the plan ends after this order.
    is_last: Cell<bool>,
}

/// An order that has begun. If it is cut off because the server stops, or because its terms change,
/// the next one follows after a shorter time than after a failure.
pub(super) struct StartedOrder<'a> {
    progress: &'a OrderProgress,
    terms: &'a AcmeTerms,
    /// The failures, including this order; `None` once it has ended.
    cut_off: Option<Failures>,
    retry_ms: u64,
}

impl OrderProgress {
    /// Lets the order in progress end, but begins no further one, if `next` has the same terms for
    /// it. Returns whether it does.
    pub(super) fn ends_for(&self, plan: &AcmePlan, next: &AcmePlan) -> bool {
        let terms = self.terms.borrow();
        let is_kept = plan.settings == next.settings
            && terms.is_some()
            && next.sets.iter().any(|set| set.acme == *terms);
        self.is_last.set(is_kept);
        is_kept
    }

    /// Whether no further order of the plan begins.
    pub(super) fn is_last(&self) -> bool {
        self.is_last.get()
    }
}

impl<'a> StartedOrder<'a> {
    /// `failures` are those that count if the order does not end.
    pub(super) fn new(
        progress: &'a OrderProgress,
        terms: &'a AcmeTerms,
        failures: Failures,
        retry_ms: u64,
    ) -> StartedOrder<'a> {
        progress.terms.replace(Some(terms.clone()));
        StartedOrder { progress, terms, cut_off: Some(failures), retry_ms }
    }

    /// Notes that the order has ended.
    pub(super) fn end(mut self) {
        self.cut_off = None;
    }
}

impl Drop for StartedOrder<'_> {
    fn drop(&mut self) {
        self.progress.terms.replace(None);
        let Some(mut failures) = self.cut_off.take() else { return };
        let first_ms = self.retry_ms.min(ACME_CUT_OFF_MS);
        failures.retry_at = retry_time(clock::unix_seconds(), failures.count, first_ms, None);
        // Without room on the disk, the order counts as failed.
        drop(failures.write(self.terms));
    }
}

#[cfg(test)]
mod tests {
    use forebay_testkit::server::Folder;

    use super::*;
    use crate::config::AcmeChallenge;

    #[test]
    fn an_order_that_was_cut_off_is_repeated_after_a_growing_time() {
        let folder = Folder::new();
        let terms = AcmeTerms {
            site: "a".to_owned(),
            names: vec!["a.org".to_owned()],
            challenge: AcmeChallenge::Http,
            file: folder.path("a.pem"),
        };
        let progress = OrderProgress::default();
        for (count, expected) in [(1, 60), (2, 120), (3, 240)] {
            let failures = Failures { count, ..Failures::default() };
            let before = clock::unix_seconds();
            let started = StartedOrder::new(&progress, &terms, failures, 600_000);
            assert!(progress.terms.borrow().is_some());
            drop(started);
            assert!(progress.terms.borrow().is_none());
            let found = Failures::read(&terms);
            let range = before + expected..=clock::unix_seconds() + expected;
            assert!(found.count == count && range.contains(&found.retry_at), "{found:?}");
        }
        StartedOrder::new(&progress, &terms, Failures::default(), 600_000).end();
        assert_eq!(Failures::read(&terms).count, 3, "an order that has ended writes nothing");
    }
}
