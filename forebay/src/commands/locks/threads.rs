//! What each thread did, in the form that try-lock statistics have.

use std::cmp::Reverse;

use forebay_sync::profile::{Reading, ThreadRead, Totals};

use super::summary::{Place, Summary};
use super::table::note;

const NS_PER_US: f64 = 1e3;

/// Threads and their locks, those first that tried most in vain, then those that waited longest.
pub(super) fn text(reading: &Reading, summary: &Summary, lines_max: usize) -> String {
    let weight = |totals: &Totals| (failed(totals), totals.wait_ns, totals.hold_ns);
    let mut threads: Vec<_> = reading
        .threads
        .iter()
        .zip(&summary.threads)
        .map(|(thread, places)| {
            let mut places: Vec<_> = places.iter().collect();
            places.sort_by_key(|(_, totals)| Reverse(weight(totals)));
            (thread, places)
        })
        .collect();
    threads.sort_by_key(|(_, places)| Reverse(places.first().map(|(_, totals)| weight(totals))));
    let mut lines = Vec::new();
    for (thread, places) in threads.iter().filter(|(_, places)| !places.is_empty()) {
        lines.push(title(thread));
        for (place, totals) in places.iter().take(lines_max) {
            lines.push(line(place, totals));
            lines.extend(place.stack.iter().map(|frame| format!("\t\t{frame}")));
        }
        lines.extend(note(places.len(), lines_max));
    }
    if lines.is_empty() {
        lines.extend(note(0, lines_max));
    }
    lines.join("\n")
}

fn title(thread: &ThreadRead) -> String {
    let name = if thread.name.is_empty() { String::new() } else { format!(" {}", thread.name) };
    let before = match thread.owner_count {
        0 | 1 => String::new(),
        count => format!(", and {} before it that have gone", count - 1),
    };
    let life = if thread.is_taken { "" } else { " (has gone)" };
    format!("thread {}{name}{life}{before}", thread.tid)
}

fn line(place: &Place, totals: &Totals) -> String {
    let lock = if place.lock.is_empty() { "[unknown]" } else { &place.lock };
    format!(
        "\t{lock} ::: wait time {:.2}us ::: hold time {:.2}us ::: enter count {} ::: try-lock \
         failure count {} ::: try-lock delay {:.2}us",
        totals.wait_ns as f64 / NS_PER_US,
        totals.hold_ns as f64 / NS_PER_US,
        totals.count,
        failed(totals),
        totals.try_delay_ns as f64 / NS_PER_US,
    )
}

fn failed(totals: &Totals) -> u64 {
    totals.try_failed_count.saturating_add(totals.timed_out_count)
}
