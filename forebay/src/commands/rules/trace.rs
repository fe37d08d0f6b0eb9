//! Records a trace of the steps of rules.

use std::ops::Range;

use forebay_http::edit::FieldValue;
use forebay_rules::ast::{Branch, Condition, Hook, Lifetime, Operation, Operator};
use forebay_rules::diagnostic::RuleSpan;
use forebay_rules::run::{OperatorOutcome, RunObserver, RunReport};

/// The trace of one hook.
#[derive(Debug)]
pub(super) struct HookTrace {
    pub(super) hook: Hook,
    /// The rules in the order in which they ran.
    pub(super) rules: Vec<RuleTrace>,
}

/// The trace of one rule.
#[derive(Debug, Default)]
pub(super) struct RuleTrace {
    /// The rule's index in the program.
    pub(super) number: u32,
    /// Whether one of the rule's branches was taken.
    pub(super) matched: bool,
    pub(super) steps: Vec<TraceStep>,
}

#[derive(Debug)]
pub(super) enum TraceStep {
    /// A condition was evaluated.
    Test { at: RuleSpan, value: Vec<u8>, holds: bool },
    /// The branch `else` was taken, because all conditions before it failed.
    Else,
    /// An operator ran.
    Operate { at: RuleSpan, value: Vec<u8>, outcome: OperatorOutcome, why: &'static str },
}

impl HookTrace {
    pub(super) fn new(hook: Hook) -> HookTrace {
        HookTrace { hook, rules: Vec::new() }
    }

    fn step(&mut self, step: TraceStep) {
        if let Some(rule) = self.rules.last_mut() {
            rule.steps.push(step);
        }
    }
}

impl RunObserver for HookTrace {
    const DETAILED: bool = true;

    fn begin(&mut self, rules: Range<u32>) {
        self.rules.push(RuleTrace { number: rules.start, ..RuleTrace::default() });
    }

    fn end(&mut self, _: Range<u32>, ran: RunReport) {
        if let Some(rule) = self.rules.last_mut() {
            rule.matched = ran.matched;
        }
    }

    fn tested(&mut self, _: u32, test: &Condition, value: &[u8], holds: bool) {
        self.step(TraceStep::Test { at: test.at, value: value.to_vec(), holds });
    }

    fn entered(&mut self, _: u32, place: usize, branch: &Branch) {
        if place > 0 && branch.condition.is_none() {
            self.step(TraceStep::Else);
        }
    }

    fn operated(&mut self, _: u32, operation: &Operation, value: &[u8], outcome: OperatorOutcome) {
        let why =
            if outcome == OperatorOutcome::Failed { why(&operation.operator, value) } else { "" };
        self.step(TraceStep::Operate { at: operation.at, value: value.to_vec(), outcome, why });
    }
}

/// Returns the reason why an operator failed with this value.
fn why(operator: &Operator, value: &[u8]) -> &'static str {
    match operator {
        Operator::SetHeader(..) | Operator::AddHeader(..) => match FieldValue::parse(value) {
            None => "the value is not a valid field value",
            Some(_) => "the head would be too large",
        },
        Operator::AddCookie(..) | Operator::SetCookie(..) | Operator::RemoveCookie(_) => {
            "the value is not a valid cookie value, or the head would be too large"
        }
        Operator::SetDestination { .. } => {
            "the value is not valid in this part of the URL, or is too long"
        }
        Operator::RemoveDestination(_) => "the URL has no such part",
        Operator::FilterQuery { .. } => "the URL would be too long",
        Operator::SetRedirect { .. } => {
            "the value is not a URL: it is empty, too long or not ASCII"
        }
        Operator::SetReason(_) => "the value is not valid in a status line",
        Operator::SetBody(_) => "the body would be too large",
        Operator::SetInt8(..) => "the value is not a number from 0 to 255",
        Operator::SetInt16(Lifetime::Session | Lifetime::Transaction, _) => {
            "the value is not a number from 0 to 65535"
        }
        _ => "failed",
    }
}
