//! What each thread did, in the form that try-lock statistics have.

use std::cmp::Reverse;

use forebay_sync::profile::{Reading, ThreadRead, Totals};

use super::columns::{Sort, numbers_of};
use super::summary::{Place, of_thread};
use super::table::{bars_of, note};
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

/// Threads and their places, those with the largest numbers first.
pub(super) fn sorted(reading: &Reading, sort: Sort) -> Vec<(&ThreadRead, Vec<(Place, Totals)>)> {
    let mut threads: Vec<_> = reading
        .threads
        .iter()
        .map(|thread| {
            let mut places: Vec<_> = of_thread(reading, thread).into_iter().collect();
            places.sort_by_key(|(_, totals)| Reverse(weight(totals, sort)));
            (thread, places)
        })
        .collect();
    threads
        .sort_by_key(|(_, places)| Reverse(places.first().map(|(_, totals)| weight(totals, sort))));
    threads
}

/// What decides the order: a column, or who tried most in vain, then who waited longest.
fn weight(totals: &Totals, sort: Sort) -> [u64; 3] {
    match sort {
        Sort::Lost => [totals.failed_count(), totals.wait_ns, totals.hold_ns],
        Sort::Column(_) => {
            let (first, second) = sort.weight(&numbers_of(totals, 0));
            [first, second, 0]
        }
    }
}

pub(super) fn text(reading: &Reading, form: Form) -> String {
    let threads = sorted(reading, form.sort);
    let mut lines = Vec::new();
    for (thread, places) in threads.iter().filter(|(_, places)| !places.is_empty()) {
        lines.push(title(thread, form.is_running));
        let ways = ways::of(reading, std::iter::once(*thread));
        for (place, totals) in places.iter().take(form.lines_max) {
            lines.push(line(place, totals));
            lines.extend(place.stack.iter().map(|frame| format!("\t\t{frame}")));
            lines.extend(ways::below(&ways, place));
            if form.with_bars {
                lines.extend(bars_of(totals, "\t"));
            }
        }
        lines.extend(note(places.len(), form.lines_max, "place"));
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

fn line(place: &Place, totals: &Totals) -> String {
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
