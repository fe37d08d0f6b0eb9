//! Who held a lock while whom it kept waiting.

use std::cmp::Reverse;

use forebay_sync::profile::PairTotals;

use super::columns::us;
use super::summary::{Pair, Summary};
use super::table::{PAGE_BYTES_MAX, Row, fitting, grid, note};

pub(super) const COLUMNS: [&str; 6] =
    ["waits", "wait_total", "wait_max", "wait_avg", "try_failed", "try_delay"];

/// Pairs, the most costly first.
pub(super) fn sorted(summary: &Summary) -> Vec<(&Pair, &PairTotals)> {
    let mut pairs: Vec<_> = summary.pairs.iter().collect();
    pairs.sort_by_key(|(_, totals)| Reverse(weight(totals)));
    pairs
}

pub(super) fn text(summary: &Summary, lines_max: usize) -> String {
    let pairs = sorted(summary);
    let rows = pairs.iter().take(lines_max).map(|(pair, totals)| {
        let names = format!("{} -> {}", pair.holder.short_name(), pair.waiter.short_name());
        Row::new(cells(totals).into_iter(), names)
    });
    let rows = fitting(&mut { PAGE_BYTES_MAX }, rows, Row::byte_count);
    let shown_count = rows.len();
    let mut lines = grid(&COLUMNS, "holder -> waiter", rows);
    match pairs.is_empty() {
        true => lines.push("nobody was in anybody's way".to_owned()),
        false => lines.extend(note(pairs.len(), shown_count, "pairs")),
    }
    lines.join("\n")
}

/// What decides the order: the time that was lost, then how often.
pub(super) fn weight(totals: &PairTotals) -> (u64, u64) {
    let lost = totals.wait_ns.saturating_add(totals.try_delay_ns);
    (lost, totals.wait_count.saturating_add(totals.try_failed_count))
}

/// The numbers below [`COLUMNS`].
pub(super) fn cells(totals: &PairTotals) -> [String; COLUMNS.len()] {
    [
        totals.wait_count.to_string(),
        us(totals.wait_ns),
        us(totals.wait_ns_max),
        us(totals.wait_ns.checked_div(totals.wait_count).unwrap_or(0)),
        totals.try_failed_count.to_string(),
        us(totals.try_delay_ns),
    ]
}
