//! Plays many seeds, which must keep all promises. Two runs of the same seed must be equal.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::ideal::Permission;
use super::missed::MissedReuse;
use super::paths::{PathCounts, SEVERAL_PARTS};
use super::run::{Outcome, play};
use super::scenario::{Act, ActKind, Ask, Reading, Scenario};

/// The number of seeds that a test plays if `FOREBAY_SEEDS` is not set. `scripts/simulate` sets it.
const SEED_COUNT: u64 = 30;

/// A number of seeds that is large enough for each path to be taken at least once.
const SEEDS_WITH_ALL_PATHS: u64 = 300;

/// The longest real time of one run, in seconds. If a run takes longer and `FOREBAY_SEEDS` is set,
/// the process ends.
const HANG_S: u64 = 180;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Prints the seed of a run that panics.
struct SeedGuard(u64);

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0} fails: it panicked; again: FOREBAY_SEED={0}", self.0);
        }
    }
}

/// Starts a thread that ends the process if a run hangs. The seed of each run that begins must be
/// sent to the returned channel.
fn watch_for_hangs() -> Sender<u64> {
    let (sender, seeds) = channel();
    std::thread::spawn(move || {
        let mut seed = None;
        loop {
            match seeds.recv_timeout(Duration::from_secs(HANG_S)) {
                Ok(next) => seed = Some(next),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(seed) = seed {
                        eprintln!("seed {seed} fails: it hangs; again: FOREBAY_SEED={seed}");
                        std::process::exit(101);
                    }
                }
            }
        }
    });
    sender
}

/// Plays a seed. If the run fails, prints a shortened list of acts, and the command that repeats
/// the run.
fn play_seed(seed: u64, began: impl Fn(u64)) -> Outcome {
    let scenario = Scenario::of(seed);
    let play = |scenario: &Scenario| {
        let _guard = SeedGuard(seed);
        began(seed);
        play(scenario)
    };
    let outcome = play(&scenario);
    let Some(failure) = &outcome.failure else {
        return outcome;
    };
    eprintln!("seed {seed} fails {failure}");
    let short = match std::env::var_os("FOREBAY_SHORTEN") {
        Some(no) if no == "0" => scenario,
        _ => scenario.shortened(|shorter| play(shorter).failure.is_some()),
    };
    eprintln!("so do these acts of it, {:?}:", play(&short).failure);
    short.acts.iter().for_each(|act| eprintln!("  {act:?}"));
    panic!(
        "seed {seed} fails {failure}; again:\n  \
         FOREBAY_SEED={seed} cargo test -p forebay-server --lib sim::tests::seeds_keep_all_promises"
    );
}

/// The sums over many runs.
#[derive(Default)]
struct Totals {
    answered: u64,
    failed: u64,
    paths: PathCounts,
    requested: u64,
    missed: BTreeMap<MissedReuse, MissedTotal>,
}

/// How many requests one row of the list of missed reuses stands for, and the lowest seed with such
/// a request.
#[derive(Clone, Copy)]
struct MissedTotal {
    count: u64,
    seed: u64,
}

impl Totals {
    fn of(seed: u64, outcome: Outcome) -> Totals {
        let Outcome { answered, failed, paths, requested, missed, .. } = outcome;
        let missed = missed.into_iter().map(|(row, count)| (row, MissedTotal { count, seed }));
        Totals { answered, failed, paths, requested, missed: missed.collect() }
    }

    fn add(&mut self, other: Totals) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.requested += other.requested;
        for (path, count) in other.paths {
            *self.paths.entry(path).or_default() += count;
        }
        for (row, MissedTotal { count, seed }) in other.missed {
            let total = self.missed.entry(row).or_insert(MissedTotal { count: 0, seed });
            total.count += count;
            total.seed = total.seed.min(seed);
        }
    }

    /// Prints the requests that a stored response could have answered, by reason.
    fn print_missed(&self) {
        let sum: u64 = self.missed.values().map(|total| total.count).sum();
        println!("{sum} of {} requests could have been served and were not:", self.requested);
        println!(
            "| reason | permitted as | because | count | share | seed |\n|---|---|---|--:|--:|--:|"
        );
        for (MissedReuse { reason, permission, cause }, total) in &self.missed {
            let MissedTotal { count, seed } = total;
            let percent = *count as f64 * 100.0 / self.requested as f64;
            println!(
                "| `{reason}` | {permission:?} | {cause} | {count} | {percent:.2} % | {seed} |"
            );
        }
    }
}

/// The seeds that have not been played yet. If a queue is dropped during a panic, no further seeds
/// are played.
struct SeedQueue<'a> {
    next: &'a AtomicU64,
    end: u64,
}

impl Iterator for SeedQueue<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < self.end)
    }
}

impl Drop for SeedQueue<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.next.store(self.end, Ordering::Relaxed);
        }
    }
}

/// Plays seeds on one thread per processor.
fn play_seeds(seeds: Range<u64>, is_watched: bool) -> Totals {
    let next = AtomicU64::new(seeds.start);
    let play_some = || {
        let watch = is_watched.then(watch_for_hangs);
        // Each thread is watched until it ends.
        let began = |seed| _ = watch.as_ref().map(|watch| watch.send(seed));
        let mut totals = Totals::default();
        for seed in (SeedQueue { next: &next, end: seeds.end }) {
            totals.add(Totals::of(seed, play_seed(seed, began)));
        }
        totals
    };
    std::thread::scope(|scope| {
        let thread_count = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(play_some)).collect();
        let mut sums = Totals::default();
        for thread in threads {
            sums.add(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        sums
    })
}

#[test]
fn seeds_keep_all_promises() {
    if let Some(seed) = number_of("FOREBAY_SEED") {
        println!("{:?}", play_seed(seed, |_| ()));
        return;
    }
    let first = number_of("FOREBAY_FIRST_SEED").unwrap_or(0);
    let given = number_of("FOREBAY_SEEDS");
    let count = given.unwrap_or(SEED_COUNT);
    let totals = play_seeds(first..first + count, given.is_some());
    totals.print_missed();
    let Totals { answered, failed, paths, .. } = totals;
    println!("{count} seeds from {first} on: {answered} responses, {failed} excused failures");
    paths.iter().for_each(|(path, sum)| println!("{sum:>9} {path}"));
    assert!(answered > 10 * count && paths["hits"] > count, "too little happens");
    let is_enough = count >= SEEDS_WITH_ALL_PATHS;
    for (path, sum) in paths {
        assert!(sum > 0 || !is_enough, "no seed takes the path: {path}");
    }
}

#[test]
fn a_request_that_a_stored_response_could_have_answered_is_listed() {
    // This URL's responses are fresh for a minute.
    let plain = Ask::plain(9, "");
    let refusing = Ask { no_cache: true, ..plain.clone() };
    let act = |number, at_ms, asks| {
        let (is_pipelined, reading) = (false, Reading::Eager);
        Act { at_ms, number, kind: ActKind::Session { worker: 0, asks, is_pipelined, reading } }
    };
    let acts = vec![
        act(0, 0, vec![plain.clone()]),
        act(1, 10, vec![plain.clone(), refusing]),
        act(2, 62_000, vec![plain]),
    ];
    let quiet = Scenario { origin_fault_percent: 0, refused_percent: 0, acts, ..Scenario::of(0) };
    let outcome = play(&quiet);
    assert_eq!((outcome.failure, outcome.requested), (None, 4));
    let listed: Vec<(MissedReuse, u64)> = outcome.missed.into_iter().collect();
    let row = MissedReuse {
        reason: "request".into(),
        permission: Permission::Fresh,
        cause: "the client says no-cache".into(),
    };
    assert_eq!(listed, [(row, 1)], "neither a hit nor a response that is too old is listed");
}

#[test]
fn two_runs_of_a_seed_are_equal_to_the_byte() {
    let mut taken = PathCounts::new();
    for seed in 0..12 {
        let scenario = Scenario::of(seed);
        let (first, second) = (play(&scenario), play(&scenario));
        assert_eq!(first, second, "seed {seed}");
        for (path, count) in first.paths {
            *taken.entry(path).or_default() += count;
        }
    }
    // The server chooses random boundaries for several parts, so such a response must be among
    // those that are compared.
    assert!(taken[SEVERAL_PARTS] > 0, "no seed has several parts");
}
