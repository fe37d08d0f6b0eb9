//! The columns of the table, by their names.

use forebay_sync::profile::SiteTotals;

use super::summary::SiteTotals;

/// What can be sorted by, in the order of the table.
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

// Where some of them are.
const TOTAL: usize = 2;
const WAIT_TOTAL: usize = 3;
pub(super) const CNT_HOLD: usize = 7;
const TRY_DELAY: usize = 10;

/// The column that a table goes without when nothing is in it: locks of a server go with no
/// conditions.
const ASLEEP: usize = COLUMNS.len() - 1;

/// The numbers of a site in the order of [`COLUMNS`]; times are nanoseconds.
pub(super) fn numbers(site_totals: &SiteTotals) -> [u64; COLUMNS.len()] {
    numbers_of(&site_totals.totals, site_totals.wanted_count)
}

/// The same of what one thread did, if it is known how often others wanted what it held.
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

/// The columns that a table has in which any site has such numbers.
pub(super) fn shown<'a>(mut rows: impl Iterator<Item = &'a [u64; COLUMNS.len()]>) -> usize {
    match rows.any(|numbers| numbers[ASLEEP] != 0) {
        true => COLUMNS.len(),
        false => ASLEEP,
    }
}

/// Is the column a time?
pub(super) fn is_time(column: usize) -> bool {
    !matches!(COLUMNS.get(column), Some(&("count" | "cnt_hold" | "cnt_lock" | "try_failed")))
}

/// What decides the order of sites: a column, or what was lost by waiting and trying.
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

    /// The larger, the earlier; what is equal so far is in the order of holds.
    pub(super) fn weight(self, numbers: &[u64]) -> (u64, u64) {
        let at = |column: usize| numbers.get(column).copied().unwrap_or(0);
        match self {
            SortOrder::Column(column) => (at(column), at(TOTAL)),
            SortOrder::Lost => (at(WAIT_TOTAL).saturating_add(at(TRY_DELAY)), at(TOTAL)),
        }
    }
}

/// Microseconds, with as many digits as one reads.
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
    fn columns_are_where_their_names_say() {
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
