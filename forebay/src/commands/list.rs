//! `forebay ls`: lists the stored responses of a running server.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::steers_terminal;
use serde_json::Value;

use super::is_set;
use super::selection::{query, refusal, size, time};
use crate::admin_client::{ask_by_line, find};

/// The way in which a list ended.
enum ListEnd {
    /// The server completed the list. `after` is set if there may be more entries.
    Whole {
        after: Option<String>,
    },
    Broken(String),
}

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let limit = args.get_one::<u64>("limit").map(u64::to_string);
    let path = format!("/ls{}", query(args, &[("limit", limit)]));
    let is_json = is_set(args, "json");
    let mut out = BufWriter::new(io::stdout().lock());
    let mut header = if is_json { "" } else { HEADER };
    let mut end =
        ListEnd::Broken("the connection to the server was lost: the list is incomplete".to_owned());
    let answer = ask_by_line(&address, ("GET", &path, ""), &mut |line| {
        let written = match shown(line, is_json) {
            Ok(text) => write!(out, "{}{text}", std::mem::take(&mut header)).is_ok(),
            Err(ended) => {
                end = ended;
                false
            }
        };
        if written { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if !answer.is_success {
        return Err(refusal(args, &answer.body));
    }
    // The flush fails if the reader of the output (`| head`) has exited.
    if out.flush().is_err() {
        return Ok(ExitCode::SUCCESS);
    }
    match end {
        ListEnd::Whole { after } => {
            if let Some(after) = after {
                eprintln!("there may be more; continue with --after {}", quoted(&after));
            }
            Ok(ExitCode::SUCCESS)
        }
        ListEnd::Broken(why) => Err(why),
    }
}

const HEADER: &str = "    AGE   FRESH USE VARY       SIZE  WHY              URL  TAGS\n";

/// Returns a line of the response as it is printed, or the end of the list.
fn shown(line: &str, is_json: bool) -> Result<String, ListEnd> {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return Err(ListEnd::Broken(
            "the connection to the server was lost: the list is incomplete".to_owned(),
        ));
    };
    if value.get("listed").is_some() {
        return Err(ListEnd::Whole { after: value["after"].as_str().map(str::to_owned) });
    }
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Err(ListEnd::Broken(error.to_owned()));
    }
    Ok(if is_json { line.to_owned() } else { row(&value) })
}

fn row(value: &Value) -> String {
    let number = |name: &str| value[name].as_i64();
    let age = number("age_s").map_or("-".to_owned(), time);
    let fresh = match value["soft"].as_bool() {
        Some(true) => "soft".to_owned(),
        _ => number("fresh_for_s").map_or("-".to_owned(), time),
    };
    let (uses, variants) = (number("uses").unwrap_or(0), number("variants").unwrap_or(0));
    let size = size(value["bytes"].as_u64().unwrap_or(0));
    let url = value["url"].as_str().unwrap_or("-");
    let tags = value["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tags: Vec<_> = tags.iter().filter_map(Value::as_str).map(printable).collect();
    let why: Vec<_> = ["fwd", "detail"].iter().filter_map(|name| value[*name].as_str()).collect();
    let why = if why.is_empty() { "hit".to_owned() } else { why.join(",") };
    let row = format!("{age:>7} {fresh:>7} {uses:>3} {variants:>4} {size:>10}  {why:<15}  {url}  ");
    format!("{}\n", (row + &tags.join(",")).trim_end())
}

/// Replaces control characters and direction marks in a tag, which comes from the origin.
fn printable(tag: &str) -> String {
    tag.chars().map(|c| if steers_terminal(c) { '\u{fffd}' } else { c }).collect()
}

/// Quotes a text for a shell. The user may copy the printed line, and the URL in it comes from a
/// client.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_becomes_a_row_and_the_last_one_ends_the_list() {
        let line = "{\"url\":\"http://h/a\",\"site\":\"s\",\"age_s\":75,\"fresh_for_s\":-180,\
                    \"uses\":3,\"variants\":0,\"bytes\":1536,\
                    \"tags\":[\"a\",\"b\\u001b[2J\\u009bx\\u202ey\"],\
                    \"soft\":false,\"fwd\":\"stale\",\"detail\":\"heuristic\"}\n";
        let row = "    75s     -3m   3    0    1.5 KiB  stale,heuristic  http://h/a  \
                   a,b\u{fffd}[2J\u{fffd}x\u{fffd}y\n";
        assert_eq!(shown(line, false).ok().as_deref(), Some(row));
        assert_eq!(shown(line, true).ok().as_deref(), Some(line));
        let soft = line.replace("\"soft\":false", "\"soft\":true");
        assert!(shown(&soft, false).is_ok_and(|row| row.contains("    soft   3")));
        let hit = line.replace("\"stale\"", "null").replace("\"heuristic\"", "null");
        assert!(shown(&hit, false).is_ok_and(|row| row.contains("  hit              http://h/a")));
        let end = shown("{\"listed\":2,\"after\":\"s http://h/a\"}\n", true).err();
        assert!(
            matches!(end, Some(ListEnd::Whole { after: Some(after) }) if after == "s http://h/a")
        );
        assert!(matches!(shown("{\"url\":", true), Err(ListEnd::Broken(_))));
        assert!(
            matches!(shown("{\"error\":\"x\"}", true), Err(ListEnd::Broken(why)) if why == "x")
        );
    }

    #[test]
    fn a_quoted_text_is_one_word_of_a_shell() {
        for text in ["s http://h/a", "s http://h/x';echo${IFS}evil;'", "'", "$(id)`id`\\\"!#"] {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output();
            let output = output.expect("there is a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{script}");
        }
    }
}
