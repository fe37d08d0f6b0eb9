//! `forebay cache check`: checks a cache for corruption.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_cache::{CheckDepth, Finding, FindingSeverity, StoreReader, StoreReport};
use forebay_server::KeyText;
use serde_json::{Value, json};

use super::EXIT_FOUND;
use super::progress_meter::ProgressMeter;
use crate::commands::is_set;
use crate::stdout::outln;

pub(super) fn run(reader: &StoreReader, args: &ArgMatches) -> ExitCode {
    let depth = match is_set(args, "deep") {
        true => CheckDepth::Checksums,
        false => CheckDepth::Headers,
    };
    let mut meter = ProgressMeter::begin("checking");
    let report = reader.check(depth, |progress| meter.show(progress.done, progress.total));
    drop(meter);
    match is_set(args, "json") {
        true => outln!("{}", report_json(&report)),
        false => {
            outln!("{report}");
            outln!("{}", if report.is_sound() { "sound" } else { "corrupt" });
        }
    }
    if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FOUND) }
}

fn report_json(report: &StoreReport) -> Value {
    json!({
        "sound": report.is_sound(),
        "deep": report.is_deep,
        "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "left_out": report.left_out_count,
        "faults": report.fault_count,
        "drifts": report.drift_count,
        "notes": report.note_count,
        "records": report.live_count,
        "record_bytes": report.record_bytes,
        "unchecked": report.unchecked_count,
        "passed_over": report.passed_over_count,
        "buckets": report.bucket_count,
        "words": report.word_count,
        "segments": report.segment_count,
        "segments_free": report.free_segment_count,
    })
}

fn finding_json(finding: &Finding) -> Value {
    let severity = match finding.severity() {
        FindingSeverity::Fault => "fault",
        FindingSeverity::Drift => "drift",
        FindingSeverity::Note => "note",
    };
    let key = (!finding.key.is_empty()).then(|| finding.key.escape_ascii().to_string());
    json!({
        "severity": severity,
        "name": finding.kind.name(),
        "text": finding.kind.to_string(),
        "slot": finding.slot,
        "unit": finding.location,
        "segment": finding.segment,
        "participant": finding.row,
        "key": key,
        "url": KeyText::of(&finding.key).map(|text| text.url),
    })
}
