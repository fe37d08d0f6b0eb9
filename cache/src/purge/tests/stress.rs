//! Threads that purge and fill at the same time; plain words stand for the index.

use std::thread;

use forebay_sync::atomic::{Ordering, fence};
use forebay_sync::{LockClass, Mutex};
use forebay_testkit::StopFlag;

use super::*;
use forebay_testkit::Rng;

const KEYS: usize = 8;
const PURGERS: usize = 2;
const FILLERS: usize = 2;
const PURGES: usize = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
const EMPTY: u64 = 0;

/// The limit of a thread's fills: a hundred times as many as it usually makes while the others
/// purge.
const STEPS_MAX: u64 = 4_000 * PURGES as u64;

struct World {
    purges: PurgeRing<Shared>,
    lock: Mutex<()>,
    /// For each key, the version at the origin, which only grows.
    origin: [AtomicU64; KEYS],
    /// The stored version of each key, encoded: `EMPTY` if there is none, else twice the version
    /// plus 2, and 1 more while the version is unchecked.
    stored: [AtomicU64; KEYS],
    /// For each key, the version after its last acknowledged purge.
    acknowledged: [AtomicU64; KEYS],
}

/// Returns a long key of one of two sites, so that a test notices a torn predicate.
fn key_bytes(key: usize) -> [u8; 40] {
    let mut bytes = [1 + key as u8; 40];
    bytes[0] = b'x' + (key % 2) as u8;
    bytes[1] = 0;
    bytes
}

impl World {
    fn purge(&self, key: usize) {
        let _guard = self.lock.lock();
        // From now on no lookup may find the earlier content of the origin.
        let version = self.origin[key].fetch_add(1, Relaxed) + 1;
        self.purges.announce(Predicate::Key(&key_bytes(key)));
        self.stored[key].swap(EMPTY, Relaxed);
        self.acknowledged[key].store(version, Ordering::Release);
    }

    /// Fetches and stores the origin's response. Returns whether the response was stored.
    fn fill(&self, key: usize) -> bool {
        let noted = self.purges.noted();
        let live = self.origin[key].load(Relaxed) * 2 + 2;
        let stored = &self.stored[key];
        if stored.compare_exchange(EMPTY, live + 1, Relaxed, Relaxed).is_err() {
            return false;
        }
        fence("index.unchecked");
        let bytes = key_bytes(key);
        let is_purged =
            self.purges.is_newer(noted, &bytes, |predicate| predicate.may_match(&bytes));
        let new = if is_purged { EMPTY } else { live };
        let swapped = stored.compare_exchange(live + 1, new, Relaxed, Relaxed);
        swapped.is_ok() && !is_purged
    }

    fn look_up(&self, key: usize) {
        let acknowledged = self.acknowledged[key].load(Ordering::Acquire);
        let stored = self.stored[key].load(Relaxed);
        if stored != EMPTY && stored.is_multiple_of(2) {
            let version = (stored - 2) / 2;
            assert!(version >= acknowledged, "{version} found after the purge of {acknowledged}");
        }
    }
}

#[test]
fn no_lookup_finds_a_purged_record() {
    let mut rng = Rng::of("no_lookup_finds_a_purged_record");
    let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
    let world = World {
        purges: made(SLOTS).purges,
        lock: Mutex::new(LockClass::Test, ()),
        origin: zeros(),
        stored: zeros(),
        acknowledged: zeros(),
    };
    let stop = StopFlag::default();
    let stored_count: usize = thread::scope(|scope| {
        let (world, stop) = (&world, &stop);
        let guard = stop.guard();
        let purgers: Vec<_> = (0..PURGERS)
            .map(|_| {
                let mut rng = rng.fork();
                scope.spawn(move || (0..PURGES).for_each(|_| world.purge(rng.below(KEYS))))
            })
            .collect();
        let fillers: Vec<_> = (0..FILLERS)
            .map(|_| {
                let mut rng = rng.fork();
                scope.spawn(move || {
                    let mut stored_count = 0;
                    for _ in stop.steps(STEPS_MAX) {
                        stored_count += usize::from(world.fill(rng.below(KEYS)));
                        world.look_up(rng.below(KEYS));
                    }
                    stored_count
                })
            })
            .collect();
        purgers.into_iter().for_each(|purger| purger.join().unwrap());
        drop(guard);
        fillers.into_iter().map(|filler| filler.join().unwrap()).sum()
    });
    println!("{stored_count} fills were stored");
    (0..KEYS).for_each(|key| world.look_up(key));
    assert_eq!(world.purges.noted(), (PURGERS * PURGES) as u64);
}
