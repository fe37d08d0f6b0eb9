//! What has changed between two looks, as lines.

use std::cmp::Reverse;
use std::rc::Rc;

use super::{Look, Process};
use crate::commands::locks::columns::us;
use crate::commands::locks::short::cut;
use crate::commands::locks::summary::{Happened, Place, Summary};
use crate::commands::locks::table::{Row, grid, names_of};

const COLUMNS: [&str; 8] =
    ["process", "waiting", "holding", "delayed", "locks/s", "waits/s", "fails/s", "wait_avg"];

/// Names are not cut to fewer characters: rather the line goes on in the next.
const NAME_CHARS_MIN: usize = 12;

struct Change<'a> {
    pid: u32,
    place: &'a Place,
    numbers: [u64; 6],
}

/// The line of headings alone.
pub(super) fn headings(now: &Look) -> String {
    grid(columns(now), "name", Vec::new()).remove(0)
}

fn columns(now: &Look) -> &'static [&'static str] {
    COLUMNS.get(usize::from(!now.is_of_several())..).unwrap_or(&COLUMNS)
}

/// Headings, and a line for each place at which anything happened meanwhile, the most waited for
/// first, none longer than so many characters.
pub(super) fn rows(
    before: &[Process],
    now: &Look,
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
    let name = names_of(changes.iter().map(|change| change.place));
    let rows = changes.iter().map(|change| {
        let pid = is_of_several.then(|| change.pid.to_string());
        let cells = pid.into_iter().chain(cells(&change.numbers, seconds));
        Row::new(cells, name(change.place))
    });
    let mut lines = grid(columns(now), "name", rows.collect());
    let columns = lines.remove(0);
    for (line, change) in lines.iter_mut().zip(&changes) {
        *line = fitted(line, &name(change.place), width);
    }
    if lines.is_empty() {
        lines.push("nothing happens at the locks".to_owned());
    }
    (columns, lines)
}

/// The line with its last word, the name, cut so that all of it fits.
fn fitted(line: &str, name: &str, width: usize) -> String {
    let numbers = line.strip_suffix(name).unwrap_or_default();
    let room = width.saturating_sub(numbers.chars().count());
    match room {
        0..NAME_CHARS_MIN => line.to_owned(),
        room => format!("{numbers}{}", cut(name, room)),
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

/// What a process did since a look at it. Whoever was not there then, or was reset since, has done
/// all that it has done meanwhile.
fn changes<'a>(before: &'a [Process], now: &'a Process) -> impl Iterator<Item = Change<'a>> {
    let is_same = |before: &&Process| {
        before.reading.about == now.reading.about
            && before.reading.control.generation == now.reading.control.generation
    };
    let before = before.iter().find(is_same).map(|before| &before.summary);
    let change = move |(place, happened): (&'a Rc<Place>, &Happened)| {
        let numbers = change(before, place, happened);
        Change { pid: now.reading.about.pid, place, numbers }
    };
    let changes = now.summary.places.iter().map(change);
    changes.filter(|change| change.numbers.iter().any(|n| *n > 0))
}

fn change(before: Option<&Summary>, place: &Place, now: &Happened) -> [u64; 6] {
    let before = before.and_then(|before| before.places.get(place));
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
    fn a_line_is_no_longer_than_the_screen_unless_nothing_of_its_name_were_left() {
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
