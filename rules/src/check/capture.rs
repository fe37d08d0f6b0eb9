//! Detects `$1`, the notation of other languages for a captured group. In rules it is plain text
//! and may be a price, so it is reported only if a regex of the rule has a group with that number.

use crate::{
    ast::{
        Branch, BranchStep, Condition, ConditionTree, Matcher, Operator, Template, TemplatePart,
    },
    diagnostic::{Diagnostic, Findings},
};

/// Warns of notations such as `$1` in the values of a rule.
pub(crate) fn find_dollar_captures(rule: &[Branch], findings: &mut Findings) {
    let group_count = group_count(rule);
    if group_count > 0 {
        check_values(rule, group_count, findings);
    }
}

/// Returns the largest group count of the regexes in these conditions and the nested ones. The
/// whole match counts as a group.
fn group_count(branches: &[Branch]) -> usize {
    let of_branch = |branch: &Branch| {
        let own = branch.condition.as_ref().map_or(0, of_tree);
        let inner = branch.steps.iter().map(|step| match step {
            BranchStep::If(branches) => group_count(branches),
            BranchStep::Operate(_) => 0,
        });
        inner.max().unwrap_or(0).max(own)
    };
    branches.iter().map(of_branch).max().unwrap_or(0)
}

fn of_tree(tree: &ConditionTree) -> usize {
    match tree {
        ConditionTree::Leaf(Condition { matcher: Matcher::Regex(regex), .. }) => {
            regex.captures_len()
        }
        ConditionTree::Leaf(_) => 0,
        ConditionTree::And(first, next) | ConditionTree::Or(first, next) => {
            of_tree(first).max(of_tree(next))
        }
        ConditionTree::Not(tree) => of_tree(tree),
    }
}

fn check_values(branches: &[Branch], group_count: usize, findings: &mut Findings) {
    for step in branches.iter().flat_map(|branch| &branch.steps) {
        let operation = match step {
            BranchStep::Operate(operation) => operation,
            BranchStep::If(branches) => {
                check_values(branches, group_count, findings);
                continue;
            }
        };
        let group = value_of(&operation.operator).and_then(|value| group_in(value, group_count));
        if let Some(group) = group {
            let message = format!("${group} is plain text, not a captured group");
            let hint = format!("write the captured group as %{{LAST-CAPTURE:{group}}}");
            findings.push(Diagnostic::warning(operation.at, message).hint(hint));
        }
    }
}

/// Returns the operator's value if it is checked. Bodies are not checked, because a body may be a
/// script.
fn value_of(operator: &Operator) -> Option<&Template> {
    match operator {
        Operator::SetHeader(_, value)
        | Operator::AddHeader(_, value)
        | Operator::SetCookie(_, value)
        | Operator::AddCookie(_, value)
        | Operator::SetDestination { value, .. }
        | Operator::SetRedirect { location: value, .. } => Some(value),
        _ => None,
    }
}

fn group_in(value: &Template, group_count: usize) -> Option<usize> {
    value.parts.iter().find_map(|part| match part {
        TemplatePart::Text(text) => group_in_text(text, group_count),
        TemplatePart::Variable(_) => None,
    })
}

/// Returns the first group below `group_count` to which a text refers by a notation such as `$1`.
/// `$10` and `$1.50` count as prices.
fn group_in_text(text: &[u8], group_count: usize) -> Option<usize> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    text.windows(2).enumerate().find_map(|(place, two)| {
        let &[b'$', digit @ b'0'..=b'9'] = two else {
            return None;
        };
        let after = text.get(place + 2);
        let is_price =
            is_digit(after) || matches!(after, Some(b'.' | b',')) && is_digit(text.get(place + 3));
        let group = usize::from(digit - b'0');
        (!is_price && group < group_count).then_some(group)
    })
}
