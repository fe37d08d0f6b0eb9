//! `forebay rules`: checks, explains, tests and measures header rules.

use std::net::IpAddr;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};
use forebay_rules::ast::Hook;

use super::{admin, count, interval, json};

/// Returns the command with its subcommands.
pub(super) fn command() -> Command {
    Command::new("rules")
        .about("Check, explain, test and measure header rules")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check())
        .subcommand(explain())
        .subcommand(test())
        .subcommand(top())
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
        .about("Check rule files and report each error with its line and column")
        .arg(files())
        .arg(scope().help(
            "Where the rules are used: server for the top-level setting `rules`, route for `rules` \
             of a site or route [default: either]",
        ))
        .arg(json())
        .after_help(
            "Exit code: 0 if there are no errors (warnings are allowed), 1 if there are errors or \
             a file cannot be read.\n\n\
             Examples:\n  \
             forebay rules check *.rules\n  \
             forebay rules check --scope route --json shop.rules | jq '.findings[]'",
        )
}

fn explain() -> Command {
    let repeated = |name: &'static str| {
        Arg::new(name).long(name).value_name("NAME: VALUE").action(ArgAction::Append)
    };
    Command::new("explain")
        .about("Show step by step how rules change a request and its response")
        .arg(files())
        .arg(
            Arg::new("request")
                .long("request")
                .value_name("METHOD URL|@FILE")
                .required(true)
                .help("The client's request: 'GET /path', or @FILE with a whole request head"),
        )
        .arg(repeated("header").help("Request field; may be repeated"))
        .arg(
            Arg::new("status")
                .long("status")
                .value_name("CODE")
                .value_parser(value_parser!(u16).range(200..=599))
                .help("Status of the response, from the origin or stored [default: 200]"),
        )
        .arg(repeated("response-header").help("Response field; may be repeated"))
        .arg(
            Arg::new("client")
                .long("client")
                .value_name("IP")
                .value_parser(value_parser!(IpAddr))
                .help("Address of the client [default: 127.0.0.1]"),
        )
        .arg(
            Arg::new("cache")
                .long("cache")
                .value_name("RESULT")
                .value_parser(PossibleValuesParser::new([
                    "miss",
                    "hit-stale",
                    "hit-fresh",
                    "skipped",
                ]))
                .help("Result of the cache lookup [default: miss]"),
        )
        .arg(
            Arg::new("hook")
                .long("hook")
                .value_name("HOOK")
                .value_parser(PossibleValuesParser::new(Hook::ALL.map(Hook::name)))
                .help("Run only the rules of this hook [default: all hooks, in order]"),
        )
        .arg(
            scope()
                .help("Where the rules are used [default: where they are valid, preferably route]"),
        )
        .arg(json())
        .after_help(
            "The command needs no server. + marks added lines, - removed lines. Fields that a \
             server adds itself (Via, Date, Age, Cache-Status and the like) are not shown.\n\n\
             Examples:\n  \
             forebay rules explain shop.rules --request 'GET /old/page?a=1'\n  \
             forebay rules explain shop.rules --request 'GET http://shop.test/' \\\n      \
             --header 'Cookie: lang=de' --client 10.1.2.3 --cache hit-fresh\n  \
             forebay rules explain shop.rules --request @head.txt --status 503",
        )
}

fn test() -> Command {
    Command::new("test")
        .about("Run test files for rules: requests and the expected results")
        .arg(files().help("Test files; each names the rule files under test"))
        .arg(json())
        .after_help(
            "Example of a test file:\n  \
             rules shop.rules\n\n  \
             test old pages have moved\n  \
             > GET /old/page\n  \
             >> none\n  \
             < 301\n  \
             < Location: http://example.org/new/page\n  \
             < !Server\n\n\
             Arrows: > the client's request, >> the request to the origin, << the origin's \
             response, < the response to the client. !Name means that the field is absent. \
             docs/rules.md describes the whole format.\n\n\
             In a failed test, - marks expected lines and + actual ones. Exit code: 0 if all \
             tests passed, 1 otherwise.\n\n\
             Examples:\n  \
             forebay rules test shop.test\n  \
             forebay rules test --json *.test | jq '.tests[] | select(.ok | not)'",
        )
}

fn top() -> Command {
    Command::new("top")
        .about("Show how often each rule of a running server runs, and its cost")
        .arg(admin())
        .arg(interval())
        .arg(count().help(
            "Stop after N tables; 1 prints totals since the rules were loaded [default: on a \
             terminal until Ctrl-C, else 1]",
        ))
        .arg(
            Arg::new("sort")
                .long("sort")
                .value_name("COLUMN")
                .value_parser(PossibleValuesParser::new([
                    "ns", "runs", "matches", "bytes", "failures",
                ]))
                .help("Column to sort by, largest first [default: ns]"),
        )
        .arg(
            Arg::new("lines")
                .long("lines")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Show at most N rules [default: as many as fit on the terminal, else all]"),
        )
        .arg(json().help("Print one JSON object per table"))
        .after_help(
            "Times are measured on a sample of the runs. Counts restart when the configuration is \
             reloaded. While the server is down, the command keeps retrying.\n\n\
             Examples:\n  \
             forebay rules top\n  \
             forebay rules top --sort runs --interval 5s\n  \
             forebay rules top --count 1 --json | jq '.rules[] | select(.failures > 0)'",
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
    Arg::new("scope")
        .long("scope")
        .value_name("SCOPE")
        .value_parser(PossibleValuesParser::new(["server", "route"]))
}
