//! Processes are killed at random times while others work.

use crate::scene::{Scene, WORKERS};
use forebay_testkit::Rng;
use forebay_testkit::process::Actor;
use forebay_testkit::workers::{kill_some, start};

#[test]
fn processes_killed_at_random_block_no_other_and_leave_nothing() {
    let mut random = Rng::of("processes_killed_at_random_instants");
    let dir = tempfile::tempdir().expect("a directory");
    let scene = Scene::open(dir.path());
    let mut workers: Vec<_> =
        (0..WORKERS as usize).map(|number| start(dir.path(), number, &mut random, None)).collect();
    let sweep = || _ = scene.store.sweep().expect("a sweep");
    kill_some(&mut workers, dir.path(), &mut random, sweep);
    (0..WORKERS).for_each(|number| scene.wait_for_steps(number, 100));
    scene.stop(true);
    workers.into_iter().for_each(Actor::end_well);
    scene.check_end("in the end");
}
