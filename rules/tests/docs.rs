//! Checks docs/rules.md: its examples are read without a finding, and its limits are those of the
//! code.

use std::{fs, path::Path};

use forebay_rules::{
    ast::RuleScope,
    diagnostic::DiagnosticDisplay,
    limits::{
        CONDITIONS_PER_RULE_MAX, FILE_BYTES_MAX, FINDINGS_MAX, LINE_BYTES_MAX, NESTING_MAX,
        REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEXES_BYTES_MAX, RULES_PER_FILE_MAX,
    },
    read,
};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules.md");
    fs::read_to_string(path).expect("the page is there")
}

/// Reads a text as rules of a site; any finding fails the test.
fn check(text: &str) {
    let found = read("docs/rules.md", text, RuleScope::Route).diagnostics;
    let show =
        |diagnostic| DiagnosticDisplay { file: "docs/rules.md", text, diagnostic }.to_string();
    assert!(found.is_empty(), "{}", found.iter().map(show).collect::<String>());
}

#[test]
fn every_block_of_rules_is_read_without_a_finding() {
    let page = page();
    let blocks: Vec<&str> =
        page.split("```rules\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    blocks.into_iter().for_each(check);
}

/// Returns the last cell of each row of the table under this heading, without backquotes.
fn examples<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let section = page.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let last = |line: &'a str| line.strip_suffix(" |")?.rsplit("| ").next()?.strip_prefix('`');
    section.lines().filter_map(last).filter_map(|cell| cell.strip_suffix('`')).collect()
}

#[test]
fn every_example_in_a_table_is_read_without_a_finding() {
    let page = page();
    let conditions = examples(&page, "Conditions");
    assert!(conditions.len() >= 30, "{conditions:?}");
    for condition in conditions {
        let hook = match condition {
            _ if condition.contains("FROM-URL") => "REMAP_PSEUDO_HOOK",
            _ if condition.contains("SERVER-HEADER") => "SEND_REQUEST_HDR_HOOK",
            _ => "SEND_RESPONSE_HDR_HOOK",
        };
        check(&format!("cond %{{{hook}}}\n{condition}\nno-op"));
    }
    let operators = examples(&page, "Operators");
    assert!(operators.len() >= 20, "{operators:?}");
    for operator in operators {
        let late = operator.starts_with("set-status-reason");
        let hook = if late { "SEND_RESPONSE_HDR_HOOK" } else { "REMAP_PSEUDO_HOOK" };
        check(&format!("cond %{{{hook}}}\n{operator}"));
    }
}

#[test]
fn the_limits_of_the_page_are_those_of_the_program() {
    let page = page();
    for (name, limit) in [
        ("bytes of a file", FILE_BYTES_MAX),
        ("bytes of a line", LINE_BYTES_MAX),
        ("rules of a file", RULES_PER_FILE_MAX),
        ("conditions of a rule", CONDITIONS_PER_RULE_MAX),
        ("depth of `if` and of `%{GROUP}`", NESTING_MAX),
        ("bytes of a compiled regex", REGEX_BYTES_MAX),
        ("bytes of all compiled regexes of a file", REGEXES_BYTES_MAX),
        ("bytes of a regex's automaton, per worker", REGEX_CACHE_BYTES_MAX),
        ("findings that are shown", FINDINGS_MAX),
    ] {
        assert!(page.contains(&format!("\n| {name} | {limit} |")), "{name} is {limit}");
    }
}
