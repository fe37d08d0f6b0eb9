//! The activity and the cost of each rule, as counted by one worker.
//!
//! A worker counts in its own copy of the configuration, which no other thread reads; the control
//! thread asks the worker for the counts.
//!
//! If the program evaluates several rules together, they share one set of counts, that of the first
//! of them.

use std::cell::Cell;
use std::ops::Range;

use forebay_rules::ast::Hook;
use forebay_rules::run::{RunObserver, RunReport};

use crate::clock;
use crate::config::RuleSet;
use crate::limits::RULE_SAMPLE_EVERY;

/// The counts of one copy of a configuration.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters(Box<Cells>);

/// In a clone, all counts are zero.
impl Clone for RuleCounters {
    fn clone(&self) -> RuleCounters {
        RuleCounters::new(self.0.rules.len(), self.0.counters.len())
    }
}

/// Configurations are compared without their counts, so all `RuleCounters` are equal.
impl PartialEq for RuleCounters {
    fn eq(&self, _: &RuleCounters) -> bool {
        true
    }
}

#[derive(Debug, Default)]
// Aligned, so that the cells share no cache line with memory that other threads write.
#[repr(align(128))]
struct Cells {
    rules: Box<[HotCounters]>,
    /// Less frequent counts of the same rules, which most runs do not change.
    cold: Box<[ColdCounters]>,
    /// The values of the operator `counter`, one for each name.
    counters: Box<[Cell<u64>]>,
    /// The number of runs at each hook. One run in `RULE_SAMPLE_EVERY` is timed.
    runs: [Cell<u64>; Hook::COUNT],
}

#[derive(Debug, Default)]
struct HotCounters {
    runs: Cell<u64>,
    matches: Cell<u64>,
    bytes: Cell<u64>,
}

#[derive(Debug, Default)]
struct ColdCounters {
    failures: Cell<u64>,
    timed: Cell<u64>,
    timed_ns: Cell<u64>,
}

/// The counts of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCount {
    /// How often the rule was evaluated.
    pub(crate) runs: u64,
    /// How often the rule's conditions matched.
    pub(crate) matches: u64,
    /// Bytes that the rule wrote into heads.
    pub(crate) bytes: u64,
    /// How often an operator of the rule failed.
    pub(crate) failures: u64,
    /// Number of runs that were timed.
    pub(crate) timed: u64,
    /// The total time of the timed runs, in nanoseconds.
    pub(crate) timed_ns: u64,
}

impl RuleCounters {
    /// Creates counters for `rule_count` rules and for `counter_count` names of the operator
    /// `counter`.
    pub(crate) fn new(rule_count: usize, counter_count: usize) -> RuleCounters {
        RuleCounters(Box::new(Cells {
            rules: (0..rule_count).map(|_| HotCounters::default()).collect(),
            cold: (0..rule_count).map(|_| ColdCounters::default()).collect(),
            counters: (0..counter_count).map(|_| Cell::new(0)).collect(),
            runs: Default::default(),
        }))
    }

    /// Whether there are no rules to count.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.rules.is_empty()
    }

    /// Continues with the counts of `other`, which has the same rules.
    pub(crate) fn copy_from(&self, other: &RuleCounters) {
        let (own, other) = (&self.0, &other.0);
        for (own, other) in own.rules.iter().zip(&other.rules) {
            own.runs.set(other.runs.get());
            own.matches.set(other.matches.get());
            own.bytes.set(other.bytes.get());
        }
        for (own, other) in own.cold.iter().zip(&other.cold) {
            own.failures.set(other.failures.get());
            own.timed.set(other.timed.get());
            own.timed_ns.set(other.timed_ns.get());
        }
        let pairs = own.counters.iter().zip(&other.counters);
        pairs.chain(own.runs.iter().zip(&other.runs)).for_each(|(own, other)| own.set(other.get()));
    }

    /// Counts a use of the operator `counter`. The argument `counter` is the index of the name
    /// within the rule set.
    pub(super) fn count(&self, rules: &RuleSet, counter: u32) {
        if let Some(cell) = self.0.counters.get(rules.first_counter + counter as usize) {
            add(cell, 1);
        }
    }

    /// Returns the value of the operator `counter` for one name. `index` is the index of the name
    /// among the names of all rule sets.
    pub(crate) fn counter(&self, index: usize) -> u64 {
        self.0.counters.get(index).map_or(0, |cell| cell.get())
    }

    /// Returns the counts of a rule. `index` is the index of the rule among the rules of all rule
    /// sets.
    pub(crate) fn rule(&self, index: usize) -> RuleCount {
        let both = self.0.rules.get(index).zip(self.0.cold.get(index));
        both.map(|(hot, cold)| RuleCount::of(hot, cold)).unwrap_or_default()
    }
}

impl RuleCount {
    /// Adds the counts of another worker, or of another route.
    pub(super) fn merge(&mut self, other: RuleCount) {
        self.runs += other.runs;
        self.matches += other.matches;
        self.bytes += other.bytes;
        self.failures += other.failures;
        self.timed += other.timed;
        self.timed_ns += other.timed_ns;
    }

    /// Returns the mean time of a run in nanoseconds; `None` if no run was timed.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.timed_ns as f64 / self.timed as f64)
    }

    /// Returns the share of one rule, if `of` rules are counted together: all runs and matches, and
    /// an equal part of the bytes and of the time. The first rule gets all failures.
    pub(super) fn share(self, of: u32, is_first: bool) -> RuleCount {
        let of = u64::from(of.max(1));
        RuleCount {
            bytes: self.bytes / of,
            timed_ns: self.timed_ns / of,
            failures: if is_first { self.failures } else { 0 },
            ..self
        }
    }

    fn of(hot: &HotCounters, cold: &ColdCounters) -> RuleCount {
        RuleCount {
            runs: hot.runs.get(),
            matches: hot.matches.get(),
            bytes: hot.bytes.get(),
            failures: cold.failures.get(),
            timed: cold.timed.get(),
            timed_ns: cold.timed_ns.get(),
        }
    }
}

fn add(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get().wrapping_add(amount));
}

/// Counts the rules that one run of a rule set evaluates.
pub(super) struct Meter<'a> {
    cells: &'a Cells,
    first: usize,
}

/// Counts the rules that one run of a rule set evaluates, and times each rule.
pub(super) struct TimedMeter<'a> {
    meter: Meter<'a>,
    begun_ns: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(rule_counters: &'a RuleCounters, first: usize) -> Meter<'a> {
        Meter { cells: &rule_counters.0, first }
    }

    /// Counts a run at this hook; returns whether the run is to be timed.
    pub(super) fn samples(&self, hook: Hook) -> bool {
        let runs = &self.cells.runs[hook as usize];
        let is_sampled = runs.get().is_multiple_of(RULE_SAMPLE_EVERY);
        add(runs, 1);
        is_sampled
    }

    pub(super) fn timed(self) -> TimedMeter<'a> {
        TimedMeter { meter: self, begun_ns: 0 }
    }

    fn count(&self, rules: &Range<u32>, ran: RunReport) {
        let Some(hot) = self.cells.rules.get(self.index_of(rules)) else {
            return;
        };
        add(&hot.runs, 1);
        if !ran.matched {
            return;
        }
        add(&hot.matches, 1);
        add(&hot.bytes, u64::from(ran.added_bytes));
        if let Some(cold) = self.cold(rules).filter(|_| ran.failed_count > 0) {
            add(&cold.failures, u64::from(ran.failed_count));
        }
    }

    fn index_of(&self, rules: &Range<u32>) -> usize {
        self.first + rules.start as usize
    }

    fn cold(&self, rules: &Range<u32>) -> Option<&'a ColdCounters> {
        self.cells.cold.get(self.index_of(rules))
    }
}

impl RunObserver for Meter<'_> {
    fn end(&mut self, rules: Range<u32>, ran: RunReport) {
        self.count(&rules, ran);
    }
}

impl RunObserver for TimedMeter<'_> {
    fn begin(&mut self, _: Range<u32>) {
        self.begun_ns = clock::monotonic_ns();
    }

    fn end(&mut self, rules: Range<u32>, ran: RunReport) {
        let taken_ns = clock::monotonic_ns() - self.begun_ns;
        self.meter.count(&rules, ran);
        if let Some(cold) = self.meter.cold(&rules) {
            add(&cold.timed, 1);
            add(&cold.timed_ns, taken_ns);
        }
    }
}
