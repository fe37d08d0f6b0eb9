//! Finds threads that wait for one another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_sync::profile::{LockNow, ThreadNow};

/// Largest number of steps of a search. The limit is for damaged profiles, in which all threads may
/// wait for all others.
const STEPS_MAX: u64 = 10_000_000;

/// Holders of each lock. Of several recorded holders of an exclusive lock only the most recent one
/// counts: another thread has released the lock in place of each earlier one.
pub(super) struct Holders(BTreeMap<u64, Vec<u32>>);

impl Holders {
    pub(super) fn of(now: &[ThreadNow]) -> Holders {
        let mut holds = BTreeMap::<u64, Vec<(LockNow, u32)>>::new();
        for thread in now {
            let mut latest = BTreeMap::<u64, LockNow>::new();
            for hold in &thread.holds {
                let known = latest.entry(hold.lock).or_insert(*hold);
                *known = (*known).max(*hold);
            }
            for (lock, hold) in latest {
                holds.entry(lock).or_default().push((hold, thread.tid));
            }
        }
        Holders(holds.into_iter().map(|(lock, holds)| (lock, current_holders(&holds))).collect())
    }

    pub(super) fn of_lock(&self, lock: u64) -> &[u32] {
        self.0.get(&lock).map_or(&[], |tids| tids)
    }
}

fn current_holders(holds: &[(LockNow, u32)]) -> Vec<u32> {
    let last_alone = holds.iter().filter(|(hold, _)| !hold.is_shared).max();
    let is_holder = |found: &&(LockNow, u32)| found.0.is_shared || Some(*found) == last_alone;
    holds.iter().filter(is_holder).map(|(_, tid)| *tid).collect()
}

/// Cycles of threads in which each waits for a lock that the next one holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Deadlocks {
    /// The cycles, each of which is listed once and begins with its smallest thread id.
    pub(super) cycles: BTreeSet<Vec<u32>>,
    /// Whether the search was cut short, so that there may be more cycles.
    pub(super) is_cut_off: bool,
}

impl Deadlocks {
    pub(super) fn of(now: &[ThreadNow], holders: &Holders) -> Deadlocks {
        Deadlocks::within(now, holders, STEPS_MAX)
    }

    fn within(now: &[ThreadNow], holders: &Holders, steps_max: u64) -> Deadlocks {
        let awaited = |thread: &ThreadNow| Some((thread.tid, thread.awaited.as_ref()?.lock));
        let awaited = now.iter().filter_map(awaited).collect();
        let mut search = CycleSearch { awaited, holders, steps: steps_max };
        let starts: Vec<u32> = search.awaited.keys().copied().collect();
        let cycles = starts.into_iter().filter_map(|start| search.shortest_cycle(start)).collect();
        Deadlocks { cycles, is_cut_off: search.steps == 0 }
    }
}

struct CycleSearch<'a> {
    /// The lock that each thread waits for.
    awaited: BTreeMap<u32, u64>,
    holders: &'a Holders,
    steps: u64,
}

impl CycleSearch<'_> {
    /// Returns the shortest cycle through `start` in which `start` is the smallest thread id.
    fn shortest_cycle(&mut self, start: u32) -> Option<Vec<u32>> {
        // The predecessor of each thread that the search has reached.
        let mut before = BTreeMap::new();
        let mut locks = BTreeSet::new();
        let mut threads = VecDeque::from([start]);
        while let Some(thread) = threads.pop_front() {
            let Some(lock) = self.awaited.get(&thread).filter(|lock| locks.insert(**lock)) else {
                continue;
            };
            for next in self.holders.of_lock(*lock) {
                self.steps = self.steps.checked_sub(1)?;
                if *next == start {
                    return Some(path_to(&before, thread));
                }
                if *next > start && !before.contains_key(next) {
                    before.insert(*next, thread);
                    threads.push_back(*next);
                }
            }
        }
        None
    }
}

/// Returns the path to a thread from the first thread, which has no predecessor.
fn path_to(before: &BTreeMap<u32, u32>, last: u32) -> Vec<u32> {
    let mut path: Vec<u32> =
        std::iter::successors(Some(last), |thread| before.get(thread).copied()).collect();
    path.reverse();
    path
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
    fn the_last_holder_of_an_exclusive_lock_counts() {
        let at = |since_unix_ns, is_shared| LockNow { since_unix_ns, is_shared, ..lock(10) };
        let now = [thread(1, &[at(5, false)], 0), thread(2, &[at(7, false), lock(20)], 0)];
        let holders = Holders::of(&now);
        assert_eq!((holders.of_lock(10), holders.of_lock(20)), (&[2][..], &[2][..]));
        assert!(holders.of_lock(30).is_empty());
        let now = [thread(1, &[at(5, true)], 0), thread(2, &[at(7, true)], 0)];
        assert_eq!(Holders::of(&now).of_lock(10), [1, 2]);
    }

    #[test]
    fn each_cycle_is_found_once() {
        // Each thread has its id, the locks that it holds, and the lock that it awaits (0: none).
        for (threads, expected) in [
            (&[(1, &[10][..], 0)][..], &[][..]),
            (&[(1, &[10], 10)], &[&[1][..]]),
            (&[(1, &[10], 20), (2, &[20], 10)], &[&[1, 2]]),
            (&[(1, &[10], 20), (2, &[20], 0)], &[]),
            (&[(3, &[10], 20), (2, &[20], 30), (7, &[30], 10)], &[&[2, 7, 3]]),
            // A thread that waits for a cycle is not part of it.
            (&[(1, &[], 10), (2, &[10], 20), (3, &[20], 10)], &[&[2, 3]]),
            // One of two readers is part of a cycle.
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
            let deadlocks = Deadlocks::of(&now, &Holders::of(&now));
            assert!(deadlocks.cycles.iter().eq(expected) && !deadlocks.is_cut_off, "{deadlocks:?}");
        }
    }

    #[test]
    fn a_search_that_is_cut_short_says_so() {
        // All threads hold the same lock in shared mode and wait for it.
        let hold = LockNow { is_shared: true, ..lock(10) };
        let thread = |tid| thread(tid, &[hold], 10);
        let now: Vec<_> = (1..100).map(thread).collect();
        let holders = Holders::of(&now);
        assert_eq!(Deadlocks::of(&now, &holders).cycles.len(), 99);
        let deadlocks = Deadlocks::within(&now, &holders, 100);
        assert!(deadlocks.is_cut_off && deadlocks.cycles.len() < 99, "{deadlocks:?}");
    }
}
