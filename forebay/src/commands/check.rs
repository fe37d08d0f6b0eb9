//! `forebay check`, which checks a configuration file, and `forebay config`, which prints all
//! settings.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_http::date::write_date;
use forebay_rules::filter::Filters;
use forebay_server::config::{
    self, CertificateStatus, Config, ConfigErrors, ConfigSource, SourceSpan,
};
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
            let certificates = config.acme_status();
            let findings = is_set(args, "resolve").then(|| resolve::check(&config));
            let findings = findings.as_deref();
            let is_good = findings.unwrap_or_default().iter().all(|finding| finding.is_good);
            if json {
                let mut value = json!({ "valid": true, "sites": sites });
                if !warnings.is_empty() {
                    value["warnings"] = json!(warnings);
                }
                if !certificates.is_empty() {
                    value["acme"] = certificates.iter().map(certificate_json).collect();
                }
                if let Some(findings) = findings {
                    value["resolved"] = findings.iter().map(ResolveCheck::to_json).collect();
                }
                outln!("{value}");
            } else {
                warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                certificates.iter().for_each(tell_certificate);
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

/// Prints the state of a certificate by ACME: a line for the site, and a warning if an operator has
/// to do something.
fn tell_certificate(certificate: &CertificateStatus) {
    let site = &certificate.site;
    match certificate.valid_until {
        Some(until) => {
            outln!("{site}: the certificate by ACME is valid until {}", shown_time(until));
        }
        None => outln!("{site}: there is no certificate yet; a running server orders it"),
    }
    if certificate.is_near_end {
        eprintln!("warning: {site}: the certificate by ACME has expired, or will soon");
    }
    if !certificate.missing_names.is_empty() {
        let names = certificate.missing_names.join(", ");
        eprintln!("warning: {site}: the certificate by ACME is not for {names} yet");
    }
    if let (Some(why), Some(retry_at)) = (&certificate.failure, certificate.retry_at) {
        let next = shown_time(retry_at);
        eprintln!("warning: {site}: the last order by ACME failed: {why}; the next is at {next}");
    }
}

fn certificate_json(certificate: &CertificateStatus) -> Value {
    json!({
        "site": certificate.site,
        "file": certificate.file.display().to_string(),
        "valid_until": certificate.valid_until,
        "near_end": certificate.is_near_end,
        "missing_names": certificate.missing_names,
        "failure": certificate.failure,
        "retry_at": certificate.retry_at,
    })
}

/// Returns a Unix time as HTTP writes dates.
fn shown_time(unix_s: u64) -> String {
    String::from_utf8_lossy(&write_date(unix_s)).into_owned()
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
