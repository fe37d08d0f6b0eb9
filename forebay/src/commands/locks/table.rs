//! The table of LOCK_PROFILING(9), and histograms.

use forebay_sync::profile::{BUCKET_COUNT, bucket_end_ns};

use super::columns::{COLUMNS, Sort, is_time, numbers, us};
use super::summary::{Happened, Place, Summary};
use crate::bars::{Paint, Style};

/// Cells of a number; one more between two.
const CELLS: usize = 11;

/// The longest bar.
const BAR_CELLS: u64 = 40;

/// Places and their numbers, the first by some order first.
pub(super) fn sorted(summary: &Summary, sort: Sort) -> Vec<(&Place, &Happened)> {
    let mut places: Vec<_> =
        summary.places.iter().map(|(place, happened)| (&**place, happened)).collect();
    places.sort_by_key(|(_, happened)| std::cmp::Reverse(sort.weight(&numbers(happened))));
    places
}

pub(super) fn text(summary: &Summary, sort: Sort, lines_max: usize) -> String {
    let mut lines = vec![columns()];
    let places = sorted(summary, sort);
    lines.extend(places.iter().take(lines_max).map(|(place, happened)| {
        let cell = |(column, number): (usize, u64)| match is_time(column) {
            true => us(number),
            false => number.to_string(),
        };
        line(numbers(happened).into_iter().enumerate().map(cell), &place.name())
    }));
    lines.extend(note(places.len(), lines_max));
    lines.join("\n")
}

/// The names of the columns, as the first line of a table.
pub(super) fn columns() -> String {
    line(COLUMNS.iter().map(ToString::to_string), "name")
}

/// A line of a table.
pub(super) fn line(cells: impl Iterator<Item = String>, name: &str) -> String {
    let mut line: String = cells.map(|cell| format!("{cell:>CELLS$} ")).collect();
    line += name;
    line
}

/// Says what a table leaves out.
pub(super) fn note(count: usize, lines_max: usize) -> Option<String> {
    match count.saturating_sub(lines_max) {
        _ if count == 0 => Some("nothing has been recorded".to_owned()),
        0 => None,
        hidden => Some(format!("{hidden} more places not shown")),
    }
}

pub(super) fn histograms(summary: &Summary, sort: Sort, lines_max: usize) -> String {
    let style = Style::of_output();
    let places = sorted(summary, sort);
    let mut lines = Vec::new();
    for (place, happened) in places.iter().take(lines_max) {
        lines.push(place.name());
        let totals = &happened.totals;
        for (what, buckets) in [("hold time", &totals.holds), ("wait time", &totals.waits)] {
            if buckets.iter().any(|count| *count > 0) {
                lines.push(format!("  {what}"));
                lines.extend(bars(buckets, style));
            }
        }
    }
    lines.extend(note(places.len(), lines_max));
    lines.join("\n")
}

/// From the first bucket with anything in it to the last.
fn bars(buckets: &[u64; BUCKET_COUNT], style: Style) -> impl Iterator<Item = String> {
    let largest = buckets.iter().copied().max().unwrap_or(0);
    let first = buckets.iter().position(|count| *count > 0).unwrap_or(0);
    let last = buckets.iter().rposition(|count| *count > 0).unwrap_or(0);
    buckets.iter().enumerate().skip(first).take(last + 1 - first).map(move |(bucket, count)| {
        let label =
            bucket_end_ns(bucket).map_or("longer".to_owned(), |end| format!("< {}", time(end)));
        let bar = style.bar(*count, largest, BAR_CELLS);
        let cells = BAR_CELLS as usize;
        let bar = style.paint(Paint::Bar, &format!("{bar:<cells$}"));
        format!("    {label:>10} {bar} {count:>12}")
    })
}

/// A power of two in the largest unit that leaves a number.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
