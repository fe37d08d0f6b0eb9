//! `forebay cache`: reads a cache directory without its server.

use clap::{Arg, ArgAction, Command};

use super::json;

/// Returns the command with its subcommands.
pub(super) fn command() -> Command {
    Command::new("cache")
        .about("Inspect a cache directory without its server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check())
        .subcommand(stats())
        .subcommand(list())
        .subcommand(get())
        .after_help(
            "These commands only read the files: they do not disturb a server that uses the cache, \
             and need no running server.\n\n\
             Examples:\n  \
             forebay cache check /dev/shm/forebay\n  \
             forebay cache stats /dev/shm/forebay",
        )
}

fn check() -> Command {
    Command::new("check")
        .about("Check the cache for corruption")
        .arg(path())
        .arg(
            Arg::new("deep")
                .long("deep")
                .action(ArgAction::SetTrue)
                .help("Also verify every checksum, which reads all stored responses"),
        )
        .arg(json())
        .after_help(
            "Exit code: 0 if the cache is sound, 1 if it is corrupt, 2 if it cannot be read. \
             Changes in progress and leftovers of a killed server are not corruption; they are \
             shown as drift (a count that is not exact) or as notes.\n\n\
             Examples:\n  \
             forebay cache check /dev/shm/forebay\n  \
             forebay cache check --deep --json /dev/shm/forebay | jq '.findings[]'",
        )
}

fn stats() -> Command {
    Command::new("stats")
        .about("Show how the cache's memory is used")
        .arg(path())
        .arg(json())
        .after_help(
            "The command scans all stored records. Responses that are still arriving and copies \
             for slow clients are in the server's own memory; see `forebay stats`.\n\n\
             Examples:\n  \
             forebay cache stats /dev/shm/forebay\n  \
             forebay cache stats --json /dev/shm/forebay | jq .segments",
        )
}

fn list() -> Command {
    Command::new("ls")
        .about("List the stored records, unordered")
        .arg(path())
        .arg(
            Arg::new("prefix")
                .long("prefix")
                .value_name("URL")
                .help("List only records of URLs that start with this text"),
        )
        .arg(json().help("Print one JSON object per line"))
        .after_help(
            "The command scans all stored records, even with --prefix, and prints each record as \
             it is found. AGE_S: seconds since the response arrived. FRESH_S: seconds until the \
             response is stale, negative afterwards; `soft` after a soft purge. USE: recent uses, \
             0 to 3.\n\n\
             Examples:\n  \
             forebay cache ls /dev/shm/forebay | sort -k 2 -n -r | head\n  \
             forebay cache ls --prefix http://www.example.org/news /dev/shm/forebay",
        )
}

fn get() -> Command {
    Command::new("get")
        .about("Print the stored response for a URL, head and body")
        .arg(path())
        .arg(
            Arg::new("url").value_name("URL").required(true).help("URL as the client requested it"),
        )
        .arg(
            Arg::new("site")
                .long("site")
                .value_name("NAME")
                .required(true)
                .help("Name of the site; under `serve --origin`, the origin's HOST:PORT"),
        )
        .after_help(
            "The head is printed as it is stored: fields that the server adds to each response, \
             such as Age, are missing. Exit code: 0 if the response was printed, 1 if it is not \
             stored or incomplete, 2 if the cache cannot be read.\n\n\
             Examples:\n  \
             forebay cache get --site shop /dev/shm/forebay http://www.example.org/news",
        )
}

fn path() -> Arg {
    Arg::new("path")
        .value_name("DIR|FILE")
        .required(true)
        .help("The server's `cache_dir`, or the file `store` in it")
}
