//! `forebay rules`: checks, explains, tests and measures header rules.

mod check;
mod diff;
mod explain;
mod explain_json;
mod files;
mod flow;
mod message;
mod planned;
mod test;
mod test_file;
mod top;
mod trace;
mod world;

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::ast::RuleScope;
use forebay_rules::filter::Filters;

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// The command failed; the text is a message for the user.
pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    match args.subcommand() {
        Some(("check", args)) => Ok(check::run(args, filters)),
        Some(("explain", args)) => explain::run(args, filters),
        Some(("top", args)) => top::run(args),
        Some(("test", args)) => Ok(test::run(args, filters)),
        _ => Err("no such command; see `forebay rules --help`".to_owned()),
    }
}

/// Iterates over all values of a repeatable argument.
fn texts<'a>(args: &'a ArgMatches, name: &str) -> impl Iterator<Item = &'a String> {
    args.get_many::<String>(name).into_iter().flatten()
}

fn scope_of(args: &ArgMatches) -> Option<RuleScope> {
    args.get_one::<String>("scope").and_then(|word| files::scope_named(word))
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
