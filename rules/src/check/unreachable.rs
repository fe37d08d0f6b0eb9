//! Finds rules that can never match and rules that are never reached.

use crate::{
    ast::{Branch, BranchStep, Comparison, Condition, ConditionTree, Matcher, Rule, Variable},
    check::{capture::find_dollar_captures, hook},
    diagnostic::{Diagnostic, Findings},
};

/// Whether a condition holds, as far as this is known without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StaticTruth {
    Always,
    Never,
    Unknown,
}

/// Warns of rules that never match, and of rules and branches that are never reached.
pub(crate) fn find_unreachable(rules: &[Rule], findings: &mut Findings) {
    let mut ended: Vec<&Rule> = Vec::new();
    for rule in rules {
        let place = (rule.hook, rule.turn);
        if let Some(last) = ended.iter().find(|last| (last.hook, last.turn) == place) {
            let (line, name) = (last.at.line, hook::name_at(rule.hook, rule.turn));
            let message = format!("never reached: the rule in line {line} ends {name}");
            let hint = "that rule has the flag [L] and no condition that can fail";
            findings.push(Diagnostic::warning(rule.at, message).hint(hint));
            continue;
        }
        check_branches(&rule.branches, findings);
        find_dollar_captures(&rule.branches, findings);
        if always_ends(rule) {
            ended.push(rule);
        }
    }
}

/// Whether a rule ends every run of its hook, so that no later rule there is reached: the first
/// branch always runs, and has the flag `[L]`.
fn always_ends(rule: &Rule) -> bool {
    rule.branches.first().is_some_and(|branch| {
        let last =
            |step: &BranchStep| matches!(step, BranchStep::Operate(operation) if operation.last);
        let ends = rule.last || branch.steps.iter().any(last);
        ends && constant_of(branch) == StaticTruth::Always
    })
}

fn constant_of(branch: &Branch) -> StaticTruth {
    branch.condition.as_ref().map_or(StaticTruth::Always, constant)
}

/// Warns of conditions that never hold, and of branches after a branch that always runs.
pub(crate) fn check_branches(branches: &[Branch], findings: &mut Findings) {
    let mut always = None;
    for branch in branches {
        if let Some(before) = always {
            if let Some(at) = first_step(branch) {
                let message = "never reached: an earlier branch always runs";
                let hint =
                    format!("remove this branch, or place it before the branch in line {before}");
                findings.push(Diagnostic::warning(at, message).hint(hint));
            }
            continue;
        }
        if let Some(condition) = &branch.condition {
            if constant(condition) == StaticTruth::Never {
                let at = first_test(condition).at;
                findings.push(Diagnostic::warning(at, "this condition can never hold"));
            }
            find_contradictions(condition, findings);
        }
        if constant_of(branch) == StaticTruth::Always {
            always = first_step(branch).map(|at| at.line);
        }
        for step in &branch.steps {
            if let BranchStep::If(branches) = step {
                check_branches(branches, findings);
            }
        }
    }
}

fn first_step(branch: &Branch) -> Option<crate::diagnostic::RuleSpan> {
    match branch.steps.first()? {
        BranchStep::Operate(operation) => Some(operation.at),
        BranchStep::If(branches) => branches.first().and_then(first_step),
    }
}

fn first_test(tree: &ConditionTree) -> &Condition {
    match tree {
        ConditionTree::Leaf(test) => test,
        ConditionTree::And(first, _) | ConditionTree::Or(first, _) | ConditionTree::Not(first) => {
            first_test(first)
        }
    }
}

fn constant(tree: &ConditionTree) -> StaticTruth {
    use StaticTruth::{Always, Never, Unknown};
    match tree {
        ConditionTree::Leaf(Condition { subject: Variable::Constant(value), negated, .. }) => {
            if value == negated {
                Never
            } else {
                Always
            }
        }
        ConditionTree::Leaf(_) => Unknown,
        ConditionTree::And(one, other) => match (constant(one), constant(other)) {
            (Never, _) | (_, Never) => Never,
            (Always, Always) => Always,
            _ => Unknown,
        },
        ConditionTree::Or(one, other) => match (constant(one), constant(other)) {
            (Always, _) | (_, Always) => Always,
            (Never, Never) => Never,
            _ => Unknown,
        },
        ConditionTree::Not(tree) => match constant(tree) {
            Always => Never,
            Never => Always,
            Unknown => Unknown,
        },
    }
}

/// Warns of conditions joined by AND that cannot hold together, such as `=a` and `=b` for the same
/// variable.
fn find_contradictions(tree: &ConditionTree, findings: &mut Findings) {
    let mut equal: Vec<&Condition> = Vec::new();
    let mut rest = Some(tree);
    while let Some(tree) = rest {
        let (test, next) = match tree {
            ConditionTree::And(first, next) => (&**first, Some(&**next)),
            ConditionTree::Or(..) | ConditionTree::Not(_) | ConditionTree::Leaf(_) => (tree, None),
        };
        rest = next;
        let ConditionTree::Leaf(test) = test else {
            continue;
        };
        if let Some(before) = equal.iter().find(|before| contradict(before, test)) {
            let message = "this condition can never hold together with a condition above it";
            let line = before.at.line;
            let hint = match (equal_text(before), equal_text(test)) {
                (Some(one), Some(other)) => {
                    format!("line {line}: join the two with [OR], or use a set: ({one},{other})")
                }
                _ => format!("line {line}: join the two with [OR] if one of them is enough"),
            };
            findings.push(Diagnostic::warning(test.at, message).hint(hint));
        }
        if !test.negated {
            equal.push(test);
        }
    }
}

/// Returns the text after the `=` of a condition.
fn equal_text(test: &Condition) -> Option<String> {
    match &test.matcher {
        Matcher::Text { how: Comparison::Equal, with, .. } => {
            Some(String::from_utf8_lossy(with).into_owned())
        }
        Matcher::Number { how: Comparison::Equal, with } => Some(with.to_string()),
        _ => None,
    }
}

fn contradict(one: &Condition, other: &Condition) -> bool {
    // Each use of RANDOM has another value, and a regex between the two conditions may change a
    // captured group.
    let changes = matches!(one.subject, Variable::Random(_) | Variable::LastCapture(_));
    if changes || other.negated || one.subject != other.subject {
        return false;
    }
    match (&one.matcher, &other.matcher) {
        (
            Matcher::Text { how: Comparison::Equal, with: one, nocase: false },
            Matcher::Text { how: Comparison::Equal, with: other, nocase: false },
        ) => one != other,
        (Matcher::Number { how: one_how, with: one }, Matcher::Number { how, with }) => {
            match (one_how, how) {
                (Comparison::Equal, Comparison::Equal) => one != with,
                (Comparison::Equal, Comparison::Less) => one >= with,
                (Comparison::Less, Comparison::Equal) => with >= one,
                (Comparison::Equal, Comparison::Greater) => one <= with,
                (Comparison::Greater, Comparison::Equal) => with <= one,
                (Comparison::Less, Comparison::Greater) => *one <= with.saturating_add(1),
                (Comparison::Greater, Comparison::Less) => *with <= one.saturating_add(1),
                _ => false,
            }
        }
        _ => false,
    }
}
