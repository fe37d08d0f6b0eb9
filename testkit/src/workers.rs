//! Worker processes that are killed while others work: for the crates whose regions are shared.

use std::path::Path;
use std::time::Duration;

use crate::process::{Actor, PATIENCE, now};
use crate::rng::Rng;

/// The number of processes to kill.
pub fn kill_count() -> u64 {
    std::env::var("FOREBAY_KILLS").map_or(200, |count| count.parse().expect("a number"))
}

/// A worker process; with a crash point it may be killed before it is ready.
pub fn start(dir: &Path, number: usize, random: &mut Rng, crash_at: Option<&str>) -> Actor {
    let (number, seed) = (number.to_string(), random.below(1 << 40).to_string());
    let mut environment = vec![("FOREBAY_NUMBER", &*number), ("FOREBAY_SEED", &*seed)];
    environment.extend(crash_at.map(|point| ("FOREBAY_CRASH_AT", point)));
    let mut worker = Actor::start_with("work", dir, &environment);
    if crash_at.is_none() {
        assert_eq!(worker.hear().as_deref(), Some("ready"), "worker {number} does not begin");
    }
    worker
}

/// Waits until the worker with these steps has taken this many more.
pub fn wait_for_steps(number: usize, steps: u64, progress: impl Fn() -> u64) {
    let deadline = now() + PATIENCE;
    let wanted = progress() + steps;
    while progress() < wanted {
        assert!(now() < deadline, "worker {number} hangs");
        std::thread::yield_now();
    }
}

/// Kills workers at random times, one after another, and starts new ones in their places; sometimes
/// a process sweeps.
pub fn kill_some(workers: &mut Vec<Actor>, dir: &Path, random: &mut Rng, sweep: impl Fn()) {
    for kill in 0..kill_count() {
        let number = random.below(workers.len());
        let instant = Duration::from_micros(random.below(20_000) as u64);
        for worker in &*workers {
            assert!(!worker.ends_within(Duration::ZERO), "kill {kill}: one ended by itself");
        }
        assert!(!workers[number].ends_within(instant), "kill {kill}: {number} ended by itself");
        workers.remove(number).kill();
        if random.below(2) == 0 {
            sweep();
        }
        workers.insert(number, start(dir, number, random, None));
    }
}
