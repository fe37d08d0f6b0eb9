//! `forebay rules test`: runs test files for rules.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use serde_json::{Value, json};

use super::files::text_of;
use super::flow::{TrialResult, run as run_flow};
use super::message::shown;
use super::planned::PlannedRules;
use super::test_file::{Expectation, TestCase, TestFile};
use super::{plural, texts};
use crate::commands::is_set;
use crate::stdout::outln;

/// A difference between expected and actual lines, in the notation of test files.
struct Difference {
    expected: Vec<String>,
    seen: Vec<String>,
}

#[derive(Default)]
struct TestTotals {
    passed: usize,
    failed: usize,
    /// Number of files whose tests could not be run, or not completely.
    broken: usize,
    cases: Vec<Value>,
}

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> ExitCode {
    let mut sum = TestTotals::default();
    let is_json = is_set(args, "json");
    for name in texts(args, "files") {
        if let Err(error) = run_file(name, is_json, filters, &mut sum) {
            sum.broken += 1;
            eprintln!("forebay: {error}");
            sum.cases.push(json!({ "file": name, "ok": false, "error": error }));
        }
    }
    let TestTotals { passed, failed, broken, cases } = sum;
    match is_json {
        true => outln!(
            "{}",
            json!({ "tests": cases, "passed": passed, "failed": failed, "broken_files": broken })
        ),
        false => {
            let (tests, broken) = (plural(passed + failed, "test"), plural(broken, "file"));
            outln!("{tests}, {failed} failed, {broken} broken");
        }
    }
    if failed + broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_file(
    name: &str,
    is_json: bool,
    filters: &Filters,
    sum: &mut TestTotals,
) -> Result<(), String> {
    let path = Path::new(name);
    let text = text_of(name)?;
    let file = TestFile::parse(path, &text).map_err(|why| format!("{name}:{why}"))?;
    let planned = PlannedRules::open(&file.rules, filters)?;
    for case in &file.cases {
        let at = format!("{name}:{}", case.line);
        let outcome = try_case(&planned, case).map_err(|why| format!("{at}: {why}"))?;
        let ok = outcome.is_empty();
        *(if ok { &mut sum.passed } else { &mut sum.failed }) += 1;
        if !is_json {
            outln!("{:<6}  {at}  {}", if ok { "ok" } else { "FAILED" }, case.name);
            outcome.iter().for_each(print);
        }
        let differences = outcome.iter();
        let differences: Vec<_> =
            differences.map(|it| json!({ "expected": it.expected, "seen": it.seen })).collect();
        sum.cases.push(json!({
            "file": name,
            "line": case.line,
            "name": case.name,
            "ok": ok,
            "differences": differences,
        }));
    }
    Ok(())
}

fn print(difference: &Difference) {
    difference.expected.iter().for_each(|line| outln!("        - {line}"));
    difference.seen.iter().for_each(|line| outln!("        + {line}"));
}

fn try_case(planned: &PlannedRules, case: &TestCase) -> Result<Vec<Difference>, String> {
    let course = run_flow(&planned.program, &case.exchange()?, None)?;
    let mut found = Vec::new();
    to_origin(case, &course, &mut found);
    compare("<", &case.to_client, &course.answer.lines(), &mut found);
    if let Some(body) = &case.body {
        let seen = course.body.as_deref().unwrap_or_default().trim_end();
        if seen != body {
            let line = |text: &str| vec![format!("body {}", shown(text.as_bytes()))];
            found.push(Difference { expected: line(body), seen: line(seen) });
        }
    }
    Ok(found)
}

fn to_origin(case: &TestCase, course: &TrialResult, found: &mut Vec<Difference>) {
    let none = || vec![">> none".to_owned()];
    match &course.to_origin {
        Some(lines) if case.no_origin => {
            let seen = vec![format!(">> {}", start_of(lines))];
            found.push(Difference { expected: none(), seen });
        }
        Some(lines) => compare(">>", &case.to_origin, lines, found),
        None if case.to_origin.is_empty() => {}
        None => {
            let start = case.to_origin.start.clone();
            let start = start.unwrap_or_else(|| "a request".to_owned());
            found.push(Difference { expected: vec![format!(">> {start}")], seen: none() });
        }
    }
}

/// Returns the first line without the HTTP version.
fn start_of(lines: &[String]) -> &str {
    let line = lines.first().map(String::as_str).unwrap_or_default();
    let line = line.strip_prefix("HTTP/1.1 ").unwrap_or(line);
    line.strip_suffix(" HTTP/1.1").unwrap_or(line)
}

fn compare(arrow: &str, wanted: &Expectation, lines: &[String], found: &mut Vec<Difference>) {
    let start = start_of(lines);
    if let Some(expected) = &wanted.start {
        // A status may be expected without its reason phrase.
        let code = start.split(' ').next().unwrap_or_default();
        if start != expected && !(arrow == "<" && code == expected) {
            let line = |text: &str| vec![format!("{arrow} {text}")];
            found.push(Difference { expected: line(expected), seen: line(start) });
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for name in wanted.fields.iter().map(|(name, _)| name).chain(&wanted.absent) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    found.extend(names.into_iter().filter_map(|name| of_name(arrow, name, wanted, lines)));
}

/// Compares all lines of one field name, in order.
fn of_name(arrow: &str, name: &str, wanted: &Expectation, lines: &[String]) -> Option<Difference> {
    let is_it = |other: &str| other.eq_ignore_ascii_case(name);
    let expected = wanted.fields.iter().filter(|(name, _)| is_it(name));
    let expected: Vec<&str> = expected.map(|(_, value)| value.as_str()).collect();
    let fields = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let seen: Vec<&str> = fields.filter(|(name, _)| is_it(name)).map(|(_, value)| value).collect();
    let show = |values: &[&str]| match values {
        [] => vec![format!("{arrow} !{name}")],
        _ => values.iter().map(|value| format!("{arrow} {name}: {value}")).collect(),
    };
    (seen != expected).then(|| Difference { expected: show(&expected), seen: show(&seen) })
}
