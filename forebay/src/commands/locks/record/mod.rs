//! `forebay locks record`: runs a program with a preloaded library that records its locks.

mod child;
mod library;
mod output;
mod program;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use clap::ArgMatches;
use forebay_shm::ProfileFile;

use super::columns::SortOrder;
use super::files::of_run;
use super::report::head;
use super::summary::Summary;
use super::{UNSEEN, table};
use crate::commands::is_set;

/// Largest number of call sites that the report at the end shows for each process.
const LINES_MAX: usize = 20;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let mut command = args.get_many::<OsString>("command").into_iter().flatten();
    let name = command.next().ok_or("no program given")?;
    let program = program::find(name)?;
    program::check(&program)?;
    let library = library::find()?;
    let out = output::path(args.get_one::<String>("out").map(Path::new), &program)?;
    output::clear(&out)?;
    output::check(&out)?;

    let mut child = Command::new(&program);
    child.args(command).env("LOCKPROF_FILE", &out);
    child.env("LD_PRELOAD", library::first(&library, std::env::var_os("LD_PRELOAD")));
    for (variable, value) in settings(args) {
        child.env(variable, value);
    }
    let status = child::run(child, name)?;
    output::drop_empty(&out);
    if !is_set(args, "quiet") {
        eprint!("{}", report(&out));
    }
    Ok(code(status))
}

/// Returns the settings of the library, as environment variables.
fn settings(args: &ArgMatches) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    let mut number = |name: &str, variable, of: fn(u64) -> u64| {
        if let Some(n) = args.get_one::<u64>(name) {
            settings.push((variable, of(*n).to_string()));
        }
    };
    number("stacks", "LOCKPROF_STACKS", |n| n);
    number("threads", "LOCKPROF_THREADS", |n| n);
    number("processes", "LOCKPROF_PROCESSES", |n| n);
    number("sample", "LOCKPROF_SKIP", |n| n - 1);
    if is_set(args, "per-lock") {
        settings.push(("LOCKPROF_BY_LOCK", "1".to_owned()));
    }
    if is_set(args, "off") {
        settings.push(("LOCKPROF_ON", "0".to_owned()));
    }
    settings
}

/// Returns a short report about all processes of the run.
fn report(out: &Path) -> String {
    let files = of_run(out);
    let mut text = String::new();
    for path in &files {
        text += &match one(path) {
            Ok(lines) => format!("\n{lines}\n"),
            Err(error) => format!("\n{error}\n"),
        };
    }
    if files.is_empty() {
        text += &format!(
            "\nno profile was made: either no lock was taken by a function that a preloaded \
             library can wrap, or there was no room for {}, or the program may not write there\n",
            out.display()
        );
    }
    format!("{text}\n{UNSEEN}\n")
}

fn one(path: &Path) -> Result<String, String> {
    let file = ProfileFile::open(path).map_err(|error| error.to_string())?;
    let reading = file.read().map_err(|error| error.to_string())?;
    let summary = Summary::of(&reading);
    let table = table::text(&summary, SortOrder::Lost, LINES_MAX);
    Ok(format!("{}\n{table}", head(&file, &reading, &summary)))
}

/// Returns the exit code of the program, as a shell reports it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
