//! The arguments of `forebay import`.

use clap::{Arg, ArgAction, Command};

use super::json;

pub(super) fn import() -> Command {
    Command::new("import")
        .about("Translate the configuration of another server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(nginx())
        .subcommand(trafficserver())
        .subcommand(varnish())
        .after_help(
            "Examples:\n  forebay import nginx /etc/nginx/nginx.conf > forebay.toml\n  \
             forebay import trafficserver /etc/trafficserver --output forebay.toml\n  \
             forebay import varnish /etc/varnish/default.vcl --output forebay.toml",
        )
}

fn nginx() -> Command {
    Command::new("nginx")
        .about("Translate a configuration of nginx, and list the differences by file and line")
        .arg(files("FILE", "nginx.conf, or files with server sections"))
        .arg(output())
        .arg(prefix(
            "Directory of relative paths, such as those of include; by default the first file's, \
             or its parent if it is sites-available, sites-enabled or conf.d",
        ))
        .arg(open())
        .arg(json())
        .after_help(format!(
            "{EXIT_CODES}\n\n\
             Examples:\n  forebay import nginx /etc/nginx/nginx.conf > forebay.toml\n  \
             forebay import nginx /etc/nginx/sites-available/shop --output forebay.toml",
        ))
}

fn trafficserver() -> Command {
    Command::new("trafficserver")
        .about(
            "Translate a configuration of Apache Traffic Server, and list the differences by file \
             and line",
        )
        .arg(files("PATH", "A directory such as /etc/trafficserver, or files such as remap.config"))
        .arg(output())
        .arg(prefix("Directory of relative paths; by default that of the first file"))
        .arg(open())
        .arg(json())
        .after_help(format!(
            "Filters by method become files of header rules beside the configuration; without \
             --output they are comments at its end.\n\n{EXIT_CODES}\n\n\
             Examples:\n  forebay import trafficserver /etc/trafficserver --output forebay.toml\n  \
             forebay import trafficserver remap.config records.config --output forebay.toml",
        ))
}

fn varnish() -> Command {
    Command::new("varnish")
        .about("Translate a VCL of Varnish, and list the differences by file and line")
        .arg(files("FILE", "VCL 4.0 or 4.1; several files are read as if one included the others"))
        .arg(output())
        .arg(prefix(
            "Directory of files that are included; by default that of the file, /etc/varnish and \
             /usr/share/varnish/vcl",
        ))
        .arg(open())
        .arg(json())
        .after_help(format!(
            "Conditions on fields become files of header rules beside the configuration; without \
             --output they are comments at its end.\n\n{EXIT_CODES}\n\n\
             Examples:\n  forebay import varnish /etc/varnish/default.vcl --output forebay.toml",
        ))
}

const EXIT_CODES: &str = "Exit code: 0 if everything was carried over, 1 if something was left out \
                          (the configuration is written all the same), 2 on an error.";

fn files(value: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new("files").value_name(value).required(true).action(ArgAction::Append);
    arg.num_args(1..).help(help)
}

fn output() -> Arg {
    Arg::new("output").long("output").value_name("FILE").help(
        "Write the configuration to this file, which must not exist, in place of standard \
         output, and header rules to files beside it",
    )
}

fn prefix(help: &'static str) -> Arg {
    Arg::new("prefix").long("prefix").value_name("DIR").help(help)
}

fn open() -> Arg {
    Arg::new("open").long("drop-access-rules").action(ArgAction::SetTrue).help(
        "Serve requests although a directive that may refuse them could not be carried over; by \
         default they get 403",
    )
}
