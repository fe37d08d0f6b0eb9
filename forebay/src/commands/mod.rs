//! The implementations of the commands.

mod breakdown;
mod cache;
mod check;
mod control;
mod counters;
mod diff;
mod explain;
mod import;
mod list;
pub(crate) mod locks;
mod reload;
mod resolve;
mod rules;
mod selection;
mod serve;
mod sign;
mod stats;
mod trace;
mod try_certificate;
mod try_example;

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;

/// Runs the command that the arguments name. Header rules may run these filters.
///
/// # Errors
/// The command failed; the text is a message for the user.
pub(crate) fn run(matches: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    match matches.subcommand() {
        Some(("try", args)) => try_example::run(args, filters),
        Some(("serve", args)) => serve::run(args, filters),
        Some(("check", args)) => check::run(args, filters),
        Some(("diff", args)) => Ok(diff::run(args, filters)),
        Some(("config", args)) => Ok(check::print_defaults(args)),
        Some(("import", args)) => import::run(args),
        Some(("sign", args)) => sign::run(args).map(|()| ExitCode::SUCCESS),
        Some(("purge", args)) => control::purge(args),
        Some(("ls", args)) => list::run(args),
        Some(("explain", args)) => explain::run(args),
        Some(("trace", args)) => trace::run(args),
        Some(("stats", args)) => stats::run(args),
        Some(("counters", args)) => counters::run(args),
        Some(("locks", args)) => locks::run(args),
        Some(("cache", args)) => Ok(cache::run(args)),
        Some(("rules", args)) => rules::run(args, filters),
        Some(("reload", args)) => reload::run(args),
        _ => Err("no such command; see `forebay --help`".to_owned()),
    }
}

/// Whether a flag was given.
fn is_set(args: &ArgMatches, name: &str) -> bool {
    args.get_flag(name)
}
