//! Who looks on while rules run.

use std::ops::Range;

use crate::ast::{Branch, Condition, Operation};

/// Looks on while rules run: counts, takes the time, explains. Nothing by default; what is not
/// overridden is compiled away.
pub trait RunObserver {
    /// Every condition and operator is shown, in order; nothing is put together or remembered.
    const DETAILED: bool = false;

    /// These rules of the program begin: one, or several that run as one.
    fn begin(&mut self, rules: Range<u32>) {
        let _ = rules;
    }

    /// They have ended.
    fn end(&mut self, rules: Range<u32>, report: RunReport) {
        let _ = (rules, report);
    }

    /// In detail: a condition of this rule was looked at. `value` is its subject as text.
    fn tested(&mut self, rule: u32, test: &Condition, value: &[u8], holds: bool) {
        let _ = (rule, test, value, holds);
    }

    /// In detail: of the branches of this rule, or of an `if` in it, the one at this place runs.
    fn entered(&mut self, rule: u32, place: usize, branch: &Branch) {
        let _ = (rule, place, branch);
    }

    /// In detail: an operator of this rule has run. `value` is what it was given.
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

/// Nobody looks on.
impl RunObserver for () {}

/// What a rule, or several that run as one, did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// A branch of it was taken.
    pub matched: bool,
    /// Bytes written into the head.
    pub added_bytes: u32,
    /// Operators that could not do what they should.
    pub failed_count: u32,
}

/// What became of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorOutcome {
    /// It did something.
    Done,
    /// There was nothing to do: the field is not there, the value is empty.
    Nothing,
    /// It could not: the result would be too large, or no valid value, target or number.
    Failed,
}
