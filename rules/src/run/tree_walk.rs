//! Runs rules as they are written, step by step. `explain` uses this, and tests compare the flat
//! program with it.

use super::{
    Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, RunObserver, RunReport,
    machine::test_condition, operate::operate,
};
use crate::{
    ast::{Branch, BranchStep, ConditionTree, Hook},
    plan::{PlannedCondition, Program},
};

struct TreeWalker<'d, 'a, 'b, S, W> {
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
    let mut walker =
        TreeWalker { rule: 0, context, buffers, observer, effects, last: false, report };
    for list in program.lists() {
        walker.last = false;
        walker.buffers.captured.clear();
        for (number, rule) in list.iter().filter(|(_, rule)| rule.hook == hook) {
            walker.rule = *number;
            walker.report = RunReport::default();
            walker.observer.begin(*number..*number + 1);
            let before = walker.context.fields.buffer_bytes();
            walker.report.matched = walker.branches(&rule.branches);
            let added = walker.context.fields.buffer_bytes().saturating_sub(before);
            let report = RunReport { added_bytes: added as u32, ..walker.report };
            walker.observer.end(*number..*number + 1, report);
            if walker.last || rule.last && walker.report.matched {
                break;
            }
        }
    }
    walker.effects
}

impl<S: RuleEnvironment, W: RunObserver> TreeWalker<'_, '_, '_, S, W> {
    /// Runs the first branch that holds. Recurses as deep as the parser allows rules to nest.
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
                BranchStep::If(branches) => {
                    self.branches(branches);
                }
                BranchStep::Operate(operation) => {
                    let TreeWalker { context, buffers, effects, .. } = self;
                    let outcome = operate(&operation.operator, context, buffers, effects);
                    self.report.failed_count += u32::from(outcome == OperatorOutcome::Failed);
                    self.observer.operated(self.rule, operation, &self.buffers.value, outcome);
                    self.last |= operation.last;
                }
            }
        }
        true
    }

    fn holds(&mut self, tree: &ConditionTree) -> bool {
        match tree {
            ConditionTree::And(first, second) => self.holds(first) && self.holds(second),
            ConditionTree::Or(first, second) => self.holds(first) || self.holds(second),
            ConditionTree::Not(inner) => !self.holds(inner),
            ConditionTree::Leaf(test) => {
                let mut value = Vec::new();
                let condition = PlannedCondition::new(test, true);
                let held = test_condition(&condition, self.context, self.buffers, Some(&mut value));
                let held = held != test.negated;
                self.observer.tested(self.rule, test, &value, held);
                held
            }
        }
    }
}
