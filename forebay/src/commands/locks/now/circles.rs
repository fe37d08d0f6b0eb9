//! Threads that wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sync::profile::{LockNow, ThreadNow};

/// The threads that have a lock: of those that have it alone only the last, for the others have left
/// it to be left by another thread.
pub(super) fn holders(now: &[ThreadNow], lock: u64) -> Vec<u32> {
    let of_thread = |thread: &ThreadNow| {
        let latest = thread.holds.iter().filter(|hold| hold.lock == lock).max().copied();
        latest.map(|hold| (hold, thread.tid))
    };
    let holds: Vec<_> = now.iter().filter_map(of_thread).collect();
    let last_alone = holds.iter().filter(|(hold, _)| !hold.is_shared).max();
    let is_holder = |found: &&(LockNow, u32)| found.0.is_shared || Some(*found) == last_alone;
    holds.iter().filter(is_holder).map(|(_, tid)| *tid).collect()
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
        LockNow { since_unix_ns: 0, lock, site: 1, is_shared: false }
    }

    fn thread(tid: u32, holds: &[LockNow], awaited: u64) -> ThreadNow {
        ThreadNow {
            tid,
            name: String::new(),
            holds: holds.to_vec(),
            awaited: (awaited != 0).then(|| lock(awaited)),
        }
    }

    #[test]
    fn of_those_who_have_a_lock_alone_the_last_one_has_it() {
        let at = |since_unix_ns, is_shared| LockNow { since_unix_ns, is_shared, ..lock(10) };
        let now = [thread(1, &[at(5, false)], 0), thread(2, &[at(7, false), lock(20)], 0)];
        assert_eq!(
            (holders(&now, 10), holders(&now, 20), holders(&now, 30)),
            (vec![2], vec![2], vec![])
        );
        let now = [thread(1, &[at(5, true)], 0), thread(2, &[at(7, true)], 0)];
        assert_eq!(holders(&now, 10), [1, 2]);
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
                .map(|(tid, holds, awaited)| {
                    let holds: Vec<_> = holds.iter().map(|address| lock(*address)).collect();
                    thread(*tid, &holds, *awaited)
                })
                .collect();
            assert_eq!(circles(&now), expected, "{threads:?}");
        }
    }
}
