//! How threads had come to the places where they lost time, of the times that were sampled.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{PairTotals, ProfileHeader, SiteKind, StackPlan, ThreadRead};

use super::matrix::{self, cells};
use super::names::{Frames, Names};
use super::summary::{Pair, Place};
use super::table::{PAGE_BYTES_MAX, Row, fitting, grid, names_of, note};

/// Functions that called one another, the innermost first.
pub(super) type Way = Frames;

/// Who held while whom waited, by the way that the waiter had come.
pub(super) type Ways = BTreeMap<Pair, BTreeMap<Way, PairTotals>>;

/// Code between a lock and who wants it, by its files; or by its functions, if their files are not
/// known.
const LOCKS: [&str; 7] = [
    "sync/src/lock/",
    "sync/src/profile/",
    "shm/src/robust_lock/",
    "lock_api-",
    "forebay_sync::lock::",
    "forebay_sync::profile::",
    "forebay_shm::robust_lock::",
];

/// Code that calls ours, of which there is much in each stack: Rust's library and the event loop.
const LIBRARIES: [&str; 4] = ["core/src/", "std/src/", "alloc/src/", "tokio-"];

/// Where a thread's own work begins.
const BEGINNING: &str = "with_known_stack";

/// The samples of some threads.
pub(super) fn of<'a>(
    names: &mut Names<'_>,
    threads: impl IntoIterator<Item = &'a ThreadRead>,
) -> Ways {
    let mut ways = Ways::new();
    for sample in threads.into_iter().flat_map(|thread| &thread.samples) {
        let (holder, waiter) = (names.holder(sample.holder), names.place(sample.waiter));
        // A stack is one of one place.
        let way = names.way(sample.stack, without_types, |names| {
            from_place(&waiter, without_libraries(without_locks(names)))
        });
        let by_way = ways.entry(Pair { holder, waiter }).or_default();
        by_way.entry(way).or_default().add(&sample.totals);
    }
    ways
}

/// Leaves out the lock and the profiler, and what every thread begins with.
fn without_locks(mut names: Vec<Rc<str>>) -> Vec<Rc<str>> {
    if let Some(end) = names.iter().position(|name| name.contains(BEGINNING)) {
        names.truncate(end);
    }
    let is_of_lock = |name: &Rc<str>| {
        let function = name.trim_start_matches(['<', '&']);
        LOCKS.iter().any(|part| function.starts_with(part) || file_of(name).starts_with(part))
    };
    let begin = names.iter().rposition(is_of_lock).map_or(0, |last| last + 1);
    names.split_off(begin)
}

/// Leaves out what does nothing but call, unless there is nothing else.
fn without_libraries(names: Vec<Rc<str>>) -> Vec<Rc<str>> {
    let is_ours = |name: &&Rc<str>| !LIBRARIES.iter().any(|part| file_of(name).starts_with(part));
    let ours: Vec<_> = names.iter().filter(is_ours).cloned().collect();
    if ours.is_empty() { names } else { ours }
}

/// Leaves out the types that a function was made for, which make names long: what stands between
/// angles, but for the first word.
fn without_types(name: &str) -> String {
    let (mut depth, mut before) = (0_usize, ' ');
    let mut short = String::new();
    for (at, c) in name.char_indices() {
        let is_arrow = c == '>' && before == '-';
        match c {
            '<' if at > 0 => depth += 1,
            '>' if depth > 0 && !is_arrow => depth -= 1,
            c if depth == 0 => short.push(c),
            _ => {}
        }
        before = c;
    }
    short.replace("::::", "::").replace(":: ", " ")
}

/// The file and line at the end of a name, if it has them.
fn file_of(name: &str) -> &str {
    name.rsplit(' ').next().unwrap_or_default()
}

/// Ways to each place, whoever held the lock, the most costly first.
fn sorted(ways: &Ways) -> Vec<((&Place, &Way), PairTotals)> {
    let mut sums = BTreeMap::<_, PairTotals>::new();
    for (pair, by_way) in ways {
        for (way, totals) in by_way {
            sums.entry((&*pair.waiter, way)).or_default().add(totals);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, totals)| Reverse(matrix::weight(totals)));
    sums
}

/// Why there are none.
pub(super) fn nothing(about: &ProfileHeader, stack_sample: u64) -> &'static str {
    match about.kind {
        SiteKind::Stacks if about.plan.frames > 1 => {
            "callers are part of the places: see forebay locks report --threads"
        }
        SiteKind::Stacks => "recorded without callers: see forebay locks record --stacks",
        SiteKind::Places if about.plan.stacks == StackPlan::NONE => {
            "there is no room for stacks: see lock_profile_size in the settings"
        }
        SiteKind::Places if stack_sample == 0 => {
            "no stack was taken: see forebay locks on --stacks"
        }
        SiteKind::Places => "no wait or try in vain has been sampled yet",
    }
}

pub(super) fn text(ways: &Ways, lines_max: usize, nothing: &str) -> String {
    let sums = sorted(ways);
    let name = names_of(sums.iter().map(|((place, _), _)| *place));
    let row = |((place, way), totals): &((&Place, &Way), _)| {
        let callers: usize = way.iter().map(|frame| frame.len()).sum();
        (Row::new(cells(totals).into_iter(), name(place)), callers)
    };
    let rows = sums.iter().take(lines_max).map(row);
    let rows = fitting(&mut { PAGE_BYTES_MAX }, rows, |(row, callers)| row.byte_count() + callers);
    let shown_count = rows.len();
    let rows = rows.into_iter().map(|(row, _)| row).collect();
    let mut rows = grid(&matrix::COLUMNS, "name, callers", rows).into_iter();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, ((_, way), _)) in rows.zip(&sums) {
        lines.push(row);
        lines.extend(way.iter().map(|frame| format!("    {frame}")));
    }
    match sums.is_empty() {
        true => lines.push(nothing.to_owned()),
        false => lines.extend(note(sums.len(), shown_count, "stack")),
    }
    lines.join("\n")
}

/// Ways by where they led to, the most costly first.
pub(super) type ByPlace<'a> = BTreeMap<&'a Place, Vec<(&'a Way, PairTotals)>>;

pub(super) fn by_place(ways: &Ways) -> ByPlace<'_> {
    let mut by_place = ByPlace::new();
    for ((place, way), totals) in sorted(ways) {
        by_place.entry(place).or_default().push((way, totals));
    }
    by_place
}

/// The ways to a place, as lines below it.
pub(super) fn below(ways: &ByPlace<'_>, place: &Place) -> Vec<String> {
    let lines = ways.get(place).into_iter().flatten().flat_map(|(way, totals)| {
        let (count, lost_us) = (totals.count(), totals.lost_ns() as f64 / 1e3);
        let title = format!("\t\t{count} of those with a stack, lost {lost_us:.2}us:");
        std::iter::once(title).chain(way.iter().map(|frame| format!("\t\t\t{frame}")))
    });
    lines.collect()
}

/// Divides what a pair lost among the ways of its samples, in proportion to what these lost: the
/// parts add up to it. Nothing if there is no sample to go by.
pub(super) fn divided(all: u64, by_way: &BTreeMap<Way, PairTotals>) -> Vec<(&Way, u64)> {
    let whole: u128 = by_way.values().map(|totals| u128::from(totals.lost_ns())).sum();
    if whole == 0 {
        return Vec::new();
    }
    let (mut before, mut given) = (0_u128, 0_u64);
    let parts = by_way.iter().map(|(way, totals)| {
        before += u128::from(totals.lost_ns());
        let until_here = u64::try_from(u128::from(all) * before / whole).unwrap_or(all);
        let part = until_here - given;
        given = until_here;
        (way, part)
    });
    parts.filter(|(_, part)| *part > 0).collect()
}

/// Leaves out what the place calls until it comes to the lock.
fn from_place(place: &Place, mut way: Vec<Rc<str>>) -> Vec<Rc<str>> {
    let place = place.stack.first();
    let begin = way.iter().position(|name| place.is_some_and(|place| file_of(name) == &**place));
    way.split_off(begin.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(names: &[&str]) -> Vec<Rc<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn the_lock_and_the_beginning_of_a_thread_are_left_out() {
        let with_files = [
            "callers sync/src/profile/stack.rs:70",
            "with std/src/thread/local.rs:2",
            "lock sync/src/lock/mutex.rs:60",
            "find cache/src/find.rs:7",
            "run server/src/run.rs:9",
            "with_known_stack sync/src/profile/stack.rs:40",
            "start",
        ];
        let with_symbols = [
            "forebay_sync::profile::stack::callers+0x1 forebay",
            "<forebay_sync::lock::mutex::Mutex as core::x>::lock+0x2 forebay",
            "forebay_cache::find+0x3 forebay",
        ];
        for (names, expected) in [
            (&with_files[..], &with_files[3..5]),
            (&with_symbols, &with_symbols[2..]),
            (&with_files[3..5], &with_files[3..5]),
            (&with_files[..1], &[]),
            (&[], &[]),
        ] {
            assert_eq!(without_locks(lines(names)), lines(expected));
        }
    }

    #[test]
    fn what_only_calls_is_left_out_unless_it_is_all() {
        let names =
            ["find cache/src/find.rs:7", "call core/src/ops.rs:1", "poll tokio-1.5/src/x.rs:2"];
        assert_eq!(without_libraries(lines(&names)), lines(&names[..1]));
        assert_eq!(without_libraries(lines(&names[1..])), lines(&names[1..]));
    }

    #[test]
    fn types_are_left_out_of_names() {
        for (name, expected) in [
            ("poll<a::B<c>, fn() -> d> x.rs:7", "poll x.rs:7"),
            ("{closure#0}<T> x.rs:7", "{closure#0} x.rs:7"),
            ("a::b::<impl c::D>::e x.rs:7", "a::b::e x.rs:7"),
            ("a::b::<T> x.rs:7", "a::b x.rs:7"),
            ("<a::B<T> as c::D>::e x.rs:7", "<a::B as c::D>::e x.rs:7"),
            ("a > b", "a > b"),
            ("", ""),
        ] {
            assert_eq!(without_types(name), expected, "{name}");
        }
    }

    #[test]
    fn a_way_begins_at_its_place() {
        let place = |at: &str| Place { lock: "a".into(), stack: vec![at.into()] };
        let way = ["inner a/src/x.rs:1", "at a/src/y.rs:12", "at a/src/y.rs:2", "out b/src/y.rs:2"];
        for (at, expected) in [
            ("a/src/y.rs:2", &way[2..]),
            ("a/src/x.rs:1", &way),
            ("a/src/q.rs:1", &way),
            ("b/src/y.rs:2", &way[3..]),
        ] {
            assert_eq!(from_place(&place(at), lines(&way)), lines(expected), "{at}");
        }
    }

    #[test]
    fn places_that_only_their_callers_tell_apart_are_shown_with_them() {
        let place = |caller: &str| Place { lock: "a".into(), stack: lines(&["f x.c:1", caller]) };
        let ways = ["g x.c:2", "h x.c:3"].map(|caller| {
            let pair = Pair { holder: Place::default().into(), waiter: place(caller).into() };
            (pair, [(lines(&["f x.c:1"]).into(), PairTotals::default())].into())
        });
        let text = text(&ways.into(), usize::MAX, "none");
        for name in [" f x.c:1 (a) < g x.c:2\n", " f x.c:1 (a) < h x.c:3\n"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn what_a_pair_lost_is_divided_and_no_nanosecond_is_lost() {
        let totals = |wait_ns| PairTotals { wait_ns, ..PairTotals::default() };
        let by_way: BTreeMap<_, _> = [("a", 1), ("b", 2), ("c", 0)]
            .map(|(name, ns)| (Way::from([name.into()]), totals(ns)))
            .into();
        for (all, expected) in
            [(3, [1, 2]), (100, [33, 67]), (u64::MAX, [u64::MAX / 3, u64::MAX / 3 * 2])]
        {
            let parts: Vec<u64> = divided(all, &by_way).into_iter().map(|(_, part)| part).collect();
            assert_eq!(parts, expected, "{all}");
            assert_eq!(parts.iter().sum::<u64>(), all);
        }
        assert_eq!(divided(2, &by_way).len(), 1, "nothing is no part");
        let nothing = [(Way::from(["c".into()]), totals(0))].into();
        assert!(divided(5, &nothing).is_empty() && divided(5, &BTreeMap::new()).is_empty());
    }
}
