//! Tables for the language: texts with their meaning and their findings.

mod conditions;
mod destinations;
mod docs;
mod errors;
mod examples;
mod hooks;
mod limits;
mod operands;
mod operators;
mod patterns;
mod structure;
mod warnings;
mod words;

use crate::{
    ast::{BranchStep, Condition, ConditionTree, Operator, Rule, RuleScope},
    diagnostic::DiagnosticDisplay,
    read::{ParsedFile, read},
};

/// Returns the rules of a text without errors.
fn rules(text: &str, scope: RuleScope) -> Vec<Rule> {
    let read = read("test", text, scope);
    assert!(read.is_usable(), "{text}\n{}", shown(text, &read));
    read.rules.rules
}

/// Returns all findings in printed form.
fn shown(text: &str, read: &ParsedFile) -> String {
    let show = |diagnostic| DiagnosticDisplay { file: "test", text, diagnostic }.to_string();
    read.diagnostics.iter().map(show).collect()
}

/// Returns the only condition of a rule for a site at this hook.
fn test_at(hook: &str, condition: &str) -> Condition {
    let text = format!("cond %{{{hook}}}\n{condition}\nno-op");
    let scope = if hook.starts_with("READ_REQUEST") { RuleScope::Server } else { RuleScope::Route };
    let mut rules = rules(&text, scope);
    let rule = rules.pop().unwrap_or_else(|| panic!("no rule: {condition}"));
    match rule.branches.into_iter().next().and_then(|branch| branch.condition) {
        Some(ConditionTree::Leaf(test)) => test,
        other => panic!("{condition}: {other:?}"),
    }
}

/// Returns the only operator of a rule for a site at this hook.
fn operator_at(hook: &str, operator: &str) -> Operator {
    let text = format!("cond %{{{hook}}}\n{operator}");
    let scope = if hook.starts_with("READ_REQUEST") { RuleScope::Server } else { RuleScope::Route };
    let mut rules = rules(&text, scope);
    let rule = rules.pop().unwrap_or_else(|| panic!("no rule: {operator}"));
    match rule.branches.into_iter().next().and_then(|branch| branch.steps.into_iter().next()) {
        Some(BranchStep::Operate(operation)) => operation.operator,
        other => panic!("{operator}: {other:?}"),
    }
}

/// Returns the findings of a text as `line:column+len message | hint`.
fn findings(text: &str, scope: RuleScope) -> Vec<String> {
    read("test", text, scope)
        .diagnostics
        .iter()
        .map(|finding| {
            let at = finding.at;
            let place = format!("{}:{}+{}", at.line, at.column, at.len);
            let hint = finding.hint.as_deref().unwrap_or_default();
            format!("{place} {} | {hint}", finding.message)
        })
        .collect()
}
