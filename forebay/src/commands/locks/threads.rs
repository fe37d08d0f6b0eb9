//! Prints the numbers of each thread, in the form of try-lock statistics.

use std::cmp::Reverse;

use forebay_sync::profile::{ProfileSnapshot, SiteTotals, ThreadRead};

use super::call_stacks;
use super::columns::{SortOrder, numbers_of};
use super::names::SiteNames;
use super::summary::{LockSite, Summary};
use super::table::{PAGE_BYTES_MAX, bars_of, fitting, note};

const NS_PER_US: f64 = 1e3;

/// The options for printing threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadOptions {
    /// The order of call sites.
    pub(super) sort: SortOrder,
    /// Largest number of call sites of each thread.
    pub(super) lines_max: usize,
    /// Whether histograms follow each call site.
    pub(super) with_bars: bool,
    /// Whether the process is running.
    pub(super) is_running: bool,
}

/// A thread and the numbers of its call sites.
type OfThread<'a> = (&'a ThreadRead, Vec<(&'a LockSite, &'a SiteTotals)>);

/// Returns the threads with their call sites, in the given order.
pub(super) fn sorted<'a>(
    reading: &'a ProfileSnapshot,
    summary: &'a Summary,
    sort: SortOrder,
) -> Vec<OfThread<'a>> {
    let mut threads: Vec<_> = reading
        .threads
        .iter()
        .zip(&summary.threads)
        .map(|(thread, sites)| {
            let mut sites: Vec<_> = sites.iter().map(|(site, totals)| (&**site, totals)).collect();
            sites.sort_by_key(|(_, totals)| Reverse(weight(totals, sort)));
            (thread, sites)
        })
        .collect();
    threads
        .sort_by_key(|(_, sites)| Reverse(sites.first().map(|(_, totals)| weight(totals, sort))));
    threads
}

/// Returns the sort key: a column, or else the number of failed try-locks, then the wait time.
fn weight(totals: &SiteTotals, sort: SortOrder) -> [u64; 3] {
    match sort {
        SortOrder::Lost => [totals.failed_count(), totals.wait_ns, totals.hold_ns],
        SortOrder::Column(_) => {
            let (first, second) = sort.weight(&numbers_of(totals, 0));
            [first, second, 0]
        }
    }
}

pub(super) fn text(names: &mut SiteNames<'_>, summary: &Summary, form: ThreadOptions) -> String {
    let threads = sorted(names.reading, summary, form.sort);
    let (mut lines, mut room) = (Vec::new(), PAGE_BYTES_MAX);
    for (thread, sites) in threads.iter().filter(|(_, sites)| !sites.is_empty()) {
        lines.push(title(thread, form.is_running));
        let samples = call_stacks::of(names, std::iter::once(*thread));
        let samples = call_stacks::by_site(&samples);
        let parts = sites.iter().take(form.lines_max).map(|(site, totals)| {
            let mut lines = vec![line(site, totals)];
            lines.extend(site.stack.iter().map(|frame| format!("\t\t{frame}")));
            lines.extend(call_stacks::below(&samples, site));
            if form.with_bars {
                lines.extend(bars_of(totals, "\t"));
            }
            lines.join("\n")
        });
        let parts = fitting(&mut room, parts, String::len);
        let note = note(sites.len(), parts.len(), "call site");
        lines.extend(parts.into_iter().chain(note));
    }
    if lines.is_empty() {
        lines.extend(note(0, form.lines_max, "call site"));
    }
    lines.join("\n")
}

fn title(thread: &ThreadRead, is_running: bool) -> String {
    let name = if thread.name.is_empty() { String::new() } else { format!(" {}", thread.name) };
    let before = match thread.owner_count {
        0 | 1 => String::new(),
        count => format!(", and {} earlier threads that have exited", count - 1),
    };
    let life = if thread.is_taken && is_running { "" } else { " (exited)" };
    format!("thread {}{name}{life}{before}", thread.tid)
}

fn line(site: &LockSite, totals: &SiteTotals) -> String {
    let lock = if site.lock.is_empty() { "[unknown]" } else { &site.lock };
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
