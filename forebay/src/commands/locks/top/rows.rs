//! Formats the changes between two snapshots as lines.

use std::cmp::Reverse;
use std::rc::Rc;

use super::{ProcessSnapshot, RunSnapshot};
use crate::commands::locks::abbreviate::truncate;
use crate::commands::locks::columns::us;
use crate::commands::locks::summary::{LockSite, SiteSummary, Summary};
use crate::commands::locks::table::{TableRow, grid, names_of};

const COLUMNS: [&str; 8] =
    ["process", "waiting", "holding", "delayed", "locks/s", "waits/s", "fails/s", "wait_avg"];

/// Smallest number of characters to which a name is cut. On narrower screens the line wraps
/// instead.
const NAME_CHARS_MIN: usize = 12;

struct SiteChange<'a> {
    pid: u32,
    site: &'a LockSite,
    numbers: [u64; 6],
}

/// Returns the line of headings alone.
pub(super) fn headings(now: &RunSnapshot) -> String {
    grid(columns(now), "name", Vec::new()).remove(0)
}

fn columns(now: &RunSnapshot) -> &'static [&'static str] {
    COLUMNS.get(usize::from(!now.is_of_several())..).unwrap_or(&COLUMNS)
}

/// Returns the headings, and a line for each call site with any activity since `before`. The call
/// sites with the longest waits come first. Names are cut so that lines have at most `width`
/// characters.
pub(super) fn rows(
    before: &[ProcessSnapshot],
    now: &RunSnapshot,
    seconds: f64,
    width: usize,
) -> (String, Vec<String>) {
    let mut changes: Vec<_> =
        now.processes.iter().flat_map(|process| changes(before, process)).collect();
    changes.sort_by_key(|change| {
        let [wait_ns, hold_ns, delay_ns, ..] = change.numbers;
        Reverse((wait_ns.saturating_add(delay_ns), hold_ns))
    });
    let is_of_several = now.is_of_several();
    let name = names_of(changes.iter().map(|change| change.site));
    let rows = changes.iter().map(|change| {
        let pid = is_of_several.then(|| change.pid.to_string());
        let cells = pid.into_iter().chain(cells(&change.numbers, seconds));
        TableRow::new(cells, name(change.site))
    });
    let mut lines = grid(columns(now), "name", rows.collect());
    let columns = lines.remove(0);
    for (line, change) in lines.iter_mut().zip(&changes) {
        *line = fitted(line, &name(change.site), width);
    }
    if lines.is_empty() {
        lines.push("no lock activity".to_owned());
    }
    (columns, lines)
}

/// Returns the line with its name cut so that the line fits into `width` characters.
fn fitted(line: &str, name: &str, width: usize) -> String {
    let numbers = line.strip_suffix(name).unwrap_or_default();
    let room = width.saturating_sub(numbers.chars().count());
    match room {
        0..NAME_CHARS_MIN => line.to_owned(),
        room => format!("{numbers}{}", truncate(name, room)),
    }
}

fn cells(numbers: &[u64; 6], seconds: f64) -> [String; 7] {
    let [wait_ns, hold_ns, delay_ns, count, contended, failed] = *numbers;
    let threads = |ns: u64| format!("{:.3}", ns as f64 / 1e9 / seconds);
    let rate = |count: u64| match count as f64 / seconds {
        rate if rate < 10_000.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    };
    [
        threads(wait_ns),
        threads(hold_ns),
        threads(delay_ns),
        rate(count),
        rate(contended),
        rate(failed),
        us(wait_ns.checked_div(contended).unwrap_or(0)),
    ]
}

/// Returns the changes since an earlier snapshot. All numbers of a process that is new or was reset
/// count as changes.
fn changes<'a>(
    before: &'a [ProcessSnapshot],
    now: &'a ProcessSnapshot,
) -> impl Iterator<Item = SiteChange<'a>> {
    let is_same = |before: &&ProcessSnapshot| {
        before.reading.about == now.reading.about
            && before.reading.control.generation == now.reading.control.generation
    };
    let before = before.iter().find(is_same).map(|before| &before.summary);
    let change = move |(site, site_summary): (&'a Rc<LockSite>, &SiteSummary)| {
        let numbers = change(before, site, site_summary);
        SiteChange { pid: now.reading.about.pid, site, numbers }
    };
    let changes = now.summary.sites.iter().map(change);
    changes.filter(|change| change.numbers.iter().any(|n| *n > 0))
}

fn change(before: Option<&Summary>, site: &LockSite, now: &SiteSummary) -> [u64; 6] {
    let before = before.and_then(|before| before.sites.get(site));
    let (before, now) = (before.copied().unwrap_or_default().totals, &now.totals);
    [
        now.wait_ns.saturating_sub(before.wait_ns),
        now.hold_ns.saturating_sub(before.hold_ns),
        now.try_delay_ns.saturating_sub(before.try_delay_ns),
        now.count.saturating_sub(before.count),
        now.contended_count.saturating_sub(before.contended_count),
        now.failed_count().saturating_sub(before.failed_count()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_screen_unless_its_name_would_vanish() {
        let numbers = "0.905 0.942 ";
        for (name, width, expected) in [
            ("f hot_lock.c:26 (mutex)", 40, "0.905 0.942 f hot_lock.c:26 (mutex)"),
            ("f hot_lock.c:26 (mutex)", 28, "0.905 0.942 f hot_lock.c:26"),
            ("cache/src/order/maps.rs:1 (map)", 29, "0.905 0.942 …/order/maps.rs:1"),
            ("f hot_lock.c:26 (mutex)", 20, "0.905 0.942 f hot_lock.c:26 (mutex)"),
        ] {
            assert_eq!(fitted(&format!("{numbers}{name}"), name, width), expected);
        }
    }
}
