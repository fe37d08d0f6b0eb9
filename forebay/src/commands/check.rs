//! `forebay check`, which checks a configuration file, and `forebay config`, which prints all
//! settings.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use forebay_server::config::{self, Config, ConfigErrors, ConfigSource, SourceSpan};
use serde_json::{Value, json};

use super::is_set;
use super::resolve::{self, ResolveCheck};
use crate::stdout::outln;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    let file = args.get_one::<String>("file").map(String::as_str).unwrap_or_default();
    let checked = Config::load_with(ConfigSource::File(Path::new(file)), &[], filters);
    let json = is_set(args, "json");
    match checked {
        Ok(config) => {
            let sites = config.sites.iter().count();
            let of_addresses = config.address_warnings();
            let warnings: Vec<_> = config
                .tls_warnings()
                .chain(config.private_file_warnings())
                .chain(of_addresses.iter().map(String::as_str))
                .collect();
            let findings = is_set(args, "resolve").then(|| resolve::check(&config));
            let findings = findings.as_deref();
            let is_good = findings.unwrap_or_default().iter().all(|finding| finding.is_good);
            if json {
                let mut value = json!({ "valid": true, "sites": sites });
                if !warnings.is_empty() {
                    value["warnings"] = json!(warnings);
                }
                if let Some(findings) = findings {
                    value["resolved"] = findings.iter().map(ResolveCheck::to_json).collect();
                }
                outln!("{value}");
            } else {
                warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                tell_findings(findings.unwrap_or_default());
                outln!("{file}: valid; sites: {sites}");
            }
            Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(errors) => {
            match json {
                true => outln!("{}", errors_json(&errors)),
                false => eprintln!("{errors}"),
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn tell_findings(findings: &[ResolveCheck]) {
    for finding in findings {
        match finding.is_good {
            true => outln!("ok: {}", finding.text),
            false => eprintln!("problem: {}", finding.text),
        }
    }
}

fn errors_json(errors: &ConfigErrors) -> Value {
    let errors: Vec<_> = errors
        .iter()
        .map(|error| {
            let (file, line, column) = match &error.place {
                SourceSpan::Text { file, line, column, .. } => (file.clone(), *line, *column),
                SourceSpan::File(file) | SourceSpan::Flag(file) => (file.clone(), 0, 0),
            };
            json!({
                "file": file,
                "line": line,
                "column": column,
                "message": error.message,
                "expected": error.expected,
                "hint": error.hint,
            })
        })
        .collect();
    json!({ "valid": false, "errors": errors })
}

pub(super) fn print_defaults(args: &ArgMatches) -> ExitCode {
    match args.get_one::<String>("format").map(String::as_str) {
        Some("markdown") => outln!("{}", config::settings_markdown().trim_end()),
        _ => outln!("{}", config::defaults_toml().trim_end()),
    }
    ExitCode::SUCCESS
}
