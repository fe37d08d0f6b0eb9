//! `forebay explain`, which asks a running server how it would answer a request.

use clap::{Arg, ArgAction, Command};

use super::{admin, json};

/// Returns the command `forebay explain`.
pub(super) fn explain() -> Command {
    Command::new("explain")
        .about("Explain step by step how a running server would answer a request now")
        .arg(Arg::new("url").value_name("URL").required(true).help("URL of the request"))
        .arg(
            Arg::new("header")
                .long("header")
                .short('H')
                .value_name("NAME: VALUE")
                .action(ArgAction::Append)
                .help("A field of the request; may be repeated. Host replaces the URL's host"),
        )
        .arg(
            Arg::new("method")
                .long("method")
                .value_name("METHOD")
                .help("Method of the request [default: GET]"),
        )
        .arg(Arg::new("listen").long("listen").value_name("IP:PORT").help(
            "Address of the server at which the request arrives [default: the first one for the \
             scheme and port of the URL, else the first one for the scheme]",
        ))
        .arg(admin())
        .arg(json())
        .after_help(
            "The request is not made: the cache stays as it is, and the origin is not asked. \
             Header rules of the hooks before the lookup are run, with 127.0.0.1 as the client's \
             address. Exit code: 0 if the request was explained, even if it would be refused; 1 \
             if not.\n\n\
             Examples:\n  \
             forebay explain http://www.example.org/\n  \
             forebay explain http://www.example.org/ -H 'Cookie: a=b' -H 'Accept: */*'\n  \
             forebay explain http://127.0.0.1:8080/ -H 'Host: www.example.org' --method HEAD\n  \
             forebay explain http://www.example.org/ --json | jq -r .verdict.outcome",
        )
}
