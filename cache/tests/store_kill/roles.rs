//! The work of the processes of these tests.

use std::path::PathBuf;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::scene::Scene;
use crate::{variants, walks};
use forebay_testkit::Rng;
use forebay_testkit::process::SAY;

/// The number of steps of a worker between two sweeps of dead participants, and the number after
/// which it leaves its row and joins in another one.
const STEPS_BETWEEN_SWEEPS: u64 = 64;
const STEPS_IN_A_ROW: u64 = 2000;

/// Plays the role that the environment names, if any.
pub(crate) fn run() {
    let Ok(role) = std::env::var("FOREBAY_ROLE") else {
        return;
    };
    // No process stays behind when the test is stopped.
    set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal");
    let dir = PathBuf::from(std::env::var_os("FOREBAY_REGION").expect("a directory"));
    match &*role {
        "work" => work(&Scene::open(&dir)),
        "variant" => variants::run_role(&dir),
        "purge" => walks::run_role(&dir),
        other => panic!("there is no role {other}"),
    }
}

/// Stores, reads, purges and reclaims until it is told to stop.
fn work(scene: &Scene) {
    let number = std::env::var("FOREBAY_NUMBER").expect("a number").parse().expect("a number");
    let mut random = Rng::of("work");
    let mut actor = scene.actor(number, random.fork());
    actor.worker.mend();
    println!("{SAY}ready");
    let mut step = 0_u64;
    while !scene.is_stopped() {
        actor.step().expect("no violated promise");
        scene.count_step(number);
        step += 1;
        if step.is_multiple_of(STEPS_BETWEEN_SWEEPS) {
            scene.store.sweep().expect("a sweep");
            actor.worker.mend();
        }
        if step.is_multiple_of(STEPS_IN_A_ROW) {
            drop(actor);
            actor = scene.actor(number, random.fork());
        }
    }
}
