//! `forebay diff`: the differences of two configurations in words.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use forebay_server::config::{self, Config, ConfigChange, ConfigErrors, ConfigSource};
use serde_json::{Value, json};

use super::is_set;
use crate::stdout::outln;

/// Exit codes; see the help of the command.
const EXIT_DIFFERENT: u8 = 1;
const EXIT_ERROR: u8 = 2;

/// Number of sites and routes that are named for one change.
const SUBJECTS_SHOWN: usize = 5;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> ExitCode {
    let load = |name| {
        let file = args.get_one::<String>(name).map(String::as_str).unwrap_or_default();
        load(file, filters)
    };
    let (old, new) = match (load("old"), load("new")) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            old.err().into_iter().chain(new.err()).for_each(|errors| eprintln!("{errors}"));
            return ExitCode::from(EXIT_ERROR);
        }
    };
    let changes = old.changes(&new);
    if is_set(args, "json") {
        outln!("{}", json!({ "changes": changes.iter().map(to_json).collect::<Vec<_>>() }));
    } else {
        changes.iter().for_each(|change| outln!("{}", to_text(change)));
        outln!("{}", summary(&changes));
    }
    match changes.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_DIFFERENT),
    }
}

fn load(file: &str, filters: &Filters) -> Result<Config, ConfigErrors> {
    let text = config::read_file(Path::new(file))?;
    Config::load_with(ConfigSource::Toml { text: &text, file }, &[], filters)
}

fn to_json(change: &ConfigChange) -> Value {
    json!({
        "setting": change.setting,
        "old": change.old,
        "new": change.new,
        "in": change.subjects,
        "applies": if change.needs_restart { "restart" } else { "reload" },
    })
}

fn to_text(change: &ConfigChange) -> String {
    let shown: Vec<_> = change.subjects.iter().take(SUBJECTS_SHOWN).map(String::as_str).collect();
    let mut subjects = shown.join("; ");
    if let Some(more @ 1..) = change.subjects.len().checked_sub(SUBJECTS_SHOWN) {
        subjects += &format!("; and {more} more");
    }
    let Some(setting) = change.setting else {
        let verb = if change.new.is_some() { "added" } else { "removed" };
        return format!("{verb}: {subjects}");
    };
    let values = match (&change.old, &change.new) {
        (Some(old), Some(new)) if old == new => {
            format!("{new}, but its content has changed")
        }
        (old, new) => {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            format!("{} -> {}", text(old), text(new))
        }
    };
    let place = if subjects.is_empty() { String::new() } else { format!(" ({subjects})") };
    let restart = if change.needs_restart { "; needs a restart" } else { "" };
    format!("{setting}: {values}{place}{restart}")
}

fn summary(changes: &[ConfigChange]) -> &'static str {
    match changes {
        [] => "no difference",
        changes if changes.iter().any(|change| change.needs_restart) => {
            "A reload refuses these changes; `forebay serve ... --upgrade` applies them without a \
             failed request."
        }
        _ => "A reload applies these changes.",
    }
}
