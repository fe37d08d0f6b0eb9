//! `forebay cache`: reads the cache of a running or stopped server.
//!
//! These commands do not write to the cache, and do not block the servers that use it.

mod check;
mod get;
mod list;
mod progress_meter;
mod stats;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_cache::{RecordKind, StoreReader};
use forebay_server::engine::REGION_FILE;

/// Exit code if the cache is corrupt, or the response is not stored.
const EXIT_FOUND: u8 = 1;

/// Exit code if the cache cannot be read.
const EXIT_UNREADABLE: u8 = 2;

pub(super) fn run(args: &ArgMatches) -> ExitCode {
    match begin(args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("forebay: {message}");
            ExitCode::from(EXIT_UNREADABLE)
        }
    }
}

fn begin(args: &ArgMatches) -> Result<ExitCode, String> {
    let Some((name, args)) = args.subcommand() else {
        return Err("no such command; see `forebay cache --help`".to_owned());
    };
    let path = args.get_one::<String>("path").map(String::as_str).unwrap_or_default();
    let file = file_at(Path::new(path))?;
    let reader = StoreReader::open(&file).map_err(|error| error.to_string())?;
    match name {
        "check" => Ok(check::run(&reader, args)),
        "stats" => Ok(stats::run(&reader, &file, args)),
        "ls" => Ok(list::run(&reader, args)),
        _ => get::run(&reader, args),
    }
}

/// Returns the path of the cache file. `place` is the file itself or its directory.
fn file_at(place: &Path) -> Result<PathBuf, String> {
    let shown = place.display();
    let found = fs::metadata(place).map_err(|error| format!("{shown}: {error}"))?;
    if !found.is_dir() {
        return Ok(place.to_owned());
    }
    let file = place.join(REGION_FILE);
    match fs::symlink_metadata(&file) {
        Ok(_) => Ok(file),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("{shown}: no cache here: the file `{REGION_FILE}` is missing"))
        }
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Returns the printed name of a kind of record.
fn name_of(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Whole => "whole",
        RecordKind::LongHead => "long",
        RecordKind::Fragment => "fragment",
        RecordKind::Base => "base",
    }
}
