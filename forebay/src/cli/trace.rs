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
            "Each request is printed once it and the fetch that it started have ended. Times are \
             in microseconds since its first byte. Values of fields such as Cookie and \
             Authorization are not printed; URLs are. A trace that is not read in time loses \
             requests, and says how many; it never delays the server. Stop it with Ctrl-C. Exit \
             code: 0 if the trace was ended by --limit or by the reader of its output, 1 if the \
             server ended it, or refused it.\n\n\
             Examples:\n  \
             forebay trace http://www.example.org/news\n  \
             forebay trace --host www.example.org --limit 10\n  \
             forebay trace --path /api/ --json | jq -c '[.target, .duration_us, .cache]'",
        )
}
