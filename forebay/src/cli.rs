//! The command line. The setting flags of `serve` and `try` come from the table of settings.

mod cache;
#[cfg(test)]
mod docs;
mod explain;
mod import;
mod locks;
mod rules;
mod sign;
mod stored;
mod trace;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use forebay_server::config;

use crate::screen;

/// All commands with their arguments.
pub(crate) fn command() -> Command {
    Command::new("forebay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A caching HTTP reverse proxy")
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
        .subcommand(diff())
        .subcommand(config_command())
        .subcommand(import::import())
        .subcommand(sign::sign())
        .subcommand(stored::purge())
        .subcommand(stored::list())
        .subcommand(explain::explain())
        .subcommand(trace::trace())
        .subcommand(stats())
        .subcommand(counters())
        .subcommand(locks::command())
        .subcommand(cache::command())
        .subcommand(rules::command())
        .subcommand(reload())
}

fn try_command() -> Command {
    Command::new("try")
        .about("Serve a small built-in example site, to try out the cache")
        .arg(Arg::new("tls").long("tls").action(ArgAction::SetTrue).help(
            "Serve the site over TLS too, with a new certificate that no other program trusts yet",
        ))
        .args(setting_flags().filter(|arg| arg.get_id() != "origin" && arg.get_id() != "files"))
        .after_help(
            "Examples:\n  forebay try\n  forebay try --tls\n  \
             forebay try --listen 127.0.0.1:9000 --workers 1",
        )
}

fn serve() -> Command {
    Command::new("serve")
        .about("Serve the sites of a configuration file, or one origin or directory without a file")
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .help("Configuration file (TOML); each [[site]] section is a site")
                .conflicts_with("origin"),
        )
        .arg(Arg::new("origin").long("origin").value_name("URL").action(ArgAction::Append).help(
            "Send requests for every host to this origin, such as http://127.0.0.1:3000; \
                     if given several times, to each of the origins in turn",
        ))
        .arg(Arg::new("upgrade").long("upgrade").action(ArgAction::SetTrue).help(
            "Take over from the server that listens on the same address; if there is none, start \
             as usual",
        ))
        .args(setting_flags())
        .group(
            ArgGroup::new("source")
                .args(["config", "origin", "files"])
                .required(true)
                .multiple(true),
        )
        .after_help(
            "Signals: SIGTERM finishes open requests and exits; SIGHUP reloads the \
             configuration; SIGUSR1 reopens the access logs.\n\n\
             Examples:\n  \
             forebay serve --origin http://127.0.0.1:3000\n  \
             forebay serve --origin http://127.0.0.1:3000 --listen 0.0.0.0:80 --cache-size 1GiB\n  \
             forebay serve --files ./public\n  \
             forebay serve --config /etc/forebay.toml --log-level debug\n  \
             forebay serve --config /etc/forebay.toml --upgrade",
        )
}

/// One flag for each setting of the top level of a configuration file.
fn setting_flags() -> impl Iterator<Item = Arg> {
    config::flags().into_iter().map(|flag| {
        Arg::new(flag.name.clone())
            .long(flag.name)
            .value_name(flag.value_hint)
            .help(flag.help)
            .help_heading("Settings")
            .action(match flag.setting.kind {
                config::SettingKind::Texts { .. } => ArgAction::Append,
                _ => ArgAction::Set,
            })
    })
}

fn check() -> Command {
    Command::new("check")
        .about("Check a configuration file and report each error with its line and column")
        .arg(Arg::new("file").value_name("FILE").required(true).help("Configuration file (TOML)"))
        .arg(Arg::new("resolve").long("resolve").action(ArgAction::SetTrue).help(
            "Also check that the names of origins resolve, that their ports accept connections, \
             that no origin is the server itself, and that directories exist",
        ))
        .arg(json())
        .after_help(
            "Exit code: 0 if the file is valid, 1 if it is not or --resolve finds a problem.\n\n\
             Examples:\n  forebay check forebay.toml\n  forebay check --resolve forebay.toml\n  \
             forebay check --json forebay.toml",
        )
}

fn diff() -> Command {
    Command::new("diff")
        .about("Show the differences of two configurations in words")
        .arg(
            Arg::new("old")
                .value_name("OLD")
                .requires("new")
                .conflicts_with("admin")
                .help("Configuration file (TOML); without files, what a running server uses"),
        )
        .arg(Arg::new("new").value_name("NEW").help(
            "Configuration file (TOML); without files, what a reload of the server would use",
        ))
        .arg(admin())
        .arg(json())
        .after_help(
            "The command compares values, not text, and says which changes need a restart. Values \
             of environment variables and files are not shown. Without files, it compares the \
             configuration that a running server uses with its files and flags. Exit code: 0 if \
             the configurations are the same, 1 if they differ, 2 for an error.\n\n\
             Examples:\n  forebay diff\n  forebay diff /etc/forebay/forebay.toml new.toml\n  \
             forebay diff --json old.toml new.toml",
        )
}

fn config_command() -> Command {
    Command::new("config")
        .about("Print every setting with its default, as a configuration file")
        .arg(
            Arg::new("defaults")
                .long("defaults")
                .action(ArgAction::SetTrue)
                .required(true)
                .help("Print all settings and their defaults"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(PossibleValuesParser::new(["toml", "markdown"]))
                .default_value("toml")
                .help("Output format"),
        )
        .after_help(
            "Examples:\n  forebay config --defaults > forebay.toml\n  \
             forebay config --defaults --format markdown",
        )
}

fn stats() -> Command {
    Command::new("stats")
        .about("Print the counters of a running server and its cache, or of one site")
        .arg(Arg::new("site").long("site").value_name("NAME").help(
            "Print the counts of the site with this name; \"no site\" has the requests that were \
             refused before their site was found",
        ))
        .arg(admin())
        .arg(json())
        .after_help(
            "For a server that has exited or does not answer, use `forebay counters`.\n\n\
             Examples:\n  forebay stats\n  forebay stats --site shop\n  \
             forebay stats --json | jq .hits_total",
        )
}

fn counters() -> Command {
    Command::new("counters")
        .about("Show the counter file of a running or dead server, once or continuously")
        .arg(Arg::new("file").value_name("FILE").help(
            "Counter file: PORT.counters in the server's runtime directory [default: that of the \
             only running server, else the only one found]",
        ))
        .arg(
            Arg::new("watch")
                .long("watch")
                .action(ArgAction::SetTrue)
                .help("Print a table at each interval, with changes per second, until Ctrl-C"),
        )
        .arg(interval().requires("watch"))
        .arg(count().requires("watch").help("Stop after N tables; the first shows no changes"))
        .arg(json().help("Print one JSON object per table"))
        .after_help(
            "The command reads the counter file directly, so it also works if the server hangs or \
             is dead. The last values of a dead server stay visible. If a server starts on the \
             same port, --watch continues with its new file. On a terminal, --watch highlights \
             changed counters and hides counters at zero if the table does not fit the screen. \
             Bars show how many values each histogram bucket holds.\n\n\
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
        .about("Make a running server reload its configuration")
        .args(reload_arguments())
        .arg(admin())
        .arg(json())
        .after_help(
            "Exit code: 0 if the new configuration is in use, and has passed its trial; 1 if it is \
             invalid, and the old configuration stays in use, or if the server does not answer; 3 \
             if stuck workers do not use it when the time of --wait is over; 4 if the trial has \
             failed, and the old configuration is in use again; 5 if another reload ended the \
             trial; 6 if the trial has failed, and the old configuration cannot be used either.\n\n\
             Examples:\n  forebay check forebay.toml && forebay reload\n  \
             forebay reload --wait 30s\n  \
             forebay reload --trial 60s --errors-max 2\n  \
             forebay reload --admin 127.0.0.1:8081",
        )
}

fn reload_arguments() -> [Arg; 4] {
    let time = |name: &'static str| {
        Arg::new(name).long(name).value_name("TIME").value_parser(screen::interval)
    };
    let number = |name: &'static str| Arg::new(name).long(name).requires("trial");
    [
        time("wait").num_args(0..=1).default_missing_value("60s").help(
            "Wait until stuck workers use the new configuration too, at most this time \
             [default: 60s]",
        ),
        time("trial").help(
            "Try the new configuration out for this time, and return to the old one if too many \
             requests fail",
        ),
        number("errors-max")
            .value_name("PERCENT")
            .value_parser(value_parser!(u64).range(0..=99))
            .help("Largest share of failed requests (status 5xx) in a trial [default: 5]"),
        number("requests-min")
            .value_name("N")
            .value_parser(value_parser!(u64))
            .help("Number of requests from which on a trial can fail [default: 20]"),
    ]
}

fn admin() -> Arg {
    Arg::new("admin").long("admin").value_name("ADDR|PATH").help(
        "Admin interface of the server: a loopback address, or a socket path that contains a / \
         [default: that of the only server in the default runtime directory]",
    )
}

/// The argument for the interval between two tables.
fn interval() -> Arg {
    Arg::new("interval")
        .long("interval")
        .value_name("TIME")
        .value_parser(screen::interval)
        .help("Time between two tables, such as 500ms or 2s [default: 1s]")
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
