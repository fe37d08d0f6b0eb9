//! Running rules as they are written, one step after the other: what `explain` shows, and what the
//! flat program is tested against.

use super::{
    Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, RunObserver, RunReport,
    machine::look_at, operate::operate,
};
use crate::{
    ast::{Branch, Hook, Step, Tree},
    plan::{Program, Test},
};

struct Detail<'d, 'a, 'b, S, W> {
    rule: u32,
    context: &'d mut RunContext<'a, 'b, S>,
    buffers: &'d mut RunBuffers,
    observer: &'d mut W,
    effects: Effects,
    last: bool,
    report: RunReport,
}

pub(super) fn run<S: RuleEnvironment, W: RunObserver>(
    program: &Program,
    hook: Hook,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    observer: &mut W,
) -> Effects {
    let effects = Effects::default();
    let report = RunReport::default();
    let mut detail = Detail { rule: 0, context, buffers, observer, effects, last: false, report };
    for list in program.lists() {
        detail.last = false;
        detail.buffers.captured.clear();
        for (number, rule) in list.iter().filter(|(_, rule)| rule.hook == hook) {
            detail.rule = *number;
            detail.report = RunReport::default();
            detail.observer.begin(*number..*number + 1);
            let before = detail.context.fields.buffer_bytes();
            detail.report.matched = detail.branches(&rule.branches);
            let added = detail.context.fields.buffer_bytes().saturating_sub(before);
            let report = RunReport { added_bytes: added as u32, ..detail.report };
            detail.observer.end(*number..*number + 1, report);
            if detail.last || rule.last && detail.report.matched {
                break;
            }
        }
    }
    detail.effects
}

impl<S: RuleEnvironment, W: RunObserver> Detail<'_, '_, '_, S, W> {
    /// Runs the first branch that holds. Nested as deep as the parser let rules be nested.
    fn branches(&mut self, branches: &[Branch]) -> bool {
        let taken = branches.iter().enumerate().find(|(_, branch)| {
            branch.condition.as_ref().is_none_or(|condition| self.holds(condition))
        });
        let Some((place, branch)) = taken else {
            return false;
        };
        self.observer.entered(self.rule, place, branch);
        for step in &branch.steps {
            match step {
                Step::If(branches) => {
                    self.branches(branches);
                }
                Step::Operate(operation) => {
                    let Detail { context, buffers, effects, .. } = self;
                    let outcome = operate(&operation.operator, context, buffers, effects);
                    self.report.failed_count += u32::from(outcome == OperatorOutcome::Failed);
                    self.observer.operated(self.rule, operation, &self.buffers.value, outcome);
                    self.last |= operation.last;
                }
            }
        }
        true
    }

    fn holds(&mut self, tree: &Tree) -> bool {
        match tree {
            Tree::And(first, second) => self.holds(first) && self.holds(second),
            Tree::Or(first, second) => self.holds(first) || self.holds(second),
            Tree::Not(inner) => !self.holds(inner),
            Tree::Test(test) => {
                let mut value = Vec::new();
                let condition = Test::new(test, true);
                let held = look_at(&condition, self.context, self.buffers, Some(&mut value));
                let held = held != test.negated;
                self.observer.tested(self.rule, test, &value, held);
                held
            }
        }
    }
}
