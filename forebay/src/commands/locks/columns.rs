//! The columns of the table of call sites.

use forebay_sync::profile::SiteTotals;

use super::summary::SiteSummary;

/// Names of the columns, in the order of the table. A report can be sorted by each of them.
pub(crate) const COLUMNS: [&str; 12] = [
    "max",
    "wait_max",
    "total",
    "wait_total",
    "count",
    "avg",
    "wait_avg",
    "cnt_hold",
    "cnt_lock",
    "try_failed",
    "try_delay",
    "asleep",
];

// Indexes of some columns.
const TOTAL: usize = 2;
const WAIT_TOTAL: usize = 3;
pub(super) const CNT_HOLD: usize = 7;
const TRY_DELAY: usize = 10;

/// The column that a table omits if all its values are 0. In the profile of a server they are 0,
/// because its locks have no condition variables.
const ASLEEP: usize = COLUMNS.len() - 1;

/// Returns the numbers of a call site in the order of [`COLUMNS`], with times in nanoseconds.
pub(super) fn numbers(site_summary: &SiteSummary) -> [u64; COLUMNS.len()] {
    numbers_of(&site_summary.totals, site_summary.wanted_count)
}

/// Does the same as [`numbers`] for totals, such as the totals of one thread. `wanted_count` is
/// passed separately, because it is known only for all threads together.
pub(super) fn numbers_of(totals: &SiteTotals, wanted_count: u64) -> [u64; COLUMNS.len()] {
    let of_each = |ns: u64| ns.checked_div(totals.count).unwrap_or(0);
    [
        totals.hold_ns_max,
        totals.wait_ns_max,
        totals.hold_ns,
        totals.wait_ns,
        totals.count,
        of_each(totals.hold_ns),
        of_each(totals.wait_ns),
        wanted_count,
        totals.contended_count,
        totals.failed_count(),
        totals.try_delay_ns,
        totals.asleep_ns,
    ]
}

/// Returns the number of columns of a table with these rows.
pub(super) fn shown<'a>(mut rows: impl Iterator<Item = &'a [u64; COLUMNS.len()]>) -> usize {
    match rows.any(|numbers| numbers[ASLEEP] != 0) {
        true => COLUMNS.len(),
        false => ASLEEP,
    }
}

/// Whether the column is a time.
pub(super) fn is_time(column: usize) -> bool {
    !matches!(COLUMNS.get(column), Some(&("count" | "cnt_hold" | "cnt_lock" | "try_failed")))
}

/// The order of call sites in a report: by a column, or by the time lost to waits and failed
/// try-locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortOrder {
    Lost,
    Column(usize),
}

impl SortOrder {
    pub(super) fn named(name: Option<&String>) -> SortOrder {
        let column = name.and_then(|name| COLUMNS.iter().position(|column| column == name));
        column.map_or(SortOrder::Lost, SortOrder::Column)
    }

    /// Returns the sort key. The largest key comes first, and hold time decides between equal
    /// values.
    pub(super) fn weight(self, numbers: &[u64]) -> (u64, u64) {
        let at = |column: usize| numbers.get(column).copied().unwrap_or(0);
        match self {
            SortOrder::Column(column) => (at(column), at(TOTAL)),
            SortOrder::Lost => (at(WAIT_TOTAL).saturating_add(at(TRY_DELAY)), at(TOTAL)),
        }
    }
}

/// Returns a time as text in microseconds, with about three significant digits.
pub(super) fn us(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..10_000 => format!("{:.2}", ns as f64 / 1000.0),
        10_000..100_000 => format!("{:.1}", ns as f64 / 1000.0),
        _ => format!("{:.0}", ns as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_that_of_its_column() {
        for (at, name) in [
            (TOTAL, "total"),
            (WAIT_TOTAL, "wait_total"),
            (CNT_HOLD, "cnt_hold"),
            (TRY_DELAY, "try_delay"),
            (ASLEEP, "asleep"),
        ] {
            assert_eq!(COLUMNS[at], name);
        }
    }
}
