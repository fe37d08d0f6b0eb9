//! Merges consecutive rules that have the same condition, if no operator of the earlier rules can
//! change the value of the condition.

use std::{fmt::Write, ops::Range};

use super::dependence::{DataItem, Dependence, dependence_of, written_by};
use crate::ast::{Branch, BranchStep, Condition, ConditionTree, Rule};

/// A rule, or several rules merged into one.
#[derive(Debug)]
pub(super) struct MergedRule {
    pub(super) rules: Range<u32>,
    pub(super) branches: Vec<Branch>,
    pub(super) last: bool,
}

/// Merges consecutive rules of a list where that does not change their effects.
pub(super) fn merge_rules<'r>(
    rules: impl Iterator<Item = &'r (u32, Rule)>,
    captures: bool,
) -> Vec<MergedRule> {
    let mut merged: Vec<MergedRule> = Vec::new();
    let mut candidate = MergeCandidate::default();
    for (number, rule) in rules {
        let (condition, items) = only_condition(rule, captures).unzip();
        let joins = condition.is_some()
            && condition == candidate.condition
            && items.is_some_and(|items| !candidate.writes_any(&items));
        match merged.last_mut() {
            Some(previous) if joins => {
                previous.rules.end = number + 1;
                previous.last = rule.last;
                if let (Some(into), Some(from)) =
                    (previous.branches.first_mut(), rule.branches.first())
                {
                    into.steps.extend(from.steps.iter().cloned());
                }
            }
            _ => {
                let branches = rule.branches.clone();
                merged.push(MergedRule { rules: *number..number + 1, branches, last: rule.last });
                candidate = MergeCandidate { condition, changed: Vec::new() };
            }
        }
        candidate.add(rule);
    }
    merged
}

/// The state that the next rule must match to be merged.
#[derive(Default)]
struct MergeCandidate {
    /// The condition that the next rule must have; `None` if no rule can be merged.
    condition: Option<String>,
    changed: Vec<DataItem>,
}

impl MergeCandidate {
    fn writes_any(&self, items: &[DataItem]) -> bool {
        items.iter().any(|item| self.changed.iter().any(|changed| item.is_affected_by(changed)))
    }

    fn add(&mut self, rule: &Rule) {
        let mut ends = rule.last;
        each_step(&rule.branches, &mut |operation| {
            ends |= operation.last;
            let item = written_by(&operation.operator);
            if let Some(item) = item.filter(|item| !self.changed.contains(item)) {
                self.changed.push(item);
            }
        });
        if ends {
            self.condition = None;
        }
    }
}

/// Returns the condition of a rule with a single branch as a text, with the items it depends on;
/// `None` if the rule has several branches or a volatile condition.
fn only_condition(rule: &Rule, captures: bool) -> Option<(String, Vec<DataItem>)> {
    let [branch] = rule.branches.as_slice() else {
        return None;
    };
    let (mut key, mut items) = (String::new(), Vec::new());
    if let Some(tree) = &branch.condition {
        write_tree(tree, captures, &mut key, &mut items)?;
    }
    Some((key, items))
}

fn write_tree(
    mut tree: &ConditionTree,
    captures: bool,
    key: &mut String,
    items: &mut Vec<DataItem>,
) -> Option<()> {
    loop {
        match tree {
            ConditionTree::Leaf(test) => {
                match dependence_of(test, captures) {
                    Dependence::Volatile => return None,
                    Dependence::On(item) => items.push(item),
                    Dependence::None => {}
                }
                // Writing to a string cannot fail.
                let _ = write!(key, "{}{}", if test.negated { "!" } else { "" }, test_key(test));
                return Some(());
            }
            ConditionTree::Not(inner) => {
                key.push('!');
                tree = inner;
            }
            ConditionTree::And(first, second) | ConditionTree::Or(first, second) => {
                key.push('(');
                write_tree(first, captures, key, items)?;
                key.push_str(if matches!(tree, ConditionTree::And(..)) { ")&" } else { ")|" });
                tree = second;
            }
        }
    }
}

/// Returns a text that identifies a condition, without its `[NOT]`.
pub(super) fn test_key(test: &Condition) -> String {
    format!("{:?} {:?}", test.subject, test.matcher)
}

/// Visits every operator of these branches, including nested ones.
pub(super) fn each_step<'b>(
    branches: &'b [Branch],
    see: &mut impl FnMut(&'b crate::ast::Operation),
) {
    for step in branches.iter().flat_map(|branch| &branch.steps) {
        match step {
            BranchStep::If(branches) => each_step(branches, see),
            BranchStep::Operate(operation) => see(operation),
        }
    }
}
