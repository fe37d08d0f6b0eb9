//! Processes are killed at random times while others work.

use crate::scene::{Scene, WORKERS};
use forebay_testkit::Rng;
use forebay_testkit::process::Actor;
use forebay_testkit::workers::{kill_count, kill_some, start};

#[test]
fn processes_killed_at_random_instants_stop_nobody_and_lose_nothing() {
    let mut random = Rng::of("processes_killed_at_random_instants");
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    let mut workers: Vec<_> =
        (0..WORKERS).map(|number| start(dir.path(), number, &mut random, None)).collect();
    let sweep = || _ = scene.region.sweep().unwrap();
    kill_some(&mut workers, dir.path(), &mut random, sweep);
    (0..WORKERS).for_each(|number| scene.wait_for_steps(number, 100));
    scene.stop(true);
    workers.into_iter().for_each(Actor::end_well);
    let participant = scene.region.join().unwrap();
    println!("{} kills: {:?}", kill_count(), scene.map(&participant).stats());
    drop(participant);
    scene.check_end("in the end");
}
