//! `forebay purge` and `forebay reload`: commands for a running server.

use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::{Value, json};

use super::is_set;
use crate::admin_client::{ask, find};
use crate::say::say;

pub(super) fn purge(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let mut all_purged = true;
    for url in args.get_many::<String>("url").into_iter().flatten() {
        let answer = ask(&address, "POST", "/purge", url)?;
        all_purged &= answer.is_success;
        let value = with(&answer.body, "url", url);
        if is_set(args, "json") {
            say!("{value}");
        } else if let Some(error) = value.get("error").and_then(Value::as_str) {
            eprintln!("forebay: {url}: {error}");
        } else {
            let count = |name| value.get(name).and_then(Value::as_u64).unwrap_or(0);
            say!("{url}: {} stored responses dropped", count("purged"));
            if count("fetches") > 0 {
                say!("{url}: {} fetches under way will not be stored", count("fetches"));
            }
        }
    }
    Ok(if all_purged { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with(body: &str, name: &str, text: &str) -> Value {
    let mut value: Value = serde_json::from_str(body).unwrap_or_else(|_| json!({ "error": body }));
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), json!(text));
    }
    value
}

pub(super) fn reload(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let answer = ask(&address, "POST", "/reload", "")?;
    if is_set(args, "json") {
        say!("{}", answer.body.trim_end());
    } else if answer.is_success {
        say!("reloaded: every worker has the new configuration");
    } else {
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let error = value.get("error").and_then(Value::as_str).unwrap_or(&answer.body);
        eprintln!("forebay: not reloaded, the old configuration stays:\n{error}");
    }
    Ok(if answer.is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
