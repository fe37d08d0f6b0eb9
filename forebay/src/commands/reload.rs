//! `forebay reload`: applies the configuration again, waits for stuck workers, and watches a trial.

use std::process::ExitCode;
use std::thread::park_timeout;
use std::time::Duration;

use clap::ArgMatches;
use forebay_server::config::AdminAddress;
use serde_json::Value;

use super::is_set;
use crate::admin_client::{ask, find};
use crate::stdout::outln;

/// Exit codes; see the help of the command.
const EXIT_BEHIND: u8 = 3;
const EXIT_ROLLED_BACK: u8 = 4;
const EXIT_NOT_ROLLED_BACK: u8 = 6;
const EXIT_SUPERSEDED: u8 = 5;

/// Interval at which the server is asked for its state.
const POLL_MS: u64 = 250;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let is_json = is_set(args, "json");
    let answer = ask(&address, "POST", &path(args), "")?;
    let mut value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if !answer.is_success {
        let error = value.get("error").and_then(Value::as_str).unwrap_or(&answer.body);
        match is_json {
            true => outln!("{}", answer.body.trim_end()),
            false => {
                eprintln!("forebay: not reloaded; the old configuration stays in use:\n{error}");
            }
        }
        return Ok(ExitCode::FAILURE);
    }
    let mut code = ExitCode::SUCCESS;
    if let Some(wait_ms) = args.get_one::<u64>("wait") {
        value["stuck_workers"] = wait(&address, value["stuck_workers"].take(), *wait_ms)?;
        if !numbers(&value).is_empty() {
            code = ExitCode::from(EXIT_BEHIND);
        }
    }
    if !is_json {
        tell_workers(&value);
    }
    if args.contains_id("trial") {
        value["trial"] = watch(&address, value["trial"].take())?;
        code = match value["trial"]["state"].as_str() {
            Some("passed") => code,
            Some("superseded") => ExitCode::from(EXIT_SUPERSEDED),
            Some("rolled-back") => ExitCode::from(EXIT_ROLLED_BACK),
            _ => ExitCode::from(EXIT_NOT_ROLLED_BACK),
        };
        if !is_json {
            tell_trial(&value["trial"]);
        }
    }
    if is_json {
        outln!("{value}");
    }
    Ok(code)
}

fn path(args: &ArgMatches) -> String {
    let Some(trial_ms) = args.get_one::<u64>("trial") else { return "/reload".to_owned() };
    let mut path = format!("/reload?trial_ms={trial_ms}");
    for (name, parameter) in
        [("errors-max", "errors_percent_max"), ("requests-min", "requests_min")]
    {
        if let Some(number) = args.get_one::<u64>(name) {
            path += &format!("&{parameter}={number}");
        }
    }
    path
}

fn state(address: &AdminAddress) -> Result<Value, String> {
    let answer = ask(address, "GET", "/reload", "")?;
    serde_json::from_str(&answer.body)
        .map_err(|_| "the server does not tell the state of a reload".to_owned())
}

/// Waits until no worker is stuck. Returns the workers that still are when the time is over.
fn wait(address: &AdminAddress, stuck: Value, wait_ms: u64) -> Result<Value, String> {
    let mut stuck = stuck;
    for _ in 0..wait_ms.div_ceil(POLL_MS) {
        if stuck.as_array().is_none_or(Vec::is_empty) {
            break;
        }
        park_timeout(Duration::from_millis(POLL_MS));
        stuck = state(address)?["stuck_workers"].take();
    }
    Ok(stuck)
}

/// Waits for the end of the trial. Returns its last report.
fn watch(address: &AdminAddress, begun: Value) -> Result<Value, String> {
    let mut trial = begun;
    let number = trial["number"].clone();
    while trial["state"] == "running" {
        park_timeout(Duration::from_millis(POLL_MS));
        let now = state(address)?["trial"].take();
        if now["number"] != number {
            trial["state"] = "superseded".into();
            break;
        }
        trial = now;
    }
    Ok(trial)
}

fn numbers(value: &Value) -> &[Value] {
    value["stuck_workers"].as_array().map_or(&[], Vec::as_slice)
}

fn tell_workers(value: &Value) {
    match numbers(value) {
        [] => outln!("reloaded: every worker has the new configuration"),
        stuck => {
            outln!("reloaded, but some workers are stuck, and get the new configuration later:");
            stuck.iter().for_each(|number| outln!("  worker {number}"));
        }
    }
}

fn tell_trial(trial: &Value) {
    let (requests, errors) = (&trial["requests"], &trial["errors"]);
    let share = format!("{errors} of {requests} requests failed");
    match trial["state"].as_str() {
        Some("passed") => outln!("trial passed: {share}"),
        Some("superseded") => {
            eprintln!("forebay: another reload ended the trial; its configuration is in use");
        }
        Some("rolled-back") => {
            eprintln!("forebay: trial failed: {share}; the old configuration is in use again");
        }
        _ => eprintln!(
            "forebay: trial failed: {share}; the old configuration cannot be used either, see the \
             log of the server"
        ),
    }
}
