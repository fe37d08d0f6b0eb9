//! `forebay explain`: how a running server would answer a request now, and why.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::shown_url;
use serde_json::Value;

use super::is_set;
use super::selection::query;
use crate::admin_client::{ask, find};

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let headers = args.get_many::<String>("header").into_iter().flatten();
    let headers: Vec<_> = headers.map(String::as_str).collect();
    let given = |name: &str| args.get_one::<String>(name).cloned();
    let path = query(
        args,
        &[
            ("url", given("url")),
            ("method", given("method")),
            ("header", (!headers.is_empty()).then(|| headers.join("\n"))),
            ("listen", given("listen")),
            ("json", is_set(args, "json").then(|| "true".to_owned())),
        ],
    );
    let answer = ask(&address, "GET", &format!("/explain{path}"), "")?;
    if !answer.is_success {
        return Err(refusal(args, &answer.body));
    }
    // Writing fails if the reader of the output (`| head`) has exited.
    let _ = io::stdout().write_all(answer.body.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Returns the message for a request that the server cannot explain.
fn refusal(args: &ArgMatches, body: &str) -> String {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let url = args.get_one::<String>("url").map_or("", String::as_str);
    match (answer["error"].as_str(), answer["argument"].as_str()) {
        (Some(error), Some("url")) => format!("{}: {error}", shown_url(url)),
        (Some(error), Some(argument)) => format!("--{argument}: {error}"),
        (Some(error), None) => error.to_owned(),
        (None, _) => body.trim_end().to_owned(),
    }
}
