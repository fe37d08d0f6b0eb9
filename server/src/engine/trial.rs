//! Trials of a new configuration: if too many requests fail while it is on trial, the previous
//! configuration is applied again.
//!
//! The control thread checks the running trial at each turn of its housekeeping. Another reload
//! ends the trial: its configuration stays, or is on trial itself. A chain of trials falls back to
//! the configuration before the first of them, because the ones between have not passed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::control::Control;
use crate::clock;
use crate::config::Config;
use crate::counters::Counter;
use crate::events::Event;

/// The terms of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrialTerms {
    pub(crate) duration_ms: u64,
    /// Largest share of failed requests, in percent.
    pub(crate) errors_percent_max: u64,
    /// Number of requests from which on their share of failures counts.
    pub(crate) requests_min: u64,
}

/// The state of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrialState {
    Running,
    Passed,
    /// The previous configuration is in use again.
    RolledBack,
    /// The trial failed, but the previous configuration could not be applied.
    NotRolledBack,
    /// Another reload ended the trial.
    Superseded,
}

/// The last trial, for the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialReport {
    /// The number of the trial since the server was started, from 1.
    pub(crate) number: u64,
    pub(crate) state: TrialState,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
}

/// The running trial, if there is one, and the report of the last one.
#[derive(Default)]
pub(super) struct Trials {
    running: RefCell<Option<RunningTrial>>,
    report: Cell<Option<TrialReport>>,
}

struct RunningTrial {
    terms: TrialTerms,
    begun_ms: u64,
    /// The counts of requests and of failed requests when the trial began.
    before: (u64, u64),
    /// The configuration to which the server returns if the trial fails.
    fallback: Config,
}

impl TrialState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TrialState::Running => "running",
            TrialState::Passed => "passed",
            TrialState::RolledBack => "rolled-back",
            TrialState::NotRolledBack => "not-rolled-back",
            TrialState::Superseded => "superseded",
        }
    }
}

impl TrialTerms {
    /// Returns how a trial ends after this time with these counts; `None` if it continues.
    fn verdict(&self, elapsed_ms: u64, requests: u64, errors: u64) -> Option<TrialState> {
        let is_known = requests >= self.requests_min.max(1);
        let limit = requests.saturating_mul(self.errors_percent_max);
        if is_known && errors.saturating_mul(100) > limit {
            return Some(TrialState::RolledBack);
        }
        (elapsed_ms >= self.duration_ms).then_some(TrialState::Passed)
    }
}

impl Control {
    /// Notes that a configuration has replaced `previous`, on trial if there are `terms`. Ends the
    /// running trial.
    pub(super) fn begin_trial(&self, previous: Config, terms: Option<TrialTerms>) {
        let earlier = self.trials.running.take();
        if let Some(earlier) = &earlier {
            self.end_trial(TrialState::Superseded, self.counts_since(earlier));
            Event::TrialSuperseded.log(&"the new configuration replaces the one on trial");
        }
        let Some(terms) = terms else { return };
        let fallback = earlier.map_or(previous, |earlier| earlier.fallback);
        let (begun_ms, before) = (clock::monotonic_ms(), self.request_counts());
        self.trials.running.replace(Some(RunningTrial { terms, begun_ms, before, fallback }));
        let number = self.trials.report.get().map_or(0, |report| report.number) + 1;
        let state = TrialState::Running;
        self.trials.report.set(Some(TrialReport { number, state, requests: 0, errors: 0 }));
        Event::TrialBegun.log(&format_args!(
            "{} s; at most {} % of the requests may fail",
            terms.duration_ms / 1000,
            terms.errors_percent_max
        ));
    }

    /// Returns the report of the running trial, or of the last one.
    pub(crate) fn trial_report(&self) -> Option<TrialReport> {
        let report = self.trials.report.get()?;
        match &*self.trials.running.borrow() {
            Some(running) => {
                let (requests, errors) = self.counts_since(running);
                Some(TrialReport { requests, errors, ..report })
            }
            None => Some(report),
        }
    }

    /// Ends the running trial if it has passed or failed.
    pub(super) fn watch_trial(self: &Rc<Self>) {
        let Some((state, counts)) = self.trial_verdict() else { return };
        let Some(ended) = self.trials.running.take() else { return };
        let (requests, errors) = counts;
        if state == TrialState::Passed {
            self.end_trial(state, counts);
            let share = format_args!("{errors} of {requests} requests failed");
            return Event::TrialPassed.log(&share);
        }
        let share = format!("{errors} of {requests} requests failed");
        match self.apply(ended.fallback) {
            // A stuck worker takes the configuration once its event loop runs again.
            Ok((tried, _)) => {
                let tried = &tried.watched;
                self.with_config(|config| {
                    self.file_watch.note_failed_trial(&config.watched, tried);
                });
                self.update_acme();
                self.end_trial(TrialState::RolledBack, counts);
                self.count(Counter::ReloadsRolledBack, 1);
                Event::RolledBack.log(&format_args!("{share}; the file still has the new one"));
            }
            Err(error) => {
                self.end_trial(TrialState::NotRolledBack, counts);
                Event::ReloadRefused.log(&format_args!(
                    "{share}, but the configuration before the trial cannot be used: {error}"
                ));
            }
        }
    }

    fn trial_verdict(&self) -> Option<(TrialState, (u64, u64))> {
        let running = self.trials.running.borrow();
        let running = running.as_ref()?;
        let elapsed_ms = clock::monotonic_ms().saturating_sub(running.begun_ms);
        let (requests, errors) = self.counts_since(running);
        let state = running.terms.verdict(elapsed_ms, requests, errors)?;
        Some((state, (requests, errors)))
    }

    fn end_trial(&self, state: TrialState, (requests, errors): (u64, u64)) {
        let report = self.trials.report.get();
        let ended = report.map(|report| TrialReport { state, requests, errors, ..report });
        self.trials.report.set(ended);
    }

    fn counts_since(&self, trial: &RunningTrial) -> (u64, u64) {
        let (requests, errors) = self.request_counts();
        (requests.saturating_sub(trial.before.0), errors.saturating_sub(trial.before.1))
    }

    /// Returns the numbers of requests and of failed requests.
    fn request_counts(&self) -> (u64, u64) {
        let count = |counter: Counter| self.counters.sum(counter.index());
        (count(Counter::Requests), count(Counter::ServerErrors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_fails_beyond_its_share_of_errors_and_passes_at_its_end() {
        let terms = TrialTerms { duration_ms: 60_000, errors_percent_max: 5, requests_min: 100 };
        let cases = [
            ((0, 0, 0), None),
            ((59_999, 100, 5), None),
            ((1_000, 99, 99), None),
            ((1_000, 100, 6), Some(TrialState::RolledBack)),
            ((1_000, 1000, 50), None),
            ((1_000, 1000, 51), Some(TrialState::RolledBack)),
            ((60_000, 0, 0), Some(TrialState::Passed)),
            ((60_000, 99, 99), Some(TrialState::Passed)),
            ((60_000, 100, 5), Some(TrialState::Passed)),
            ((60_000, 100, 6), Some(TrialState::RolledBack)),
            ((1_000, u64::MAX, 0), None),
        ];
        for ((elapsed_ms, requests, errors), expected) in cases {
            let verdict = terms.verdict(elapsed_ms, requests, errors);
            assert_eq!(verdict, expected, "{elapsed_ms} ms, {requests}, {errors}");
        }
        let strict = TrialTerms { errors_percent_max: 0, requests_min: 0, ..terms };
        assert_eq!(strict.verdict(0, 0, 0), None);
        assert_eq!(strict.verdict(0, 1, 1), Some(TrialState::RolledBack));
    }
}
