//! `forebay rules check`: checks rule files and prints the findings.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::diagnostic::{DiagnosticDisplay, Severity};
use forebay_rules::filter::Filters;
use serde_json::{Value, json};

use super::files::{RuleFile, name_of, whose};
use super::{plural, scope_of, texts};
use crate::commands::is_set;
use crate::stdout::outln;

/// The totals of all files.
#[derive(Default)]
struct CheckTotals {
    files: usize,
    errors: usize,
    warnings: usize,
}

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> ExitCode {
    let mut sum = CheckTotals::default();
    let (mut files, mut findings) = (Vec::new(), Vec::new());
    let is_json = is_set(args, "json");
    for name in texts(args, "files") {
        sum.files += 1;
        match RuleFile::open(name, scope_of(args), filters) {
            Ok(file) => {
                sum.errors += file.count(Severity::Error);
                sum.warnings += file.count(Severity::Warning);
                files.push(file_json(&file));
                findings.extend(file.findings().map(finding_json));
                if !is_json {
                    print(&file);
                }
            }
            Err(error) => {
                sum.errors += 1;
                eprintln!("forebay: {error}");
                files.push(json!({ "file": name, "valid": false, "error": error }));
            }
        }
    }
    let CheckTotals { files: file_count, errors, warnings } = sum;
    if is_json {
        outln!(
            "{}",
            json!({ "files": files, "findings": findings, "errors": errors, "warnings": warnings })
        );
    } else {
        let (files, errors) = (plural(file_count, "file"), plural(errors, "error"));
        outln!("{files}, {errors}, {}", plural(warnings, "warning"));
    }
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(file: &RuleFile) {
    file.findings().for_each(|finding| outln!("{finding}"));
    let name = &file.name;
    match file.valid.as_slice() {
        [] => outln!("{name}: invalid as {}", whose(file.scope)),
        [scope] => outln!("{name}: valid as {}", whose(*scope)),
        _ => outln!("{name}: valid as rules of the server, of a site or of a route"),
    }
}

fn file_json(file: &RuleFile) -> Value {
    let scopes: Vec<_> = file.valid.iter().map(|scope| name_of(*scope)).collect();
    json!({
        "file": file.name,
        "valid": !scopes.is_empty(),
        "scopes": scopes,
        "checked_as": name_of(file.scope),
    })
}

fn finding_json(finding: DiagnosticDisplay<'_>) -> Value {
    let (at, found) = (finding.diagnostic.at, finding.diagnostic);
    let severity = match found.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    json!({
        "file": finding.file,
        "line": at.line,
        "column": at.column,
        "len": at.len,
        "severity": severity,
        "message": found.message,
        "hint": found.hint,
    })
}
