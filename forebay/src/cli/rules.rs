//! `forebay rules`: looking after files of header rules.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};

use super::json;

/// The command and those below it.
pub(super) fn command() -> Command {
    Command::new("rules")
        .about("Check, explain and test header rules, and see what they cost")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check())
        .after_help(
            "Examples:\n  \
             forebay rules check headers.rules\n  \
             forebay rules explain headers.rules --request 'GET /old/page'\n  \
             forebay rules test headers.test\n  \
             forebay rules top",
        )
}

fn check() -> Command {
    Command::new("check")
        .about("Check rule files and say where they are wrong")
        .arg(files())
        .arg(scope().help(
            "Whose rules they are: server for `rules` at the top of the configuration, route for \
             those of a site or a route; by default a file may be right in either",
        ))
        .arg(json())
        .after_help(
            "Exit code: 0 no error (warnings may be), 1 errors, or a file cannot be read.\n\n\
             Examples:\n  \
             forebay rules check *.rules\n  \
             forebay rules check --scope route --json shop.rules | jq '.findings[]'",
        )
}

fn files() -> Arg {
    Arg::new("files")
        .value_name("FILE")
        .required(true)
        .action(ArgAction::Append)
        .num_args(1..)
        .help("Rule files")
}

fn scope() -> Arg {
    Arg::new("scope").long("scope").value_parser(PossibleValuesParser::new(["server", "route"]))
}
