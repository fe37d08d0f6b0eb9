//! Stress tests of reader-biased locks with real threads that read and write. They also run under
//! ThreadSanitizer.

use std::thread;
use std::time::Duration;

use forebay_sync::bravo::{Bravo, ByStore, BySwap, OwnTable, SharedTable, SlotTable};
use lock_api::{RwLock, RwLockWriteGuard};

type Lock<S> = RwLock<Bravo<parking_lot::RawRwLock, S>, [u64; 2]>;

const SEED: u64 = 0x5eed_b1a5;
const THREADS: u64 = 4;
const GENERATIONS: u64 = 8;
const STEPS: u64 = if cfg!(tsan) { 100 } else { 1_000 };

/// A small generator (xorshift): the same seed repeats the steps of a thread.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Adds 1 to both halves. All other threads always see equal halves.
fn write(mut guard: RwLockWriteGuard<'_, Bravo<parking_lot::RawRwLock, impl SlotTable>, [u64; 2]>) {
    guard[0] += 1;
    guard[1] += 1;
}

fn check(case: &str, pair: &[u64; 2]) {
    assert_eq!(pair[0], pair[1], "{case}: a reader beside a writer");
}

/// Uses the locks in a way that is chosen at random. Returns the number of writes.
fn step<S: SlotTable>(case: &str, locks: &[Lock<S>; 2], random: &mut Random) -> u64 {
    const TIME: Duration = Duration::from_micros(20);
    let first = random.below(2) as usize;
    match random.below(40) {
        0 => write(locks[first].write()),
        1 => return locks[first].try_write().map(write).iter().count() as u64,
        2 => return locks[first].try_write_for(TIME).map(write).iter().count() as u64,
        3 => {
            let mut guard = locks[first].write();
            *guard = guard.map(|half| half + 1);
            check(case, &RwLockWriteGuard::downgrade(guard));
        }
        4 => {
            locks[first].try_read_for(TIME).iter().for_each(|guard| check(case, guard));
            return 0;
        }
        5..20 => {
            // Always in the same order, so that writers and readers cannot deadlock.
            let guards = [locks[0].read(), locks[1].read()];
            guards.iter().for_each(|guard| check(case, guard));
            return 0;
        }
        _ => {
            check(case, &locks[first].read());
            return 0;
        }
    }
    1
}

/// The steps of one thread; returns the number of writes.
fn run<S: SlotTable>(case: &str, locks: &[Lock<S>; 2], seed: u64) -> u64 {
    let mut random = Random(seed);
    (0..STEPS).map(|_| step(case, locks, &mut random)).sum()
}

fn stress<S: SlotTable + Send + Sync>(case: &str) {
    let locks = &[Lock::<S>::new([0; 2]), Lock::<S>::new([0; 2])];
    let mut written = 0;
    // In each generation, new threads take over the numbers of threads that have ended.
    for generation in 0..GENERATIONS {
        thread::scope(|scope| {
            let seeds = (0..THREADS).map(|thread| SEED + generation * THREADS + thread);
            let threads: Vec<_> =
                seeds.map(|seed| scope.spawn(move || run(case, locks, seed))).collect();
            // Joined one by one: ThreadSanitizer sees a join, but not the end of a scope.
            written += threads
                .into_iter()
                .map(|thread| thread.join().expect("no step panics"))
                .sum::<u64>();
        });
    }
    let found: u64 = locks.iter().map(|lock| lock.read()[0]).sum();
    assert_eq!(found, written, "{case}: writes were lost");
}

#[test]
fn no_reader_meets_a_writer_and_no_write_is_lost() {
    println!("seed {SEED:#x}");
    stress::<SharedTable<BySwap>>("shared, by swap");
    stress::<SharedTable<ByStore>>("shared, by store");
    stress::<OwnTable<BySwap>>("own, by swap");
    stress::<OwnTable<ByStore>>("own, by store");
    stress::<OwnTable<BySwap, 1>>("one row, by swap");
    stress::<OwnTable<ByStore, 2>>("two rows, by store");
}
