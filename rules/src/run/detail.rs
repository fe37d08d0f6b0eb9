//! Running rules as they are written, one step after the other: what `explain` shows, and what the
//! flat program is tested against.

use super::{
    Effects, Outcome, Ran, Stage, Surroundings, Texts, Watch, machine::look_at, operate::operate,
};
use crate::{
    ast::{Branch, Hook, Step, Tree},
    plan::{Program, Test},
};

struct Detail<'d, 'a, 'b, S, W> {
    rule: u32,
    stage: &'d mut Stage<'a, 'b, S>,
    texts: &'d mut Texts,
    watch: &'d mut W,
    effects: Effects,
    last: bool,
    ran: Ran,
}

pub(super) fn run<S: Surroundings, W: Watch>(
    program: &Program,
    hook: Hook,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    watch: &mut W,
) -> Effects {
    let effects = Effects::default();
    let ran = Ran::default();
    let mut detail = Detail { rule: 0, stage, texts, watch, effects, last: false, ran };
    for list in program.lists() {
        detail.last = false;
        detail.texts.captured.clear();
        for (number, rule) in list.iter().filter(|(_, rule)| rule.hook == hook) {
            detail.rule = *number;
            detail.ran = Ran::default();
            detail.watch.begin(*number..*number + 1);
            let before = detail.stage.fields.buffer_bytes();
            detail.ran.matched = detail.branches(&rule.branches);
            let added = detail.stage.fields.buffer_bytes().saturating_sub(before);
            let ran = Ran { added_bytes: added as u32, ..detail.ran };
            detail.watch.end(*number..*number + 1, ran);
            if detail.last || rule.last && detail.ran.matched {
                break;
            }
        }
    }
    detail.effects
}

impl<S: Surroundings, W: Watch> Detail<'_, '_, '_, S, W> {
    /// Runs the first branch that holds. Nested as deep as the parser let rules be nested.
    fn branches(&mut self, branches: &[Branch]) -> bool {
        let taken = branches
            .iter()
            .find(|branch| branch.condition.as_ref().is_none_or(|condition| self.holds(condition)));
        let Some(branch) = taken else {
            return false;
        };
        for step in &branch.steps {
            match step {
                Step::If(branches) => {
                    self.branches(branches);
                }
                Step::Operate(operation) => {
                    let Detail { stage, texts, effects, .. } = self;
                    let outcome = operate(&operation.operator, stage, texts, effects);
                    self.ran.failed_count += u32::from(outcome == Outcome::Failed);
                    self.watch.operated(self.rule, operation, &self.texts.value, outcome);
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
                let held = look_at(&condition, self.stage, self.texts, Some(&mut value));
                let held = held != test.negated;
                self.watch.tested(self.rule, test, &value, held);
                held
            }
        }
    }
}
