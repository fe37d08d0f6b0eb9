//! `forebay purge`: removes stored responses of a running server.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::config::AdminAddress;
use forebay_server::shown_url;
use serde_json::{Value, json};

use super::is_set;
use super::selection::{query, refusal, size};
use crate::admin_client::{AdminAnswer, ask, ask_by_line, find};
use crate::stdout::outln;

pub(super) fn purge(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let switch = |name| is_set(args, name).then(|| "true".to_owned());
    let more = [("soft", switch("soft")), ("dry-run", switch("dry-run"))];
    let path = format!("/purge{}", query(args, &more));
    if let Some(urls) = args.get_many::<String>("url") {
        return purge_urls(args, &address, &path, urls);
    }
    let (answer, ended) = purge_selected(&address, &path)?;
    if !answer.is_success && is_set(args, "json") {
        outln!("{}", answer.body.trim_end());
        return Ok(ExitCode::FAILURE);
    }
    if !answer.is_success {
        return Err(refusal(args, &answer.body));
    }
    let ended = ended.ok_or(
        "the connection to the server was lost: the purge may be incomplete; run it again",
    )?;
    if is_set(args, "json") {
        outln!("{ended}");
    } else if let Some(error) = ended.get("error").and_then(Value::as_str) {
        return Err(error.to_owned());
    } else {
        tell(args, "", &ended);
    }
    Ok(if ended.get("error").is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn purge_urls<'a>(
    args: &ArgMatches,
    address: &AdminAddress,
    path: &str,
    urls: impl Iterator<Item = &'a String>,
) -> Result<ExitCode, String> {
    let mut all_purged = true;
    for url in urls {
        let answer = ask(address, "POST", path, url)?;
        all_purged &= answer.is_success;
        let shown = shown_url(url);
        let value = with(&answer.body, "url", &shown);
        let argument = value.get("argument").and_then(Value::as_str);
        if is_set(args, "json") {
            outln!("{value}");
        } else if argument.is_some_and(|argument| argument != "url") {
            return Err(refusal(args, &answer.body));
        } else if let Some(error) = value.get("error").and_then(Value::as_str) {
            eprintln!("forebay: {shown}: {error}");
        } else {
            tell(args, &format!("{shown}: "), &value);
        }
    }
    Ok(if all_purged { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends a purge and shows its progress on a terminal. Returns the response, and its last line if
/// that line arrived.
fn purge_selected(
    address: &AdminAddress,
    path: &str,
) -> Result<(AdminAnswer, Option<Value>), String> {
    let (mut ended, mut is_shown) = (None, false);
    let is_terminal = io::stderr().is_terminal();
    let answer = ask_by_line(address, ("POST", path, ""), &mut |line| {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(seen) = value.get("seen") {
            if is_terminal {
                is_shown = true;
                // Progress goes to standard error; the result goes to standard output.
                let matched = &value["matched"];
                let _ = write!(io::stderr(), "\r{seen} checked, {matched} match ");
            }
        } else if value.is_object() {
            ended = Some(value);
        }
        ControlFlow::Continue(())
    });
    if is_shown {
        // Returns to the start of the line and clears it.
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    Ok((answer?, ended))
}

/// Prints the number of responses that were purged, or would be purged.
fn tell(args: &ArgMatches, what: &str, value: &Value) {
    let count = |name| value.get(name).and_then(Value::as_u64);
    let bytes = count("bytes").filter(|bytes| *bytes > 0);
    let bytes = bytes.map_or(String::new(), |bytes| format!(" ({})", size(bytes)));
    let is_soft = is_set(args, "soft");
    if let Some(would) = count("would_purge") {
        let verb = if is_soft { "would be marked for validation" } else { "would be purged" };
        outln!("{what}{} {verb}{bytes}", stored_responses(would));
        for one in value["sample"].as_array().into_iter().flatten() {
            outln!("  {}", one["url"].as_str().unwrap_or("-"));
        }
        return;
    }
    let verb = if is_soft { "marked for validation" } else { "purged" };
    let purged = stored_responses(count("purged").unwrap_or(0));
    outln!("{what}{purged} {verb}{bytes}");
    if let Some(fetches @ 1..) = count("fetches") {
        outln!("{what}the responses of {fetches} fetches in progress will not be stored");
    }
}

fn stored_responses(count: u64) -> String {
    format!("{count} stored {}", if count == 1 { "response" } else { "responses" })
}

fn with(body: &str, name: &str, text: &str) -> Value {
    let mut value: Value = serde_json::from_str(body).unwrap_or_else(|_| json!({ "error": body }));
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), json!(text));
    }
    value
}
