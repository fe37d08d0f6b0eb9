//! `forebay trace`, which shows the steps of requests as they pass.

use clap::{Arg, Command, value_parser};

use super::{admin, json};

/// Returns the command `forebay trace`.
pub(super) fn trace() -> Command {
    let value =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("trace")
        .about("Show the steps of requests as they pass a running server")
        .arg(
            Arg::new("prefix")
                .value_name("URL-PREFIX")
                .conflicts_with_all(["host", "path"])
                .help("Only requests whose URL starts with this text [default: all requests]"),
        )
        .arg(value("host", "HOST").help("Only requests for this host: example.org[:PORT]"))
        .arg(value("path", "PREFIX").help("Only requests whose path starts with this text"))
        .arg(
            value("limit", "N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Stop after N requests"),
        )
        .arg(admin())
        .arg(json().help("Print one JSON object per line"))
        .after_help(
            "A request is printed once the request itself and the fetch that it started have \
             ended. Times are in microseconds since the first byte of the request. Values of \
             fields such as Cookie and Authorization are not printed; URLs are. A trace whose \
             output is not read in time loses requests and says how many, but never delays the \
             server. Stop the trace with Ctrl-C. Exit code: 0 if --limit or the reader of the \
             output ended the trace; 1 if the server ended or refused it.\n\n\
             Examples:\n  \
             forebay trace http://www.example.org/news\n  \
             forebay trace --host www.example.org --limit 10\n  \
             forebay trace --path /api/ --json | jq -c '[.target, .duration_us, .cache]'",
        )
}
