//! `forebay purge` and `forebay ls`, which act on the stored responses of a running server.

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

use super::{admin, json};

const TAGS: &str = "EXPR combines tags with `and`, `or`, `not` and parentheses. Quote a tag with \
                    double quotes if it is one of these words or contains blanks or parentheses.";

/// Returns the command `forebay purge`.
pub(super) fn purge() -> Command {
    Command::new("purge")
        .about("Purge stored responses by URL, host, URL prefix or tag")
        .arg(
            Arg::new("url")
                .value_name("URL")
                .num_args(1..)
                .conflicts_with_all(["host", "prefix", "tag"])
                .help("URLs to purge, each with all its variants"),
        )
        .args(selectors())
        .group(
            ArgGroup::new("what")
                .args(["url", "host", "prefix", "tag"])
                .multiple(true)
                .required(true),
        )
        .arg(switch("soft").help("Keep the responses, but validate each before its next use"))
        .arg(switch("dry-run").help("Only report how many match, their size and some URLs"))
        .arg(admin())
        .arg(json())
        .after_help(format!(
            "{TAGS}\n\n\
             Once the command has succeeded, no server that shares the cache answers a new request \
             with a purged response, or with the response of a fetch that began before the purge. \
             Exit code: 0 if the purge succeeded, even if nothing matched; 1 if the purge failed \
             or is unconfirmed; 2 for wrong usage.\n\n\
             Examples:\n  \
             forebay purge http://www.example.org/news\n  \
             forebay purge --host '*.example.org' --soft\n  \
             forebay purge --prefix http://www.example.org/news/ --dry-run\n  \
             forebay purge --tag 'article-17 or (sports and not archive)'\n  \
             forebay purge --host www.example.org --tag sports --json\n  \
             forebay purge --admin /run/forebay/8080.admin http://localhost:8080/"
        ))
}

/// Returns the command `forebay ls`.
pub(super) fn list() -> Command {
    Command::new("ls")
        .about("List stored responses, ordered by host and path")
        .args(selectors())
        .arg(
            Arg::new("after")
                .long("after")
                .value_name("SITE URL")
                .help("Continue after this entry, as printed at the end of an earlier list"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("List at most N responses"),
        )
        .arg(admin())
        .arg(json().help("Print one JSON object per line"))
        .after_help(format!(
            "{TAGS}\n\n\
             AGE: age of the response. FRESH: time until the response is stale, negative \
             afterwards; `soft` after a soft purge. USE: recent uses, 0 to 3. VARY: number of \
             variants; the newest is shown. Without a running server, use `forebay cache ls`.\n\n\
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
        value("host", "HOST").conflicts_with("prefix").help(
            "Only URLs of this host: example.org, example.org:8080, *.example.org for subdomains",
        ),
        value("prefix", "URL").help("Only URLs that start with this text"),
        value("tag", "EXPR")
            .help("Only responses whose tags match, within --host or --prefix if given"),
        value("site", "NAME").help("Only responses of this site"),
    ]
    .into_iter()
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}
