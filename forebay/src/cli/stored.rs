//! `forebay purge` and `forebay ls`: what is stored by a running server.

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

use super::{admin, json};

const TAGS: &str = "EXPR is a tag, or tags with `and`, `or`, `not` and parentheses; a tag that is \
                    one of these words, or has blanks or parentheses, stands in double quotes.";

/// `forebay purge`.
pub(super) fn purge() -> Command {
    Command::new("purge")
        .about("Drop stored responses: of URLs, of a host, of all URLs that begin so, or by tags")
        .arg(
            Arg::new("url")
                .value_name("URL")
                .num_args(1..)
                .conflicts_with_all(["host", "prefix", "tag"])
                .help("All variants of each"),
        )
        .args(selectors())
        .group(
            ArgGroup::new("what")
                .args(["url", "host", "prefix", "tag"])
                .multiple(true)
                .required(true),
        )
        .arg(switch("soft").help("Keep them, but have each validated before it is used"))
        .arg(switch("dry-run").help("Only say how many there are, how large, and name some"))
        .arg(admin())
        .arg(json())
        .after_help(format!(
            "{TAGS}\n\n\
             When it returns, no server that shares the cache answers with what was stored, nor \
             with what was being fetched. Exit code: 0 done, also if there was nothing; 1 not \
             done, or not known to be; 2 the command line is wrong.\n\n\
             Examples:\n  \
             forebay purge http://www.example.org/news\n  \
             forebay purge --host '*.example.org' --soft\n  \
             forebay purge --prefix http://www.example.org/news/ --dry-run\n  \
             forebay purge --tag 'article-17 or (sports and not archive)'\n  \
             forebay purge --host www.example.org --tag sports --json\n  \
             forebay purge --admin /run/forebay/8080.admin http://localhost:8080/"
        ))
}

/// `forebay ls`.
pub(super) fn list() -> Command {
    Command::new("ls")
        .about("List what is stored, in the order of hosts and paths")
        .args(selectors())
        .arg(
            Arg::new("after")
                .long("after")
                .value_name("SITE URL")
                .help("Go on behind this one, as the end of an earlier list says"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("End after so many"),
        )
        .arg(admin())
        .arg(json().help("Print one JSON object on each line"))
        .after_help(format!(
            "{TAGS}\n\n\
             AGE is that of the response; FRESH is the time until it is stale, below 0 \
             afterwards, `soft` if it has to be validated anyway; USE is 0 to 3; VARY is how many \
             variants there are, of which the newest is shown. Without a running server: forebay \
             cache ls.\n\n\
             Examples:\n  \
             forebay ls --limit 20\n  \
             forebay ls --prefix http://www.example.org/news/ | head\n  \
             forebay ls --tag sports --json | jq -r 'select(.fresh_for_s < 0) | .url'"
        ))
}

fn selectors() -> impl Iterator<Item = Arg> {
    let value =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    [
        value("host", "HOST")
            .conflicts_with("prefix")
            .help("All of a host: example.org, example.org:8080, *.example.org for what is below"),
        value("prefix", "URL").help("All whose URL begins like this"),
        value("tag", "EXPR").help("All whose tags are like this; of a host or prefix, if given"),
        value("site", "NAME").help("Of this site only"),
    ]
    .into_iter()
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}
