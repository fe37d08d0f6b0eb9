//! Tests [`Barrier`] on real processors: each side stores into its own word and then loads the
//! other side's word, and at least one side must see the other's store.
//!
//! A store waits in its processor's buffer behind older stores. The frequent side first stores into
//! lines that are in no cache, so that the store into its word still waits when it loads. Without
//! barriers both sides can then miss each other. The test counts these cases too: the count tells
//! whether this machine can show a failure.
#![cfg(not(tsan))]
#![expect(clippy::disallowed_methods, reason = "the test ends after a time, however slow it is")]

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::thread;
use std::time::{Duration, Instant};

use forebay_sync::Barrier;
use forebay_testkit::StopFlag;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use forebay_testkit::Rng;

const ROUNDS: u64 = 50_000;
const TIME_MAX: Duration = Duration::from_secs(1);

/// The number of cold words: many more than fit into a cache, so that most of them are in no cache.
const COLD_WORDS: usize = (128 << 20) / size_of::<u64>();
const COLD_STORES: usize = 40;

/// A word on lines of its own.
#[derive(Default)]
#[repr(align(256))]
struct Word(AtomicU64);

/// The words of both sides. In each round they change from a lower number to the number of the
/// round.
#[derive(Default)]
struct Litmus {
    /// Stored by the rare side when a round begins.
    round: Word,
    /// Stored by the frequent side, loaded by the rare side.
    frequent: Word,
    /// Stored by the rare side, loaded by the frequent side.
    rare: Word,
    /// Stored by the frequent side at the end of a round: the number of the round, and in bit 0
    /// whether the frequent side missed the store of the rare side.
    answer: Word,
    stop: StopFlag,
}

/// Spins until the condition holds. Yields now and then, since the other side may need this
/// processor.
fn spin_until(condition: impl Fn() -> bool) {
    let mut count = 0u32;
    while !condition() {
        std::hint::spin_loop();
        count += 1;
        if count.is_multiple_of(100_000) {
            thread::yield_now();
        }
    }
}

impl Litmus {
    fn run_frequent(&self, barrier: Option<Barrier>, cold: &[AtomicU64], mut rng: Rng) {
        for round in 1.. {
            let places: [&AtomicU64; COLD_STORES] =
                std::array::from_fn(|_| &cold[rng.below(cold.len())]);
            let is_round = || self.round.0.load(Ordering::Acquire) == round;
            spin_until(|| is_round() || self.stop.is_raised());
            if self.stop.is_raised() {
                return;
            }
            // This brings the line into the cache, so that the load below need not wait.
            self.rare.0.load(Ordering::Relaxed);
            places.iter().for_each(|place| place.store(round, Ordering::Relaxed));
            self.frequent.0.store(round, Ordering::Relaxed);
            match barrier {
                Some(barrier) => barrier.light("litmus.light"),
                None => compiler_fence(Ordering::SeqCst),
            }
            let has_missed = self.rare.0.load(Ordering::Relaxed) < round;
            self.answer.0.store(round << 1 | u64::from(has_missed), Ordering::Release);
        }
    }

    /// Runs the rare side. Returns the number of rounds in which both sides missed each other, and
    /// the number of all rounds.
    fn run_rare(&self, barrier: Option<Barrier>) -> (u64, u64) {
        let start = Instant::now();
        let mut missed_count = 0;
        for round in 1..=ROUNDS {
            self.round.0.store(round, Ordering::Release);
            // This takes about as long as the other side's stores into lines that are in no cache.
            (0..round % 100).for_each(|_| std::hint::spin_loop());
            self.rare.0.store(round, Ordering::Relaxed);
            match barrier {
                Some(barrier) => barrier.heavy("litmus.heavy"),
                None => compiler_fence(Ordering::SeqCst),
            }
            let has_missed = self.frequent.0.load(Ordering::Relaxed) < round;
            let answer = || self.answer.0.load(Ordering::Acquire);
            spin_until(|| answer() >> 1 == round || self.stop.is_raised());
            missed_count += u64::from(has_missed) & answer();
            if start.elapsed() > TIME_MAX {
                return (missed_count, round);
            }
        }
        (missed_count, ROUNDS)
    }
}

fn run(barrier: Option<Barrier>, cold: &[AtomicU64], rng: Rng) -> (u64, u64) {
    let litmus = Litmus::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = litmus.stop.guard();
            stay_on_processor(1);
            litmus.run_frequent(barrier, cold, rng);
        });
        let rare = scope.spawn(|| {
            let _guard = litmus.stop.guard();
            stay_on_processor(0);
            litmus.run_rare(barrier)
        });
        rare.join().expect("no step panics")
    })
}

/// Keeps the calling thread on the allowed processor with this index, if there are that many. The
/// scheduler would leave both sides on one processor, where they never miss each other.
fn stay_on_processor(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(processor) = (0..CpuSet::MAX_CPU).filter(|id| allowed.is_set(*id)).nth(index) {
        let mut one = CpuSet::new();
        one.set(processor);
        // If the system refuses, the test shows less, but still holds.
        let _ = sched_setaffinity(None, &one);
    }
}

#[test]
fn one_side_sees_the_other() {
    let mut rng = Rng::of("barrier");
    let cold: Vec<AtomicU64> = (0..COLD_WORDS).map(|_| AtomicU64::new(0)).collect();
    let (missed_count, round_count) = run(None, &cold, rng.fork());
    println!("no barrier: {missed_count} of {round_count} rounds");
    for barrier in Barrier::process().into_iter().chain([Barrier::fence()]) {
        let (missed_count, round_count) = run(Some(barrier), &cold, rng.fork());
        println!("{barrier:?}: {missed_count} of {round_count} rounds");
        assert_eq!(missed_count, 0, "{barrier:?}: both sides missed each other");
    }
}
