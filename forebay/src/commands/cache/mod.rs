//! `forebay cache`: looking at the cache of a server that runs, or of one that has gone.
//!
//! Nothing here writes to the cache, or makes who uses it wait.

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

/// Something is wrong with what was looked at, or it is not there.
const EXIT_FOUND: u8 = 1;

/// It cannot be looked at.
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
        return Err("no such command; see forebay cache --help".to_owned());
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

/// The file of a cache that was named by its directory, or by itself.
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
            Err(format!("{shown} holds no cache: there is no file `{REGION_FILE}` in it"))
        }
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// What a record is called.
fn name_of(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Whole => "whole",
        RecordKind::LongHead => "long",
        RecordKind::Fragment => "fragment",
        RecordKind::Base => "base",
    }
}
