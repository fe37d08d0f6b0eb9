//! Observers of a run.

use std::ops::Range;

use crate::ast::{Branch, Condition, Operation};

/// Observes a run, in order to count, to measure time or to explain. By default a method does
/// nothing and is compiled away.
pub trait RunObserver {
    /// Whether every condition and operator is reported in order, without merging or memoizing.
    const DETAILED: bool = false;

    /// Called before these rules run: a single rule, or several rules that run as one.
    fn begin(&mut self, rules: Range<u32>) {
        let _ = rules;
    }

    /// Called after these rules have run.
    fn end(&mut self, rules: Range<u32>, report: RunReport) {
        let _ = (rules, report);
    }

    /// In detailed runs: called after a condition was tested. `value` is the value of its subject
    /// as text.
    fn tested(&mut self, rule: u32, test: &Condition, value: &[u8], holds: bool) {
        let _ = (rule, test, value, holds);
    }

    /// In detailed runs: called before the branch with this index runs, in a rule or in a nested
    /// `if`.
    fn entered(&mut self, rule: u32, place: usize, branch: &Branch) {
        let _ = (rule, place, branch);
    }

    /// In detailed runs: called after an operator has run. `value` is its argument.
    fn operated(
        &mut self,
        rule: u32,
        operation: &Operation,
        value: &[u8],
        outcome: OperatorOutcome,
    ) {
        let _ = (rule, operation, value, outcome);
    }
}

/// An observer that does nothing.
impl RunObserver for () {}

/// The effects of one rule, or of several that run as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Whether a branch was taken.
    pub matched: bool,
    /// Number of bytes by which the buffer of the head has grown.
    pub added_bytes: u32,
    /// Number of operators that failed.
    pub failed_count: u32,
}

/// The outcome of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorOutcome {
    /// The operator changed the message or the state, or requested an effect.
    Done,
    /// There was nothing to change: the field is absent or the value is empty.
    Nothing,
    /// The operator failed: the result would be too large, or is not a valid value, target or
    /// number.
    Failed,
}
