//! The roles of processes in these tests.

use std::io::Read;
use std::path::PathBuf;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::moved;
use crate::scene::{Scene, key_of};
use crate::worker::Worker;
use forebay_testkit::Rng;
use forebay_testkit::process::SAY;

/// The number of steps between two sweeps, and between two joins.
const STEPS_BETWEEN_SWEEPS: u64 = 64;
const STEPS_OF_A_MEMBER: u64 = 700;

/// Plays the role that the environment names; does nothing without one.
pub(crate) fn run() {
    let Ok(role) = std::env::var("FOREBAY_ROLE") else {
        return;
    };
    // No process outlives a stopped test.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let dir = PathBuf::from(std::env::var_os("FOREBAY_REGION").unwrap());
    match &*role {
        "work" => work(&Scene::open(&dir)),
        "hold" => hold(&Scene::open(&dir)),
        "move" => move_on(&Scene::open(&dir)),
        other => panic!("there is no role {other}"),
    }
}

/// Changes, reads and holds until it is told to stop.
fn work(scene: &Scene) {
    let number = std::env::var("FOREBAY_NUMBER").unwrap().parse().unwrap();
    let mut random = Rng::of("work");
    let mut is_ready = false;
    while !scene.is_stopped() {
        scene.region.sweep().unwrap();
        let participant = scene.region.join().unwrap();
        let map = scene.map(&participant);
        scene.settle(&map, number, "a successor");
        if !is_ready {
            println!("{SAY}ready");
            is_ready = true;
        }
        let mut worker = Worker::new(scene, &map, number, random.fork());
        for step in 1..STEPS_OF_A_MEMBER {
            if scene.is_stopped() {
                break;
            }
            worker.step();
            if step.is_multiple_of(STEPS_BETWEEN_SWEEPS) {
                scene.region.sweep().unwrap();
            }
        }
    }
}

/// Moves entries between shards until it is killed.
fn move_on(scene: &Scene) {
    let participant = scene.region.join().unwrap();
    moved::move_on(&scene.map(&participant));
}

/// Holds three entries until the end of input.
fn hold(scene: &Scene) {
    let participant = scene.region.join().unwrap();
    let map = scene.map(&participant);
    let entries: Vec<_> = (0..3).map(|key| map.entry(&key_of(0, key)).unwrap()).collect();
    println!("{SAY}holding {}", entries.iter().flatten().count());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
