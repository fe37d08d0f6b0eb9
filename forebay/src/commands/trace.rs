//! `forebay trace`: the steps of requests as they pass.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::Value;

use super::is_set;
use super::selection::{query, refusal};
use crate::admin_client::{ask_by_line, find};

/// The prefix of lines about the trace itself, if it is printed as text.
const NOTE: &str = "-- ";

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let is_json = is_set(args, "json");
    let given = |name: &str| args.get_one::<String>(name).cloned();
    let path = query(
        args,
        &[
            ("path", given("path")),
            ("limit", args.get_one::<u64>("limit").map(u64::to_string)),
            ("json", is_json.then(|| "true".to_owned())),
        ],
    );
    let mut out = io::stdout().lock();
    let mut end = Err("the connection to the server was lost".to_owned());
    // The server sends empty lines while no request passes.
    let mut is_in_block = false;
    let path = format!("/trace{path}");
    let answer = ask_by_line(&address, ("GET", &path, ""), &mut |line| {
        if let Some(ended) = end_of(line, is_json) {
            end = ended;
            return ControlFlow::Break(());
        }
        let is_blank = line == "\n";
        if is_blank && !is_in_block {
            return ControlFlow::Continue(());
        }
        is_in_block = !is_blank && !is_json;
        let is_complete = is_json || is_blank;
        let written = out.write_all(line.as_bytes());
        match written.and_then(|()| if is_complete { out.flush() } else { Ok(()) }) {
            Ok(()) => ControlFlow::Continue(()),
            // The reader of the output (`| head`) has exited.
            Err(_) => {
                end = Ok(());
                ControlFlow::Break(())
            }
        }
    })?;
    if !answer.is_success {
        return Err(refused(args, &answer.body));
    }
    end.map(|()| ExitCode::SUCCESS)
}

/// Returns the message for a trace that the server refuses. The URL is an argument without a flag.
fn refused(args: &ArgMatches, body: &str) -> String {
    let said = refusal(args, body);
    said.strip_prefix("--prefix: ").map(|said| format!("URL-PREFIX: {said}")).unwrap_or(said)
}

/// Returns the end of the trace that a line announces: an error if the server ended it.
fn end_of(line: &str, is_json: bool) -> Option<Result<(), String>> {
    let parsed: Value;
    let word = if is_json {
        let line = Some(line).filter(|line| line.starts_with("{\"ended\":"))?;
        parsed = serde_json::from_str(line).ok()?;
        parsed["ended"].as_str()?
    } else {
        line.strip_prefix(NOTE)?.strip_prefix("ended: ")?.trim_end()
    };
    Some(match word {
        "limit" => Ok(()),
        "handed-over" => {
            Err("another process serves now; run the command again to trace it".to_owned())
        }
        _ => Err("the server stops".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_of_the_end_ends_a_trace() {
        for (line, is_json, expected) in [
            ("-- ended: limit\n", false, Some(Ok(()))),
            ("-- ended: handed-over\n", false, Some(Err("run the command again"))),
            ("-- ended: stopping\n", false, Some(Err("stops"))),
            ("-- lost: 3 requests\n", false, None),
            ("{\"ended\":\"limit\"}\n", false, None),
            ("{\"ended\":\"limit\"}\n", true, Some(Ok(()))),
            ("{\"ended\":\"stopping\"}\n", true, Some(Err("stops"))),
            ("{\"target\":\"/ended\"}\n", true, None),
            ("\n", true, None),
        ] {
            let end = end_of(line, is_json);
            let is_right = match (&end, expected) {
                (None, None) | (Some(Ok(())), Some(Ok(()))) => true,
                (Some(Err(said)), Some(Err(part))) => said.contains(part),
                _ => false,
            };
            assert!(is_right, "{line:?}: {end:?}");
        }
    }
}
