//! `forebay rules top`: what the rules of a running server do and cost.

mod count;
mod table;
mod watch;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::ArgMatches;

use crate::admin_client::find;
use crate::commands::is_set;
use table::Sort;
use watch::{Top, read};

const INTERVAL_MS_DEFAULT: u64 = 1000;

/// Less would cost the server more than the rules do.
const INTERVAL_MS_MIN: u64 = 100;

const INTERVAL_MS_MAX: u64 = 3_600_000;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let is_json = is_set(args, "json");
    let is_live = io::stdout().is_terminal() && !is_json;
    let mut top = Top {
        admin: args.get_one("admin").cloned(),
        address: find(args.get_one("admin"))?,
        is_json,
        is_live,
        sort: Sort::named(args.get_one::<String>("sort").map_or("ns", String::as_str)),
        lines_max: args.get_one::<u64>("lines").map_or(usize::MAX, |lines| *lines as usize),
        interval_ms: args.get_one("interval").copied().unwrap_or(INTERVAL_MS_DEFAULT),
    };
    let tables = args.get_one::<u64>("count").copied().or((!is_live).then_some(1));
    let first = read(&top.address)?;
    if tables == Some(1) {
        top.show(first.since_reload(), false);
        return Ok(ExitCode::SUCCESS);
    }
    top.watch(first, tables)
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
