//! `forebay rules`: looking after files of header rules.

use std::net::IpAddr;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};
use forebay_rules::ast::Hook;

use super::{admin, count, interval, json};

/// The command and those below it.
pub(super) fn command() -> Command {
    Command::new("rules")
        .about("Check, explain and test header rules, and see what they cost")
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

fn explain() -> Command {
    let repeated = |name: &'static str| {
        Arg::new(name).long(name).value_name("NAME: VALUE").action(ArgAction::Append)
    };
    Command::new("explain")
        .about("Show step by step what rules do with a request and its answer")
        .arg(files())
        .arg(
            Arg::new("request")
                .long("request")
                .value_name("METHOD URL|@FILE")
                .required(true)
                .help("The client's request: 'GET /path', or @ and a file with a whole head"),
        )
        .arg(repeated("header").help("A field of the request; may be given more than once"))
        .arg(
            Arg::new("status")
                .long("status")
                .value_parser(value_parser!(u16).range(200..=599))
                .help("Status of the origin's (or the stored) answer; 200 by default"),
        )
        .arg(repeated("response-header").help("A field of that answer"))
        .arg(
            Arg::new("client")
                .long("client")
                .value_name("IP")
                .value_parser(value_parser!(IpAddr))
                .help("Address of the client; 127.0.0.1 by default"),
        )
        .arg(
            Arg::new("cache")
                .long("cache")
                .value_parser(PossibleValuesParser::new([
                    "miss",
                    "hit-stale",
                    "hit-fresh",
                    "skipped",
                ]))
                .help("What the lookup finds; miss by default"),
        )
        .arg(
            Arg::new("hook")
                .long("hook")
                .value_parser(PossibleValuesParser::new(Hook::ALL.map(Hook::name)))
                .help("Only the rules of this hook; by default all, in the order of the flow"),
        )
        .arg(scope().help("Whose rules they are; by default what fits, route if both do"))
        .arg(json())
        .after_help(
            "No server is needed. Lines with + are new, those with - are gone. What a server \
             adds by itself (Via, Date, Age, Cache-Status and the like) is not shown.\n\n\
             Examples:\n  \
             forebay rules explain shop.rules --request 'GET /old/page?a=1'\n  \
             forebay rules explain shop.rules --request 'GET http://shop.test/' \\\n      \
             --header 'Cookie: lang=de' --client 10.1.2.3 --cache hit-fresh\n  \
             forebay rules explain shop.rules --request @head.txt --status 503",
        )
}

fn test() -> Command {
    Command::new("test")
        .about("Run tests of rules: requests, and what has to come of them")
        .arg(files().help("Test files; each names the rule files that it tests"))
        .arg(json())
        .after_help(
            "A test file:\n  \
             rules shop.rules\n\n  \
             test old pages have moved\n  \
             > GET /old/page\n  \
             >> none\n  \
             < 301\n  \
             < Location: http://example.org/new/page\n  \
             < !Server\n\n\
             > the client asks, >> the origin gets, << it answers, < the client gets. !Name: there \
             is no such field. docs/rules.md has the rest.\n\n\
             Of what differs, - is expected and + is seen. Exit code: 0 all passed, 1 not.\n\n\
             Examples:\n  \
             forebay rules test shop.test\n  \
             forebay rules test --json *.test | jq '.tests[] | select(.ok | not)'",
        )
}

fn top() -> Command {
    Command::new("top")
        .about("Show what each rule of a running server does and costs")
        .arg(admin())
        .arg(interval())
        .arg(count().help(
            "So many tables; 1 shows what was counted since the rules were loaded. On a terminal \
             it goes on until Ctrl-C, else 1 is the default",
        ))
        .arg(
            Arg::new("sort")
                .long("sort")
                .value_parser(PossibleValuesParser::new([
                    "ns", "runs", "matches", "bytes", "failures",
                ]))
                .help("What the rules are sorted by, the largest first; ns by default"),
        )
        .arg(
            Arg::new("lines")
                .long("lines")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("So many rules; by default as many as a terminal has room for, else all"),
        )
        .arg(json().help("Print one JSON object for each table"))
        .after_help(
            "Times are those of a sample of the runs. Counts begin anew when the configuration \
             is read again. A server that goes away is asked again until it is back.\n\n\
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
    Arg::new("scope").long("scope").value_parser(PossibleValuesParser::new(["server", "route"]))
}
