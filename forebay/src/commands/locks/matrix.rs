//! The matrix: pairs of call sites. In each pair, one call site held a lock while the other waited
//! for it.

use std::cmp::Reverse;

use forebay_sync::profile::PairTotals;

use super::columns::us;
use super::summary::{LockPair, Summary};
use super::table::{PAGE_BYTES_MAX, TableRow, fitting, grid, names_of, note};

pub(super) const COLUMNS: [&str; 6] =
    ["waits", "wait_total", "wait_max", "wait_avg", "try_failed", "try_delay"];

/// Returns the pairs, the most costly first.
pub(super) fn sorted(summary: &Summary) -> Vec<(&LockPair, &PairTotals)> {
    let mut pairs: Vec<_> = summary.pairs.iter().collect();
    pairs.sort_by_key(|(_, totals)| Reverse(weight(totals)));
    pairs
}

pub(super) fn text(summary: &Summary, lines_max: usize) -> String {
    let pairs = sorted(summary);
    let name = names_of(pairs.iter().flat_map(|(pair, _)| [&*pair.holder, &*pair.waiter]));
    let rows = pairs.iter().take(lines_max).map(|(pair, totals)| {
        let names = format!("{} -> {}", name(&pair.holder), name(&pair.waiter));
        TableRow::new(cells(totals).into_iter(), names)
    });
    let rows = fitting(&mut { PAGE_BYTES_MAX }, rows, TableRow::byte_count);
    let shown_count = rows.len();
    let mut lines = grid(&COLUMNS, "holder -> waiter", rows);
    match pairs.is_empty() {
        true => lines.push("no thread had to wait for another".to_owned()),
        false => lines.extend(note(pairs.len(), shown_count, "pair")),
    }
    lines.join("\n")
}

/// Returns the sort key: the lost time, then the number of waits and failed try-locks.
pub(super) fn weight(totals: &PairTotals) -> (u64, u64) {
    (totals.lost_ns(), totals.count())
}

/// Returns the cells of a row, in the order of [`COLUMNS`].
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

#[cfg(test)]
mod tests {
    use super::super::summary::LockSite;
    use super::*;

    #[test]
    fn call_sites_that_differ_only_in_callers_are_shown_with_them() {
        let site = |stack: &[&str]| LockSite {
            lock: "mutex".to_owned(),
            stack: stack.iter().map(|frame| (*frame).into()).collect(),
        };
        let fill = site(&["fill x.cc:3", "main x.cc:9"]);
        let get = |caller: &str| site(&["get x.cc:8", caller]);
        let pair = |holder: &LockSite, waiter: LockSite, wait_ns| {
            let totals = PairTotals { wait_ns, wait_count: 1, ..PairTotals::default() };
            (LockPair { holder: holder.clone().into(), waiter: waiter.into() }, totals)
        };
        let pairs = [
            pair(&fill, get("handler_a x.cc:20"), 2000),
            pair(&fill, get("handler_b x.cc:30"), 1000),
        ];
        let text = text(&Summary { pairs: pairs.into(), ..Summary::default() }, usize::MAX);
        let lines: Vec<_> = text.lines().skip(1).collect();
        for (line, caller) in lines.iter().zip(["handler_a x.cc:20", "handler_b x.cc:30"]) {
            let name = format!(" fill x.cc:3 (mutex) -> get x.cc:8 (mutex) < {caller}");
            assert!(line.ends_with(&name), "{text}");
        }
        assert_eq!(lines.len(), 2, "{text}");
    }
}
