//! `forebay rules top`: what the rules of a running server do and cost.

mod count;
mod table;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::ArgMatches;
use forebay_server::clock::monotonic_ms;
use forebay_server::config::AdminAddress;
use serde_json::Value;

use crate::admin_client::{ask, find};
use crate::commands::is_set;
use crate::say::say;
use count::{Counts, Line};
use table::{Sort, Table};

/// On a terminal, where what is beyond the screen would push the first lines away.
const LIVE_LINES_MAX: usize = 20;

const INTERVAL_MS_DEFAULT: u64 = 1000;

/// Less would cost the server more than the rules do.
const INTERVAL_MS_MIN: u64 = 100;

const INTERVAL_MS_MAX: u64 = 3_600_000;

/// Takes the screen for the next table.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let is_json = is_set(args, "json");
    let is_live = io::stdout().is_terminal() && !is_json;
    let tables = args.get_one::<u64>("count").copied().or((!is_live).then_some(1));
    let interval_ms = args.get_one::<u64>("interval").copied().unwrap_or(INTERVAL_MS_DEFAULT);
    let sort = Sort::named(args.get_one::<String>("sort").map_or("ns", String::as_str));
    let lines_max = args.get_one::<u64>("lines").map(|lines| *lines as usize);
    let lines_max = lines_max.unwrap_or(if is_live { LIVE_LINES_MAX } else { usize::MAX });
    let show = |lines: Vec<Line>, is_rate: bool| {
        let table = Table { lines: sort.sorted(lines), is_rate, lines_max };
        match is_json {
            true => say!("{}", table.json()),
            false => say!("{}{}", if is_live { CLEAR } else { "" }, table.text()),
        }
        io::stdout().flush().is_ok()
    };
    let mut before = (read(&address)?, monotonic_ms());
    if tables == Some(1) {
        show(before.0.since_reload(), false);
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = 0;
    while tables.is_none_or(|tables| shown < tables) {
        pause(interval_ms);
        let now = (read(&address)?, monotonic_ms());
        let seconds = now.1.saturating_sub(before.1).max(1) as f64 / 1000.0;
        // Who has seen enough (`| head`) needs no more.
        if !show(now.0.per_second(&before.0, seconds), true) {
            break;
        }
        before = now;
        shown += 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// A time as it is typed: `2s`, `500ms`, or seconds.
pub(crate) fn interval(text: &str) -> Result<u64, String> {
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1.0),
        (None, Some(number)) => (number, 1000.0),
        (None, None) => (text, 1000.0),
    };
    let ms = number.parse::<f64>().ok().map(|number| (number * unit_ms) as u64);
    ms.filter(|ms| (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(ms))
        .ok_or_else(|| "from 100ms to 3600s, such as 2s".to_owned())
}

/// Nobody ever sends: only the time runs out.
fn pause(ms: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_millis(ms));
}

fn read(address: &AdminAddress) -> Result<Counts, String> {
    let answer = ask(address, "GET", "/rules", "")?;
    let value: Value = match serde_json::from_str(&answer.body) {
        Ok(value) if answer.is_success => value,
        _ => return Err(format!("the server at {address} says nothing of rules: it is older")),
    };
    let counts = Counts::of(&value);
    match counts.is_empty() {
        true => Err(format!("the server at {address} has no rules; see the setting `rules`")),
        false => Ok(counts),
    }
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn an_interval_has_a_unit_and_bounds() {
        for (text, expected) in [
            ("1s", Some(1000)),
            ("0.5s", Some(500)),
            ("250ms", Some(250)),
            ("2", Some(2000)),
            ("50ms", None),
            ("2h", None),
            ("-1s", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(interval(text).ok(), expected, "{text}");
        }
    }
}
