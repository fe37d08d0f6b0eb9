//! Sampled call stacks, which show how threads reached the call sites at which they lost time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{PairTotals, ProfileHeader, SiteKind, StackPlan, ThreadRead};

use super::matrix::{self, cells};
use super::names::{Frames, SiteNames};
use super::summary::{LockPair, LockSite};
use super::table::{PAGE_BYTES_MAX, TableRow, fitting, grid, names_of, note};

/// The functions of a call stack, the innermost first.
pub(super) type CallStack = Frames;

/// The time that waiters lost to holders, by the pair of call sites and the waiter's call stack.
pub(super) type SampledStacks = BTreeMap<LockPair, BTreeMap<CallStack, PairTotals>>;

/// Prefixes that identify frames between a lock and the code that takes it: prefixes of the frame's
/// file or, where the file is unknown, of its function.
const LOCKS: [&str; 7] = [
    "sync/src/lock/",
    "sync/src/profile/",
    "shm/src/robust_lock/",
    "lock_api-",
    "forebay_sync::lock::",
    "forebay_sync::profile::",
    "forebay_shm::robust_lock::",
];

/// Prefixes of the files of library code that only calls Forebay's code: Rust's library and the
/// event loop. Such code would fill every stack.
const LIBRARIES: [&str; 4] = ["core/src/", "std/src/", "alloc/src/", "tokio-"];

/// Part of the name of the function in which the work of a thread begins.
const BEGINNING: &str = "with_known_stack";

/// Collects the samples of these threads.
pub(super) fn of<'a>(
    names: &mut SiteNames<'_>,
    threads: impl IntoIterator<Item = &'a ThreadRead>,
) -> SampledStacks {
    let mut samples = SampledStacks::new();
    for sample in threads.into_iter().flat_map(|thread| &thread.samples) {
        let (holder, waiter) = (names.holder(sample.holder), names.site(sample.waiter));
        // All samples of a stack are from the same call site.
        let stack = names.call_stack(sample.stack, without_types, |names| {
            from_site(&waiter, without_libraries(without_locks(names)))
        });
        let by_stack = samples.entry(LockPair { holder, waiter }).or_default();
        by_stack.entry(stack).or_default().add(&sample.totals);
    }
    samples
}

/// Removes the frames of the lock, of the profiler, and of the start of the thread.
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

/// Removes library frames, unless there are no other frames.
fn without_libraries(names: Vec<Rc<str>>) -> Vec<Rc<str>> {
    let is_ours = |name: &&Rc<str>| !LIBRARIES.iter().any(|part| file_of(name).starts_with(part));
    let ours: Vec<_> = names.iter().filter(is_ours).cloned().collect();
    if ours.is_empty() { names } else { ours }
}

/// Removes type arguments, which make names long: all text in angle brackets, except a bracket at
/// the start of the name.
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

/// Returns the file and line at the end of a name, if the name has them.
fn file_of(name: &str) -> &str {
    name.rsplit(' ').next().unwrap_or_default()
}

/// Returns the call stacks of each call site with the sums over all holders, the most costly first.
fn sorted(samples: &SampledStacks) -> Vec<((&LockSite, &CallStack), PairTotals)> {
    let mut sums = BTreeMap::<_, PairTotals>::new();
    for (pair, by_stack) in samples {
        for (stack, totals) in by_stack {
            sums.entry((&*pair.waiter, stack)).or_default().add(totals);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, totals)| Reverse(matrix::weight(totals)));
    sums
}

/// Explains why a profile has no stacks.
pub(super) fn nothing(about: &ProfileHeader, stack_sample: u64) -> &'static str {
    match about.kind {
        SiteKind::Stacks if about.plan.frames > 1 => {
            "callers are part of the call sites: see `forebay locks report --threads`"
        }
        SiteKind::Stacks => {
            "the profile was recorded without callers: see `forebay locks record --stacks`"
        }
        SiteKind::Places if about.plan.stacks == StackPlan::NONE => {
            "the profile has no room for stacks: raise the setting `lock_profile_size`"
        }
        SiteKind::Places if stack_sample == 0 => {
            "no stacks are sampled: see `forebay locks on --stacks`"
        }
        SiteKind::Places => "no wait or failed try-lock has been sampled yet",
    }
}

pub(super) fn text(samples: &SampledStacks, lines_max: usize, nothing: &str) -> String {
    let sums = sorted(samples);
    let name = names_of(sums.iter().map(|((site, _), _)| *site));
    let row = |((site, stack), totals): &((&LockSite, &CallStack), _)| {
        let callers: usize = stack.iter().map(|frame| frame.len()).sum();
        (TableRow::new(cells(totals).into_iter(), name(site)), callers)
    };
    let rows = sums.iter().take(lines_max).map(row);
    let rows = fitting(&mut { PAGE_BYTES_MAX }, rows, |(row, callers)| row.byte_count() + callers);
    let shown_count = rows.len();
    let rows = rows.into_iter().map(|(row, _)| row).collect();
    let mut rows = grid(&matrix::COLUMNS, "name, callers", rows).into_iter();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, ((_, stack), _)) in rows.zip(&sums) {
        lines.push(row);
        lines.extend(stack.iter().map(|frame| format!("    {frame}")));
    }
    match sums.is_empty() {
        true => lines.push(nothing.to_owned()),
        false => lines.extend(note(sums.len(), shown_count, "stack")),
    }
    lines.join("\n")
}

/// The call stacks of each call site, the most costly first.
pub(super) type BySite<'a> = BTreeMap<&'a LockSite, Vec<(&'a CallStack, PairTotals)>>;

pub(super) fn by_site(samples: &SampledStacks) -> BySite<'_> {
    let mut by_site = BySite::new();
    for ((site, stack), totals) in sorted(samples) {
        by_site.entry(site).or_default().push((stack, totals));
    }
    by_site
}

/// Returns the call stacks of a call site, as lines that are printed below the call site.
pub(super) fn below(samples: &BySite<'_>, site: &LockSite) -> Vec<String> {
    let lines = samples.get(site).into_iter().flatten().flat_map(|(stack, totals)| {
        let (count, lost_us) = (totals.count(), totals.lost_ns() as f64 / 1e3);
        let title = format!("\t\t{count} sampled with this stack, lost {lost_us:.2}us:");
        std::iter::once(title).chain(stack.iter().map(|frame| format!("\t\t\t{frame}")))
    });
    lines.collect()
}

/// Divides the lost time of a pair among its sampled stacks, in proportion to the time that each
/// stack lost. The parts add up exactly to `all`. The result is empty if no sample lost any time.
pub(super) fn apportioned(
    all: u64,
    by_stack: &BTreeMap<CallStack, PairTotals>,
) -> Vec<(&CallStack, u64)> {
    let whole: u128 = by_stack.values().map(|totals| u128::from(totals.lost_ns())).sum();
    if whole == 0 {
        return Vec::new();
    }
    let (mut before, mut given) = (0_u128, 0_u64);
    let parts = by_stack.iter().map(|(stack, totals)| {
        before += u128::from(totals.lost_ns());
        let until_here = u64::try_from(u128::from(all) * before / whole).unwrap_or(all);
        let part = until_here - given;
        given = until_here;
        (stack, part)
    });
    parts.filter(|(_, part)| *part > 0).collect()
}

/// Removes the frames between the call site and the lock.
fn from_site(site: &LockSite, mut stack: Vec<Rc<str>>) -> Vec<Rc<str>> {
    let site = site.stack.first();
    let begin = stack.iter().position(|name| site.is_some_and(|site| file_of(name) == &**site));
    stack.split_off(begin.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(names: &[&str]) -> Vec<Rc<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn the_lock_and_the_start_of_a_thread_are_left_out() {
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
    fn library_frames_are_left_out_unless_there_are_no_others() {
        let names =
            ["find cache/src/find.rs:7", "call core/src/ops.rs:1", "poll tokio-1.5/src/x.rs:2"];
        assert_eq!(without_libraries(lines(&names)), lines(&names[..1]));
        assert_eq!(without_libraries(lines(&names[1..])), lines(&names[1..]));
    }

    #[test]
    fn type_arguments_are_left_out_of_names() {
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
    fn a_stack_begins_at_its_call_site() {
        let site = |at: &str| LockSite { lock: "a".into(), stack: vec![at.into()] };
        let stack =
            ["inner a/src/x.rs:1", "at a/src/y.rs:12", "at a/src/y.rs:2", "out b/src/y.rs:2"];
        for (at, expected) in [
            ("a/src/y.rs:2", &stack[2..]),
            ("a/src/x.rs:1", &stack),
            ("a/src/q.rs:1", &stack),
            ("b/src/y.rs:2", &stack[3..]),
        ] {
            assert_eq!(from_site(&site(at), lines(&stack)), lines(expected), "{at}");
        }
    }

    #[test]
    fn call_sites_that_differ_only_in_callers_are_shown_with_them() {
        let site = |caller: &str| LockSite { lock: "a".into(), stack: lines(&["f x.c:1", caller]) };
        let samples = ["g x.c:2", "h x.c:3"].map(|caller| {
            let pair = LockPair { holder: LockSite::default().into(), waiter: site(caller).into() };
            (pair, [(lines(&["f x.c:1"]).into(), PairTotals::default())].into())
        });
        let text = text(&samples.into(), usize::MAX, "none");
        for name in [" f x.c:1 (a) < g x.c:2\n", " f x.c:1 (a) < h x.c:3\n"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_parts_of_a_pairs_lost_time_add_up() {
        let totals = |wait_ns| PairTotals { wait_ns, ..PairTotals::default() };
        let by_stack: BTreeMap<_, _> = [("a", 1), ("b", 2), ("c", 0)]
            .map(|(name, ns)| (CallStack::from([name.into()]), totals(ns)))
            .into();
        for (all, expected) in
            [(3, [1, 2]), (100, [33, 67]), (u64::MAX, [u64::MAX / 3, u64::MAX / 3 * 2])]
        {
            let parts: Vec<u64> =
                apportioned(all, &by_stack).into_iter().map(|(_, part)| part).collect();
            assert_eq!(parts, expected, "{all}");
            assert_eq!(parts.iter().sum::<u64>(), all);
        }
        assert_eq!(apportioned(2, &by_stack).len(), 1, "a zero is no part");
        let nothing = [(CallStack::from(["c".into()]), totals(0))].into();
        assert!(apportioned(5, &nothing).is_empty() && apportioned(5, &BTreeMap::new()).is_empty());
    }
}
