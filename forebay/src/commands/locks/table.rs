//! Formats the table of call sites, with the columns of LOCK_PROFILING(9), and histograms.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sync::profile::{BUCKET_COUNT, SiteTotals, bucket_end_ns};

use super::abbreviate::abbreviate;
use super::columns::{COLUMNS, SortOrder, is_time, numbers, shown, us};
use super::counted;
use super::summary::{LockSite, SiteSummary, Summary};
use crate::bars::{BarStyle, Highlight};

/// Approximate number of bytes that are printed of a table. Further lines are only counted, because
/// a profile may have millions of rows with the longest names.
pub(super) const PAGE_BYTES_MAX: usize = 64 << 20;

/// Length of the longest bar in characters.
const BAR_CELLS: u64 = 40;

/// Returns the call sites with their numbers, in the given order.
pub(super) fn sorted(summary: &Summary, sort: SortOrder) -> Vec<(&LockSite, &SiteSummary)> {
    let mut sites: Vec<_> =
        summary.sites.iter().map(|(site, site_summary)| (&**site, site_summary)).collect();
    sites.sort_by_key(|(_, site_summary)| std::cmp::Reverse(sort.weight(&numbers(site_summary))));
    sites
}

pub(super) fn text(summary: &Summary, sort: SortOrder, lines_max: usize) -> String {
    text_within(PAGE_BYTES_MAX, summary, sort, lines_max)
}

fn text_within(mut room: usize, summary: &Summary, sort: SortOrder, lines_max: usize) -> String {
    let sites = sorted(summary, sort);
    let name = names_of(sites.iter().map(|(site, _)| *site));
    let numbers: Vec<_> = sites.iter().map(|(_, site_summary)| numbers(site_summary)).collect();
    let columns = shown(numbers.iter());
    let rows = numbers.iter().zip(&sites).take(lines_max).map(|(numbers, (site, _))| {
        let cell = |(column, number): (usize, &u64)| match is_time(column) {
            true => us(*number),
            false => number.to_string(),
        };
        TableRow::new(numbers.iter().enumerate().map(cell), name(site))
    });
    let rows = fitting(&mut room, rows, TableRow::byte_count);
    let shown_count = rows.len();
    let mut lines = grid(COLUMNS.get(..columns).unwrap_or(&COLUMNS), "name", rows);
    lines.extend(note(sites.len(), shown_count, "call site"));
    lines.join("\n")
}

/// Returns a function that names call sites, with their callers where the short name is ambiguous.
/// `sites` may contain duplicates. Each name is made on demand, because all names together may not
/// fit into memory.
pub(super) fn names_of<'a>(
    sites: impl Iterator<Item = &'a LockSite>,
) -> impl Fn(&LockSite) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for site in sites.collect::<BTreeSet<_>>() {
        *counts.entry(site.name()).or_default() += 1;
    }
    move |site| match counts.get(&site.name()) {
        Some(2..) => abbreviate(&site.full_name()),
        _ => abbreviate(&site.name()),
    }
}

/// A line of a table: numbers and a name.
pub(super) struct TableRow {
    cells: Vec<String>,
    name: String,
}

impl TableRow {
    pub(super) fn new(cells: impl Iterator<Item = String>, name: String) -> TableRow {
        TableRow { cells: cells.collect(), name }
    }

    /// Returns the approximate length of the row's line in bytes.
    pub(super) fn byte_count(&self) -> usize {
        self.name.len() + self.cells.iter().map(|cell| cell.len() + 1).sum::<usize>()
    }
}

/// Aligns rows below a line of headings. Cells without a heading are omitted.
pub(super) fn grid(headings: &[&str], last: &str, rows: Vec<TableRow>) -> Vec<String> {
    let heading = TableRow::new(headings.iter().map(ToString::to_string), last.to_owned());
    let rows: Vec<_> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..headings.len()).map(width).collect();
    rows.iter().map(|row| line(&widths, row)).collect()
}

fn line(widths: &[usize], row: &TableRow) -> String {
    let cells = row.cells.iter().zip(widths);
    let mut line: String = cells.map(|(cell, width)| format!("{cell:>width$} ")).collect();
    line += &row.name;
    line
}

/// Returns the first entries, until `room` bytes are used up. Subtracts their sizes from `room`.
pub(super) fn fitting<T>(
    room: &mut usize,
    all: impl Iterator<Item = T>,
    byte_count: impl Fn(&T) -> usize,
) -> Vec<T> {
    let fits = |one: &T| {
        let had_any = *room > 0;
        *room = room.saturating_sub(byte_count(one));
        had_any
    };
    all.take_while(fits).collect()
}

/// Returns a note about the number of entries that a table omits; `None` if it omits none.
pub(super) fn note(count: usize, lines_max: usize, one: &str) -> Option<String> {
    match count.saturating_sub(lines_max) {
        _ if count == 0 => Some("nothing has been recorded".to_owned()),
        0 => None,
        hidden => {
            let hidden = counted(hidden, &format!("more {one}"), &format!("more {one}s"));
            Some(format!("{hidden} not shown"))
        }
    }
}

pub(super) fn histograms(summary: &Summary, sort: SortOrder, lines_max: usize) -> String {
    let sites = sorted(summary, sort);
    let parts = sites.iter().take(lines_max).map(|(site, site_summary)| {
        let name = std::iter::once(site.full_name());
        name.chain(bars_of(&site_summary.totals, "  ")).collect::<Vec<_>>().join("\n")
    });
    let mut lines = fitting(&mut { PAGE_BYTES_MAX }, parts, String::len);
    lines.extend(note(sites.len(), lines.len(), "call site"));
    lines.join("\n")
}

/// Returns the histograms of waits and holds that are not empty, as lines.
pub(super) fn bars_of(totals: &SiteTotals, indent: &str) -> Vec<String> {
    let style = BarStyle::of_output();
    let mut lines = Vec::new();
    for (what, buckets) in [("wait time", &totals.waits), ("hold time", &totals.holds)] {
        if buckets.iter().any(|count| *count > 0) {
            lines.push(format!("{indent}{what} (us)"));
            lines.extend(bars(buckets, style).map(|bar| format!("{indent}  {bar}")));
        }
    }
    lines
}

/// Returns the bars from the first to the last bucket that is not empty.
fn bars(buckets: &[u64; BUCKET_COUNT], style: BarStyle) -> impl Iterator<Item = String> {
    let largest = buckets.iter().copied().max().unwrap_or(0);
    let first = buckets.iter().position(|count| *count > 0).unwrap_or(0);
    let last = buckets.iter().rposition(|count| *count > 0).unwrap_or(0);
    buckets.iter().enumerate().skip(first).take(last + 1 - first).map(move |(bucket, count)| {
        let label =
            bucket_end_ns(bucket).map_or("longer".to_owned(), |end| format!("< {}", us(end)));
        let bar = style.bar(*count, largest, BAR_CELLS);
        let cells = BAR_CELLS as usize;
        let bar = style.paint(Highlight::Bar, &format!("{bar:<cells$}"));
        format!("{label:>12} {bar} {count:>10}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(asleep_ns: u64) -> Summary {
        let site = LockSite { lock: "mutex".to_owned(), stack: vec!["f x.c:1".into()] };
        let totals =
            SiteTotals { count: 7, hold_ns: 1_234_567, asleep_ns, ..SiteTotals::default() };
        let site_summary = SiteSummary { totals, wanted_count: 0 };
        Summary { sites: [(site.into(), site_summary)].into(), ..Summary::default() }
    }

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell() {
        let text = text(&summary(0), SortOrder::Lost, usize::MAX);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "max wait_max total wait_total count avg wait_avg cnt_hold cnt_lock try_failed \
                 try_delay name",
                "  0        0  1235          0     7 176        0        0        0          0 \
                 \x20       0 f x.c:1 (mutex)",
            ]
        );
    }

    #[test]
    fn time_asleep_is_a_column_if_it_is_not_zero() {
        let column = |asleep_ns| text(&summary(asleep_ns), SortOrder::Lost, usize::MAX);
        assert!(!column(0).contains("asleep"), "{}", column(0));
        let text = column(5_000_000);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((lines[0][11], lines[1][11]), ("asleep", "5000"), "{text}");
    }

    #[test]
    fn call_sites_of_one_name_are_shown_with_their_callers() {
        let site = |stack: &[&str]| LockSite {
            lock: "mutex".to_owned(),
            stack: stack.iter().map(|frame| (*frame).into()).collect(),
        };
        let sites = [site(&["f", "a"]), site(&["f", "b"]), site(&["g", "c"])];
        let name = names_of(sites.iter().chain(&sites));
        assert_eq!(sites.each_ref().map(name), ["f (mutex) < a", "f (mutex) < b", "g (mutex)"]);
    }

    #[test]
    fn entries_without_room_are_left_out() {
        let mut room = 10;
        let take = |room: &mut usize| fitting(room, ["aaaa"; 5].into_iter(), |text| text.len());
        assert_eq!(take(&mut room).len(), 3);
        assert_eq!(take(&mut room).len(), 0);
        let shown = |count: usize| {
            let site = |at: usize| {
                let stack = vec![format!("{at} {}", "x".repeat(100)).into()];
                (LockSite { lock: String::new(), stack }.into(), SiteSummary::default())
            };
            let sites = (0..count).map(site).collect();
            let summary = Summary { sites, ..Summary::default() };
            text_within(8 * 100, &summary, SortOrder::Lost, usize::MAX)
        };
        let most = shown(20);
        assert!(most.ends_with(" more call sites not shown"), "{most}");
        assert!(!shown(3).contains("not shown"));
    }

    #[test]
    fn omitted_entries_are_counted() {
        let said = |count| note(count, 2, "call site");
        assert_eq!(said(0).as_deref(), Some("nothing has been recorded"));
        assert_eq!(said(2), None);
        assert_eq!(said(3).as_deref(), Some("1 more call site not shown"));
        assert_eq!(said(4).as_deref(), Some("2 more call sites not shown"));
    }

    #[test]
    fn bars_are_microseconds_and_waits_come_first() {
        let mut totals = SiteTotals::default();
        (totals.holds[0], totals.waits[6], totals.waits[7]) = (3, 1, 2);
        let lines = bars_of(&totals, "\t");
        let first: Vec<_> = lines.iter().map(|line| line.split('#').next()).collect();
        assert_eq!(lines[0], "\twait time (us)");
        assert!(first[1].is_some_and(|label| label.ends_with("< 2.05 ")), "{lines:?}");
        assert!(lines[3] == "\thold time (us)" && lines[4].contains("< 0.03 "), "{lines:?}");
        assert_eq!(lines.len(), 5, "{lines:?}");
    }
}
