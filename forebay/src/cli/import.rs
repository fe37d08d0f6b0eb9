//! The arguments of `forebay import`.

use clap::{Arg, ArgAction, Command};

use super::json;

pub(super) fn import() -> Command {
    Command::new("import")
        .about("Translate the configuration of another server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(nginx())
        .after_help("Examples:\n  forebay import nginx /etc/nginx/nginx.conf > forebay.toml")
}

fn nginx() -> Command {
    Command::new("nginx")
        .about("Translate a configuration of nginx, and list the differences by file and line")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .required(true)
                .action(ArgAction::Append)
                .num_args(1..)
                .help("nginx.conf, or files with server sections"),
        )
        .arg(Arg::new("output").long("output").value_name("FILE").help(
            "Write the configuration to this file, which must not exist, in place of standard \
             output, and header rules to files beside it",
        ))
        .arg(Arg::new("prefix").long("prefix").value_name("DIR").help(
            "Directory of relative paths, such as those of include; by default the first file's, \
             or its parent if it is sites-available, sites-enabled or conf.d",
        ))
        .arg(Arg::new("open").long("drop-access-rules").action(ArgAction::SetTrue).help(
            "Serve requests although a directive that may refuse them could not be carried over; \
             by default they get 403",
        ))
        .arg(json())
        .after_help(
            "Exit code: 0 if everything was carried over, 1 if something was left out (the \
             configuration is written all the same), 2 on an error.\n\n\
             Examples:\n  forebay import nginx /etc/nginx/nginx.conf > forebay.toml\n  \
             forebay import nginx /etc/nginx/sites-available/shop --output forebay.toml",
        )
}
