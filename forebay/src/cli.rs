//! The command line. The flags of `serve` come from the table of settings.

mod cache;
mod locks;
mod rules;
mod stored;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};
use forebay_server::config;

use crate::screen;

/// All commands with their arguments.
pub(crate) fn command() -> Command {
    Command::new("forebay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A caching HTTP proxy: the pool held ready in front of an origin")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Examples:\n  \
             forebay try\n  \
             forebay serve --origin http://127.0.0.1:3000\n  \
             forebay serve --config forebay.toml\n  \
             forebay purge http://127.0.0.1:8080/news",
        )
        .subcommand(try_command())
        .subcommand(serve())
        .subcommand(check())
        .subcommand(config_command())
        .subcommand(stored::purge())
        .subcommand(stored::list())
        .subcommand(stats())
        .subcommand(counters())
        .subcommand(locks::command())
        .subcommand(cache::command())
        .subcommand(rules::command())
        .subcommand(reload())
}

fn try_command() -> Command {
    Command::new("try")
        .about("Serve a small built-in example site, to see what a cache does")
        .args(setting_flags().filter(|arg| arg.get_id() != "origin"))
        .after_help("Examples:\n  forebay try\n  forebay try --listen 127.0.0.1:9000 --workers 1")
}

fn serve() -> Command {
    Command::new("serve")
        .about("Serve the sites of a configuration file, or one origin without any file")
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .help("Configuration file (TOML) with [[site]] sections")
                .conflicts_with("origin")
                .required_unless_present("origin"),
        )
        .arg(
            Arg::new("origin")
                .long("origin")
                .value_name("URL")
                .help("Serve every host from this origin, such as http://127.0.0.1:3000"),
        )
        .arg(Arg::new("upgrade").long("upgrade").action(ArgAction::SetTrue).help(
            "Take over from the server that runs at this address; start by itself if none does",
        ))
        .args(setting_flags())
        .after_help(
            "Examples:\n  \
             forebay serve --origin http://127.0.0.1:3000\n  \
             forebay serve --origin http://127.0.0.1:3000 --listen 0.0.0.0:80 --cache-size 1GiB\n  \
             forebay serve --config /etc/forebay.toml --log-level debug\n  \
             forebay serve --config /etc/forebay.toml --upgrade\n\n\
             SIGTERM: finish what is under way and exit. SIGHUP: read the file again.",
        )
}

/// One flag for each setting that can stand at the top of a file.
fn setting_flags() -> impl Iterator<Item = Arg> {
    config::flags().into_iter().map(|flag| {
        Arg::new(flag.name.clone())
            .long(flag.name)
            .value_name(flag.value_hint)
            .help(flag.help)
            .help_heading("Settings")
            .action(match flag.setting.kind {
                config::Kind::Texts { .. } => ArgAction::Append,
                _ => ArgAction::Set,
            })
    })
}

fn check() -> Command {
    Command::new("check")
        .about("Check a configuration file and say where it is wrong")
        .arg(Arg::new("file").value_name("FILE").required(true))
        .arg(json())
        .after_help("Examples:\n  forebay check forebay.toml\n  forebay check --json forebay.toml")
}

fn config_command() -> Command {
    Command::new("config")
        .about("Print every setting with its default, as a configuration file")
        .arg(
            Arg::new("defaults")
                .long("defaults")
                .action(ArgAction::SetTrue)
                .required(true)
                .help("All settings and their defaults"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_parser(PossibleValuesParser::new(["toml", "markdown"]))
                .default_value("toml")
                .help("How to print them"),
        )
        .after_help("Examples:\n  forebay config --defaults > forebay.toml")
}

fn stats() -> Command {
    Command::new("stats")
        .about("Print the counters of a running server, with those of its cache")
        .arg(admin())
        .arg(json())
        .after_help(
            "A server that has gone, or does not answer: forebay counters.\n\n\
             Examples:\n  forebay stats\n  forebay stats --json | jq .hits_total",
        )
}

fn counters() -> Command {
    Command::new("counters")
        .about("Show the counter file of a server, whether it runs or not, and watch it change")
        .arg(Arg::new("file").value_name("FILE").help(
            "PORT.counters in the server's runtime directory; by default that of the only server \
             that runs, else the only one that is there",
        ))
        .arg(
            Arg::new("watch")
                .long("watch")
                .action(ArgAction::SetTrue)
                .help("One table after another, with the change per second, until Ctrl-C"),
        )
        .arg(interval().requires("watch"))
        .arg(count().requires("watch").help("End after so many tables; the first has no changes"))
        .arg(json().help("Print one JSON object for each table"))
        .after_help(
            "No server has to answer: its memory is read. A server that dies is said to be dead, \
             and its last numbers stay; one that is started anew at the same port is found. On a \
             terminal --watch highlights what has changed, and leaves out what is 0 if there is no \
             room. Bars show how many values of a histogram lay in each bucket.\n\n\
             Examples:\n  \
             forebay counters\n  \
             forebay counters --watch --interval 2s\n  \
             forebay counters /run/user/1000/forebay/8080.counters\n  \
             forebay counters --json | jq .counters.hits_total\n  \
             forebay counters --watch --count 11 --json | jq .per_second.requests_total",
        )
}

fn reload() -> Command {
    Command::new("reload")
        .about("Let a running server read its configuration again")
        .arg(admin())
        .arg(json())
        .after_help("Examples:\n  forebay check forebay.toml && forebay reload")
}

fn admin() -> Arg {
    Arg::new("admin").long("admin").value_name("ADDR|PATH").help(
        "Admin interface of the server: a loopback address, or the path of a socket (with a /); \
         by default the socket of the only server that runs",
    )
}

/// Of commands that print one table after another.
fn interval() -> Arg {
    Arg::new("interval")
        .long("interval")
        .value_name("TIME")
        .value_parser(screen::interval)
        .help("Time between two tables, such as 2s; 1s by default")
}

fn count() -> Arg {
    Arg::new("count").long("count").value_name("N").value_parser(value_parser!(u64).range(1..))
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        let command = command();
        let all = command.get_subcommands().flat_map(|one| one.get_subcommands().chain([one]));
        for command in all {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
