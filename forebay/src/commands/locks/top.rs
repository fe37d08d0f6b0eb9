//! `forebay locks top`: which locks are waited for now.

use std::cmp::Reverse;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_shm::ProfileFile;
use forebay_sync::profile::Reading;

use super::columns::us;
use super::find::find;
use super::lines_max;
use super::report::head;
use super::summary::{Happened, Place, Summary};
use super::table::line;
use crate::say::is_read;
use crate::screen::{CLEAR, Pace, Screen, Watched, interval_of};

const COLUMNS: [&str; 7] =
    ["waiting", "holding", "delayed", "count/s", "cnt_lock/s", "try_fail/s", "wait_avg"];

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let is_live = io::stdout().is_terminal();
    let mut top = Top { path: find(args.get_one("file"))?, is_live, lines_max: lines_max(args) };
    let first = top.read()?;
    let tables = args.get_one::<u64>("count").copied();
    Pace { interval_ms: interval_of(args), tables, is_live }.watch(&mut top, first)
}

struct Top {
    path: PathBuf,
    is_live: bool,
    lines_max: usize,
}

/// What a profile said at one time.
struct Look {
    file: ProfileFile,
    reading: Reading,
    summary: Summary,
}

impl Watched for Top {
    type Reading = Look;

    const AWAY: &'static str = "the file is looked at";

    fn read(&mut self) -> Result<Look, String> {
        let file = ProfileFile::open(&self.path).map_err(|error| error.to_string())?;
        let reading = file.read().map_err(|error| error.to_string())?;
        Ok(Look { summary: Summary::of(&reading), file, reading })
    }

    fn show(&self, now: &Look, before: Option<(&Look, f64)>) -> bool {
        let is_same = |before: &Look| {
            before.reading.about == now.reading.about
                && before.reading.control.generation == now.reading.control.generation
        };
        let before = before.filter(|(before, _)| is_same(before));
        let head = head(&now.file, &now.reading, &now.summary);
        let columns = line(COLUMNS.iter().map(ToString::to_string), "name");
        let rows = match before {
            Some((before, seconds)) => rows(&before.summary, &now.summary, seconds),
            None => vec!["the numbers begin anew".to_owned()],
        };
        let head = format!("{head}\n{columns}");
        let room = match self.is_live {
            true => Screen::of_output().room_for(&rows, &head),
            false => rows.len(),
        };
        let shown = rows.get(..room.min(self.lines_max)).unwrap_or(&rows).join("\n");
        let clear = if self.is_live { CLEAR } else { "" };
        is_read(format_args!("{clear}{head}\n{shown}"))
    }
}

/// A line for each place at which anything happened meanwhile, the most waited for first.
fn rows(before: &Summary, now: &Summary, seconds: f64) -> Vec<String> {
    let mut changed: Vec<_> = now
        .places
        .iter()
        .map(|(place, happened)| (&**place, change(before, place, happened)))
        .filter(|(_, change)| change.iter().any(|n| *n > 0))
        .collect();
    changed.sort_by_key(|(_, change)| {
        let [wait_ns, hold_ns, delay_ns, ..] = *change;
        Reverse((wait_ns.saturating_add(delay_ns), hold_ns))
    });
    if changed.is_empty() {
        return vec!["nothing happens at the locks".to_owned()];
    }
    let row = |(place, change): &(&Place, [u64; 6])| {
        let [wait_ns, hold_ns, delay_ns, count, contended, failed] = *change;
        let threads = |ns: u64| format!("{:.3}", ns as f64 / 1e9 / seconds);
        let rate = |count: u64| format!("{:.1}", count as f64 / seconds);
        let cells = [
            threads(wait_ns),
            threads(hold_ns),
            threads(delay_ns),
            rate(count),
            rate(contended),
            rate(failed),
            us(wait_ns.checked_div(contended).unwrap_or(0)),
        ];
        line(cells.into_iter(), &place.name())
    };
    changed.iter().map(row).collect()
}

fn change(before: &Summary, place: &Place, now: &Happened) -> [u64; 6] {
    let before = before.places.get(place).copied().unwrap_or_default().totals;
    let now = &now.totals;
    [
        now.wait_ns.saturating_sub(before.wait_ns),
        now.hold_ns.saturating_sub(before.hold_ns),
        now.try_delay_ns.saturating_sub(before.try_delay_ns),
        now.count.saturating_sub(before.count),
        now.contended_count.saturating_sub(before.contended_count),
        now.try_failed_count
            .saturating_sub(before.try_failed_count)
            .saturating_add(now.timed_out_count.saturating_sub(before.timed_out_count)),
    ]
}
