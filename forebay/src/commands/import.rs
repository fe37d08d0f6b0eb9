//! `forebay import`, which translates configurations of other servers.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_import::{Import, ImportOptions, Note, nginx};
use serde_json::{Value, json};

use super::is_set;
use crate::stdout::outln;

/// Exit code of an error, since 1 says that something was left out.
const ERROR: u8 = 2;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let Some(("nginx", args)) = args.subcommand() else {
        return Err("no such format; see `forebay import --help`".to_owned());
    };
    Ok(run_nginx(args).unwrap_or_else(|message| {
        match is_set(args, "json") {
            true => outln!("{}", json!({ "error": message })),
            false => eprintln!("error: {message}"),
        }
        ExitCode::from(ERROR)
    }))
}

fn run_nginx(args: &ArgMatches) -> Result<ExitCode, String> {
    let files: Vec<PathBuf> =
        args.get_many::<String>("files").into_iter().flatten().map(PathBuf::from).collect();
    let options = ImportOptions {
        prefix: args.get_one::<String>("prefix").map(PathBuf::from),
        drop_access_rules: is_set(args, "open"),
    };
    let import = nginx(&files, &options).map_err(|error| error.to_string())?;
    let output = args.get_one::<String>("output");
    if let Some(path) = output {
        write_new(path, &import.toml).map_err(|error| format!("{path}: {error}"))?;
    }
    if is_set(args, "json") {
        outln!("{}", report(&import, output.is_none()));
    } else {
        if output.is_none() {
            outln!("{}", import.toml.trim_end());
        }
        import.notes.iter().for_each(|note| eprintln!("{note}"));
    }
    Ok(if import.notes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A configuration that is in use must not be lost, so an existing file is an error.
fn write_new(path: &str, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn report(import: &Import, with_toml: bool) -> Value {
    let notes: Vec<_> = import.notes.iter().map(note_json).collect();
    match with_toml {
        true => json!({ "complete": notes.is_empty(), "notes": notes, "toml": import.toml }),
        false => json!({ "complete": notes.is_empty(), "notes": notes }),
    }
}

fn note_json(note: &Note) -> Value {
    json!({
        "file": note.file,
        "line": note.line,
        "directive": note.directive,
        "message": note.message,
    })
}
