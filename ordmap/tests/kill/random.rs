//! Processes are killed at random instants while others work on.

use std::path::Path;
use std::time::Duration;

use crate::process::{Actor, PATIENCE, now};
use crate::rng::Rng;
use crate::scene::{Scene, WORKERS};

/// How many processes are killed.
fn kill_count() -> u64 {
    std::env::var("FOREBAY_KILLS").map_or(200, |count| count.parse().unwrap())
}

/// A worker process; with a crash point it may be killed before it is ready.
pub(crate) fn start(dir: &Path, number: usize, random: &mut Rng, crash_at: Option<&str>) -> Actor {
    let (number, seed) = (number.to_string(), random.below(1 << 40).to_string());
    let mut environment = vec![("FOREBAY_NUMBER", &*number), ("FOREBAY_SEED", &*seed)];
    environment.extend(crash_at.map(|point| ("FOREBAY_CRASH_AT", point)));
    let mut worker = Actor::start_with("work", dir, &environment);
    if crash_at.is_none() {
        assert_eq!(worker.hear().as_deref(), Some("ready"), "worker {number} does not begin");
    }
    worker
}

/// Waits until a worker has done so many steps more.
pub(crate) fn wait_for_steps(scene: &Scene, number: usize, steps: u64) {
    let deadline = now() + PATIENCE;
    let wanted = scene.progress(number) + steps;
    while scene.progress(number) < wanted {
        assert!(now() < deadline, "worker {number} hangs");
        std::thread::yield_now();
    }
}

#[test]
fn processes_killed_at_random_instants_stop_nobody_and_lose_nothing() {
    let mut random = Rng::of("processes_killed_at_random_instants");
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    let mut workers: Vec<_> =
        (0..WORKERS).map(|number| start(dir.path(), number, &mut random, None)).collect();
    for kill in 0..kill_count() {
        let number = random.below(WORKERS);
        let instant = Duration::from_micros(random.below(20_000) as u64);
        for worker in &workers {
            assert!(!worker.ends_within(Duration::ZERO), "kill {kill}: one ended by itself");
        }
        assert!(!workers[number].ends_within(instant), "kill {kill}: {number} ended by itself");
        workers.remove(number).kill();
        if random.below(2) == 0 {
            scene.region.sweep().unwrap();
        }
        workers.insert(number, start(dir.path(), number, &mut random, None));
    }
    (0..WORKERS).for_each(|number| wait_for_steps(&scene, number, 100));
    scene.stop(true);
    workers.into_iter().for_each(Actor::end_well);
    let member = scene.region.join().unwrap();
    println!("{} kills: {:?}", kill_count(), scene.map(&member).stats());
    drop(member);
    scene.check_end("in the end");
}
