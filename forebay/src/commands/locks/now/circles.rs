//! Threads that wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sync::profile::ThreadNow;

/// The threads that have a lock.
pub(super) fn holders(now: &[ThreadNow], lock: u64) -> Vec<u32> {
    let has = |thread: &&ThreadNow| thread.holds.iter().any(|hold| hold.lock == lock);
    now.iter().filter(has).map(|thread| thread.tid).collect()
}

/// Threads of which each waits for a lock that the next one has, and the last for one that the
/// first has. Each circle is there once, and begins with its smallest number.
pub(super) fn circles(now: &[ThreadNow]) -> Vec<Vec<u32>> {
    let waits: BTreeMap<u32, Vec<u32>> = now
        .iter()
        .filter_map(|thread| Some((thread.tid, holders(now, thread.awaited.as_ref()?.lock))))
        .collect();
    let circles: BTreeSet<_> = waits.keys().filter_map(|tid| way_back(&waits, *tid)).collect();
    circles.into_iter().collect()
}

/// The shortest way from a thread to itself, if it has the smallest number on it.
fn way_back(waits: &BTreeMap<u32, Vec<u32>>, start: u32) -> Option<Vec<u32>> {
    let mut seen = BTreeSet::new();
    let mut ways = std::collections::VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for next in waits.get(way.last()?).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if *next > start && seen.insert(*next) {
                ways.push_back([&way[..], &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use forebay_sync::profile::LockNow;

    use super::*;

    fn lock(lock: u64) -> LockNow {
        LockNow { since_unix_ns: 0, lock, site: 1 }
    }

    #[test]
    fn each_circle_is_found_once() {
        // Who has what, and waits for what; 0 for nothing.
        for (threads, expected) in [
            (&[(1, &[10][..], 0)][..], &[][..]),
            (&[(1, &[10], 10)], &[&[1][..]]),
            (&[(1, &[10], 20), (2, &[20], 10)], &[&[1, 2]]),
            (&[(1, &[10], 20), (2, &[20], 0)], &[]),
            (&[(3, &[10], 20), (2, &[20], 30), (7, &[30], 10)], &[&[2, 7, 3]]),
            // One that waits for those in a circle is not in it.
            (&[(1, &[], 10), (2, &[10], 20), (3, &[20], 10)], &[&[2, 3]]),
            // Two readers: with one of them there is a circle.
            (&[(1, &[10], 0), (2, &[10, 30], 20), (3, &[20], 10)], &[&[2, 3]]),
            (
                &[(1, &[10], 20), (2, &[20], 10), (3, &[30], 40), (4, &[40], 30)],
                &[&[1, 2], &[3, 4]],
            ),
            (&[(1, &[10], 99)], &[]),
        ] {
            let now: Vec<_> = threads
                .iter()
                .map(|(tid, holds, awaited)| ThreadNow {
                    tid: *tid,
                    name: String::new(),
                    holds: holds.iter().map(|address| lock(*address)).collect(),
                    awaited: (*awaited != 0).then(|| lock(*awaited)),
                })
                .collect();
            assert_eq!(circles(&now), expected, "{threads:?}");
        }
    }
}
