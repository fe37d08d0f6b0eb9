//! `forebay cache`: looking at the cache of a running or stopped server.

use clap::{Arg, ArgAction, Command};

use super::json;

/// The command and those below it.
pub(super) fn command() -> Command {
    Command::new("cache")
        .about("Look at a cache directory from outside, whether its server runs or not")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check())
        .subcommand(stats())
        .subcommand(list())
        .subcommand(get())
        .after_help(
            "Nothing is changed and no server has to answer: one that uses the cache goes on.\n\n\
             Examples:\n  \
             forebay cache check /dev/shm/forebay\n  \
             forebay cache stats /dev/shm/forebay",
        )
}

fn check() -> Command {
    Command::new("check")
        .about("Check whether the cache is sound, and say what is not")
        .arg(place())
        .arg(
            Arg::new("deep")
                .long("deep")
                .action(ArgAction::SetTrue)
                .help("Look at the checksum of each stored response too, which reads all of them"),
        )
        .arg(json())
        .after_help(
            "Exit code: 0 sound, 1 something is wrong, 2 it cannot be read. What a server is \
             about to do, and what the death of one leaves, is no fault: it is shown as a note.\n\n\
             Examples:\n  \
             forebay cache check /dev/shm/forebay\n  \
             forebay cache check --deep --json /dev/shm/forebay | jq '.findings[]'",
        )
}

fn stats() -> Command {
    Command::new("stats")
        .about("Show how the cache's memory is shared out, as far as the cache itself tells")
        .arg(place())
        .arg(json())
        .after_help(
            "It walks over everything that is stored. What is still arriving, and copies for slow \
             clients, are the server's own memory: forebay stats shows them.\n\n\
             Examples:\n  \
             forebay cache stats /dev/shm/forebay\n  \
             forebay cache stats --json /dev/shm/forebay | jq .segments",
        )
}

fn list() -> Command {
    Command::new("ls")
        .about("List what is stored, in no order")
        .arg(place())
        .arg(
            Arg::new("prefix")
                .long("prefix")
                .value_name("URL")
                .help("Only what was stored for URLs that begin like this"),
        )
        .arg(json().help("Print one JSON object on each line"))
        .after_help(
            "It walks over everything that is stored, with --prefix too, and prints as it goes. \
             AGE_S counts from when the response arrived; FRESH_S is what is left until it is \
             stale, below 0 afterwards, `soft` if it has to be validated anyway; USE is 0 to 3.\n\n\
             Examples:\n  \
             forebay cache ls /dev/shm/forebay | sort -k 2 -n -r | head\n  \
             forebay cache ls --prefix http://www.example.org/news /dev/shm/forebay",
        )
}

fn get() -> Command {
    Command::new("get")
        .about("Print the response that is stored for a URL, head and body")
        .arg(place())
        .arg(Arg::new("url").value_name("URL").required(true))
        .arg(
            Arg::new("site")
                .long("site")
                .value_name("NAME")
                .required(true)
                .help("The site's name; with serve --origin it is the origin's HOST:PORT"),
        )
        .after_help(
            "Fields that a server adds to an answer, such as Age, are not there. Exit code: 0 it \
             is there, 1 it is not (or not whole), 2 the cache cannot be read.\n\n\
             Examples:\n  \
             forebay cache get --site shop /dev/shm/forebay http://www.example.org/news",
        )
}

fn place() -> Arg {
    Arg::new("place")
        .value_name("DIR|FILE")
        .required(true)
        .help("The server's `cache_dir`, or the file `store` in it")
}
