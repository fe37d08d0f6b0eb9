//! Starts worker processes and kills them while others work, for tests of crates with shared
//! regions.

use std::path::Path;
use std::time::Duration;

use crate::process::{Actor, PATIENCE, now};
use crate::rng::Rng;

/// The number of kills in a test: `FOREBAY_KILLS`, or else 200.
pub fn kill_count() -> u64 {
    std::env::var("FOREBAY_KILLS").map_or(200, |count| count.parse().expect("a number"))
}

/// Starts a worker process. A worker with a crash point may be killed before it is ready.
pub fn start(dir: &Path, number: usize, random: &mut Rng, crash_at: Option<&str>) -> Actor {
    let (number, seed) = (number.to_string(), random.below(1 << 40).to_string());
    let mut environment = vec![("FOREBAY_NUMBER", &*number), ("FOREBAY_SEED", &*seed)];
    environment.extend(crash_at.map(|point| ("FOREBAY_CRASH_AT", point)));
    let mut worker = Actor::start_with("work", dir, &environment);
    if crash_at.is_none() {
        assert_eq!(
            worker.hear().as_deref(),
            Some("ready"),
            "worker {number} did not report that it is ready"
        );
    }
    worker
}

/// Waits until a worker has taken `steps` more steps. `progress` returns the number of steps that
/// the worker has taken.
pub fn wait_for_steps(number: usize, steps: u64, progress: impl Fn() -> u64) {
    let deadline = now() + PATIENCE;
    let wanted = progress() + steps;
    while progress() < wanted {
        assert!(now() < deadline, "worker {number} did not take {steps} more steps in time");
        std::thread::yield_now();
    }
}

/// Kills workers at random times, one after another, and replaces each with a new worker. Sometimes
/// a process sweeps the region.
pub fn kill_some(workers: &mut Vec<Actor>, dir: &Path, random: &mut Rng, sweep: impl Fn()) {
    for kill in 0..kill_count() {
        let number = random.below(workers.len());
        let instant = Duration::from_micros(random.below(20_000) as u64);
        for worker in &*workers {
            assert!(!worker.ends_within(Duration::ZERO), "kill {kill}: a worker ended by itself");
        }
        assert!(
            !workers[number].ends_within(instant),
            "kill {kill}: worker {number} ended by itself"
        );
        workers.remove(number).kill();
        if random.below(2) == 0 {
            sweep();
        }
        workers.insert(number, start(dir, number, random, None));
    }
}
