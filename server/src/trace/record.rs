//! The record of a traced request: its access-log entry and its steps, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::step::{Fact, RequestStep};
use crate::limits::TRACE_STEPS_MAX;
use crate::log::AccessEntry;
use crate::terminal::escaped_json;

/// The record of one request.
#[derive(Debug)]
pub(crate) struct TraceRecord {
    pub(super) entry: AccessEntry,
    steps: Vec<TimedStep>,
    /// The number of steps that were left out because there were too many.
    left_out_count: u64,
}

#[derive(Debug)]
struct TimedStep {
    /// The time since the first byte of the request, in microseconds.
    after_us: u64,
    step: RequestStep,
}

impl TraceRecord {
    pub(super) fn new(entry: AccessEntry) -> TraceRecord {
        TraceRecord { entry, steps: Vec::new(), left_out_count: 0 }
    }

    /// Adds a step. After `TRACE_STEPS_MAX` steps, adds only the last step of the request, and
    /// counts the others.
    pub(super) fn add(&mut self, now_us: u64, step: RequestStep) {
        if self.steps.len() >= TRACE_STEPS_MAX && !matches!(step, RequestStep::End) {
            self.left_out_count += 1;
            return;
        }
        let after_us = now_us.saturating_sub(self.entry.started_us());
        self.steps.push(TimedStep { after_us, step });
    }

    /// Returns the record as a line of JSON: the members of the access log entry, and the steps.
    pub(crate) fn to_json_line(&self) -> String {
        let mut value = self.entry.to_json();
        let steps = self.steps.iter().map(|timed| {
            let mut value = json!({ "us": timed.after_us, "step": timed.step.name() });
            timed.step.facts().into_iter().for_each(|(name, fact)| value[name] = fact);
            value
        });
        value["steps"] = steps.collect();
        if self.left_out_count > 0 {
            value["steps_left_out"] = json!(self.left_out_count);
        }
        escaped_json(&value.to_string()) + "\n"
    }

    /// Returns the record as text: a line with the time and the client, a line for each step, and
    /// an empty line.
    pub(crate) fn to_text(&self) -> String {
        let entry = self.entry.to_json();
        let picked =
            |names: &[&'static str]| names.iter().map(|n| (*n, entry[n].clone())).collect();
        let mut text = self.entry.title() + "\n";
        for TimedStep { after_us, step } in &self.steps {
            let facts = match step {
                RequestStep::Request => picked(REQUEST_FACTS),
                RequestStep::End => picked(RESPONSE_FACTS),
                step => step.facts(),
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{after_us:>10}  {:10}", step.name());
            facts.iter().for_each(|fact| write_fact(&mut text, fact));
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        if self.left_out_count > 0 {
            let _ = writeln!(text, "            {} steps left out", self.left_out_count);
        }
        text + "\n"
    }
}

/// The members of the access log entry that the text shows in the first step and in the last step.
const REQUEST_FACTS: &[&str] = &["method", "host", "target", "version"];
const RESPONSE_FACTS: &[&str] = &["status", "body_bytes", "cache"];

/// Writes `name=value`. A value with characters that a URL cannot contain is quoted as in JSON, so
/// that text from outside cannot forge a fact or a line.
fn write_fact(text: &mut String, (name, value): &Fact) {
    let value = match value {
        Value::String(value) if is_plain(value) => value.clone(),
        value => escaped_json(&value.to_string()),
    };
    let _ = write!(text, " {name}={value}");
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}
