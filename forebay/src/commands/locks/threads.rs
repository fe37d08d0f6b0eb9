//! What each thread did, in the form that try-lock statistics have.

use std::cmp::Reverse;

use forebay_sync::profile::{ProfileSnapshot, SiteTotals, ThreadRead};

use super::columns::{Sort, numbers_of};
use super::names::Names;
use super::summary::{Place, Summary};
use super::table::{PAGE_BYTES_MAX, bars_of, fitting, note};
use super::ways;

const NS_PER_US: f64 = 1e3;

/// What is said of threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The order of places.
    pub(super) sort: Sort,
    /// Places of each thread.
    pub(super) lines_max: usize,
    /// How long waits and holds were goes below each place.
    pub(super) with_bars: bool,
    /// Does the process run still?
    pub(super) is_running: bool,
}

/// What a thread did at its places.
type OfThread<'a> = (&'a ThreadRead, Vec<(&'a Place, &'a SiteTotals)>);

/// Threads and their places, those with the largest numbers first.
pub(super) fn sorted<'a>(
    reading: &'a ProfileSnapshot,
    summary: &'a Summary,
    sort: Sort,
) -> Vec<OfThread<'a>> {
    let mut threads: Vec<_> = reading
        .threads
        .iter()
        .zip(&summary.threads)
        .map(|(thread, places)| {
            let mut places: Vec<_> =
                places.iter().map(|(place, totals)| (&**place, totals)).collect();
            places.sort_by_key(|(_, totals)| Reverse(weight(totals, sort)));
            (thread, places)
        })
        .collect();
    threads
        .sort_by_key(|(_, places)| Reverse(places.first().map(|(_, totals)| weight(totals, sort))));
    threads
}

/// What decides the order: a column, or who tried most in vain, then who waited longest.
fn weight(totals: &SiteTotals, sort: Sort) -> [u64; 3] {
    match sort {
        Sort::Lost => [totals.failed_count(), totals.wait_ns, totals.hold_ns],
        Sort::Column(_) => {
            let (first, second) = sort.weight(&numbers_of(totals, 0));
            [first, second, 0]
        }
    }
}

pub(super) fn text(names: &mut Names<'_>, summary: &Summary, form: Form) -> String {
    let threads = sorted(names.reading, summary, form.sort);
    let (mut lines, mut room) = (Vec::new(), PAGE_BYTES_MAX);
    for (thread, places) in threads.iter().filter(|(_, places)| !places.is_empty()) {
        lines.push(title(thread, form.is_running));
        let ways = ways::of(names, std::iter::once(*thread));
        let ways = ways::by_place(&ways);
        let parts = places.iter().take(form.lines_max).map(|(place, totals)| {
            let mut lines = vec![line(place, totals)];
            lines.extend(place.stack.iter().map(|frame| format!("\t\t{frame}")));
            lines.extend(ways::below(&ways, place));
            if form.with_bars {
                lines.extend(bars_of(totals, "\t"));
            }
            lines.join("\n")
        });
        let parts = fitting(&mut room, parts, String::len);
        let note = note(places.len(), parts.len(), "place");
        lines.extend(parts.into_iter().chain(note));
    }
    if lines.is_empty() {
        lines.extend(note(0, form.lines_max, "place"));
    }
    lines.join("\n")
}

fn title(thread: &ThreadRead, is_running: bool) -> String {
    let name = if thread.name.is_empty() { String::new() } else { format!(" {}", thread.name) };
    let before = match thread.owner_count {
        0 | 1 => String::new(),
        count => format!(", and {} before it that have gone", count - 1),
    };
    let life = if thread.is_taken && is_running { "" } else { " (has gone)" };
    format!("thread {}{name}{life}{before}", thread.tid)
}

fn line(place: &Place, totals: &SiteTotals) -> String {
    let lock = if place.lock.is_empty() { "[unknown]" } else { &place.lock };
    let us = |ns: u64| ns as f64 / NS_PER_US;
    let asleep = match totals.asleep_ns {
        0 => String::new(),
        ns => format!(" ::: asleep {:.2}us", us(ns)),
    };
    format!(
        "\t{lock} ::: wait time {:.2}us ::: hold time {:.2}us ::: enter count {} ::: try-lock \
         failure count {} ::: try-lock delay {:.2}us{asleep}",
        us(totals.wait_ns),
        us(totals.hold_ns),
        totals.count,
        totals.failed_count(),
        us(totals.try_delay_ns),
    )
}
