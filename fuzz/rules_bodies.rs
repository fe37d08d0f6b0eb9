//! Properties that hold for any bytes as a rule file: one function per fuzz target of the crate
//! `rules`. The fuzzer runs them, and a plain test runs them over the checked-in corpora. A
//! violated property panics.

use forebay_rules::{
    ParsedFile,
    ast::{Branch, BranchStep, Operator, RuleScope, Template, TemplatePart},
    diagnostic::DiagnosticDisplay,
    read,
};

/// Checks the reader of rule files: every finding has a span within the file, and no template
/// contains a control byte.
pub(crate) fn rules_read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for scope in [RuleScope::Server, RuleScope::Route] {
        let found = read("fuzz", &text, scope);
        check_places(&text, &found);
        for rule in &found.rules.rules {
            assert!(rule.at.len > 0 && rule.at.line > 0);
            check_branches(&rule.branches);
        }
    }
}

fn check_places(text: &str, found: &ParsedFile) {
    let lines: Vec<&str> = text.split('\n').collect();
    for diagnostic in &found.diagnostics {
        let at = diagnostic.at;
        let line = lines[at.line as usize - 1];
        let end = (at.column - 1 + at.len) as usize;
        assert!(at.len > 0 && end <= line.len().max(1), "{diagnostic:?} in {line:?}");
        let shown = DiagnosticDisplay { file: "fuzz", text, diagnostic }.to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{shown:?}");
    }
}

fn check_branches(branches: &[Branch]) {
    for step in branches.iter().flat_map(|branch| &branch.steps) {
        match step {
            BranchStep::If(branches) => check_branches(branches),
            BranchStep::Operate(operation) => check_template(template(&operation.operator)),
        }
    }
}

fn template(operator: &Operator) -> Option<&Template> {
    match operator {
        Operator::SetHeader(_, value)
        | Operator::AddHeader(_, value)
        | Operator::AddCookie(_, value)
        | Operator::SetCookie(_, value)
        | Operator::SetDestination { value, .. }
        | Operator::SetRedirect { location: value, .. }
        | Operator::SetReason(value)
        | Operator::SetBody(value)
        | Operator::SetInt8(_, _, value)
        | Operator::SetInt16(_, value) => Some(value),
        _ => None,
    }
}

fn check_template(template: Option<&Template>) {
    for part in template.iter().flat_map(|template| &template.parts) {
        if let TemplatePart::Text(text) = part {
            assert!(!text.is_empty() && !text.iter().any(u8::is_ascii_control), "{text:?}");
        }
    }
}
