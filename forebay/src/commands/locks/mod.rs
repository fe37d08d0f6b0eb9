//! `forebay locks`: lock profiles of running and exited processes.

mod abbreviate;
mod call_stacks;
mod columns;
mod cpp_only;
mod diff;
mod files;
mod find;
mod flame;
mod in_progress;
mod json;
mod matrix;
mod modules;
mod names;
mod now;
mod record;
mod report;
mod stale_binaries;
mod summary;
mod switch;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod top;

use std::process::ExitCode;

use clap::ArgMatches;

pub(crate) use columns::COLUMNS;

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// The command failed; the text is a message for the user.
pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    match args.subcommand() {
        Some(("record", args)) => record::run(args),
        Some(("on", args)) => switch::on(args),
        Some(("off", args)) => switch::off(args),
        Some(("reset", args)) => switch::reset(args),
        Some(("report", args)) => report::run(args),
        Some(("now", args)) => now::run(args),
        Some(("diff", args)) => diff::run(args),
        Some(("top", args)) => top::run(args),
        Some(("flame", args)) => flame::run(args),
        _ => Err("no such command; see `forebay locks --help`".to_owned()),
    }
}

/// A note about locks that profiles of foreign programs do not contain.
const UNSEEN: &str = "\
not recorded: locks that call no function of the C library (Rust's std and parking_lot, Go, \
databases with their own locks), locks within the C library, programs that are linked \
statically or run with another user's rights";

/// Returns the limit that `--lines` sets; unlimited by default.
fn lines_max(args: &ArgMatches) -> usize {
    args.get_one::<u64>("lines").map_or(usize::MAX, |lines| *lines as usize)
}

/// Returns a count with its noun, in the singular or plural.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
