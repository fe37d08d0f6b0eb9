//! `forebay diff`: the differences of two configurations in words.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use forebay_server::config::{
    Config, ConfigChange, ConfigErrors, ConfigSource, RESTART_HINT, change_text,
};
use serde_json::{Value, json};

use super::is_set;
use crate::admin_client::{ask, find};
use crate::stdout::outln;

/// Exit codes; see the help of the command.
const EXIT_DIFFERENT: u8 = 1;
const EXIT_ERROR: u8 = 2;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> ExitCode {
    let found = match args.contains_id("old") {
        true => of_files(args, filters),
        false => of_server(args).map_err(|why| format!("forebay: {why}")),
    };
    let changes = match found {
        Ok(changes) => changes,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(EXIT_ERROR);
        }
    };
    if is_set(args, "json") {
        outln!("{}", json!({ "changes": changes }));
    } else {
        changes.iter().for_each(|change| outln!("{}", change_text(change)));
        outln!("{}", summary(&changes));
    }
    match changes.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_DIFFERENT),
    }
}

/// Returns the differences of two files, as JSON.
///
/// # Errors
/// All errors of both files.
fn of_files(args: &ArgMatches, filters: &Filters) -> Result<Vec<Value>, String> {
    let load = |name| {
        let file = args.get_one::<String>(name).map(String::as_str).unwrap_or_default();
        load(file, filters)
    };
    match (load("old"), load("new")) {
        (Ok(old), Ok(new)) => Ok(old.changes(&new).iter().map(ConfigChange::to_json).collect()),
        (old, new) => {
            let errors = old.err().into_iter().chain(new.err());
            Err(errors.map(|errors| errors.to_string()).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns the differences between the configuration of a running server and its files, as JSON.
///
/// # Errors
/// No server answers, or its files have errors.
fn of_server(args: &ArgMatches) -> Result<Vec<Value>, String> {
    let address = find(args.get_one("admin"))?;
    let answer = ask(&address, "GET", "/changes", "")?;
    let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    match (value["changes"].as_array(), value["error"].as_str()) {
        (Some(changes), _) => Ok(changes.clone()),
        (None, Some(error)) => Err(format!("a reload would be refused:\n{error}")),
        (None, None) => Err("the server does not compare its configuration; it may be older than \
                             this program"
            .to_owned()),
    }
}

fn load(file: &str, filters: &Filters) -> Result<Config, ConfigErrors> {
    Config::load_with(ConfigSource::File(Path::new(file)), &[], filters)
}

fn needs_restart(change: &Value) -> bool {
    change["applies"] == "restart"
}

fn summary(changes: &[Value]) -> &'static str {
    match changes {
        [] => "no difference",
        changes if changes.iter().any(needs_restart) => RESTART_HINT,
        _ => "A reload applies these changes.",
    }
}
