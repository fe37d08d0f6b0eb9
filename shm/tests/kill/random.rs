//! Processes are killed at random times while others work.

use forebay_shm::{Liveness, Participant};
use rustix::process::Signal;
use std::time::Duration;

use super::shared::{PROGRESS, Shared, fresh, names_beside};
use forebay_testkit::process::{Actor, PATIENCE, now};

const WORKERS: usize = 4;

/// The number of processes to kill; `FOREBAY_KILLS=1000` makes a longer run.
fn kill_count() -> u64 {
    let usual = if cfg!(tsan) { 20 } else { 200 };
    std::env::var("FOREBAY_KILLS").map_or(usual, |count| count.parse().unwrap())
}

/// The seed, which is printed, and taken from `FOREBAY_SEED` if that is set. The same seed repeats
/// the times, but not the machine's load.
fn seed() -> u64 {
    let given = std::env::var("FOREBAY_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| now().as_nanos() as u64);
    println!("FOREBAY_SEED={seed}");
    seed
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn start(number: usize, path: &std::path::Path) -> Actor {
    let number = number.to_string();
    let mut worker = Actor::start_with("churn", path, &[("FOREBAY_NUMBER", &number)]);
    assert_eq!(worker.hear().as_deref(), Some("ready"));
    worker
}

/// Whether the kernel reports this process as stopped.
fn is_stopped(worker: &Actor) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", worker.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // The process has further threads, one of which does the work. They stop at the same signal,
    // soon after the first thread.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap();
    let all_stop = tasks.filter_map(Result::ok).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with('T'))
    });
    fields.trim_start().starts_with('T') && all_stop
}

/// Kills a process while all other processes are stopped, so that only this process can detect the
/// death. Returns whether the dead process held the lock.
fn kill_while_others_stand(
    shared: &Shared,
    us: &Participant,
    victim: Actor,
    others: &[Actor],
) -> bool {
    others.iter().for_each(|other| other.signal(Signal::STOP));
    let deadline = now() + PATIENCE;
    while !others.iter().all(is_stopped) {
        assert!(now() < deadline, "the other workers do not stop");
        std::thread::yield_now();
    }
    victim.kill();
    let lock = shared.lock();
    let owner = lock.owner();
    let held_by_dead = owner.is_some_and(|owner| !us.is_alive(owner));
    if held_by_dead {
        assert!(shared.work(us), "the owner died, but no repair is needed");
    }
    if held_by_dead || owner.is_none() {
        assert!(!shared.work(us), "a repair is needed, but no owner died since the last");
    }
    others.iter().for_each(|other| other.signal(Signal::CONT));
    held_by_dead
}

#[test]
fn processes_killed_at_random_instants_stop_nobody_and_leave_nothing() {
    let mut random = Random(seed());
    let (_dir, path) = fresh();
    let shared = Shared::open(&path);
    let us = shared.region.join().unwrap();
    let mut workers: Vec<_> = (0..WORKERS).map(|number| start(number, &path)).collect();
    let mut held_count = 0;
    for round in 0..kill_count() {
        let number = random.below(WORKERS as u64) as usize;
        let instant = Duration::from_micros(random.below(3000));
        assert!(!workers[number].ends_within(instant), "kill {round}: the worker ended by itself");
        let victim = workers.remove(number);
        if round.is_multiple_of(2) {
            held_count += u64::from(kill_while_others_stand(&shared, &us, victim, &workers));
        } else {
            victim.kill();
            shared.work(&us);
        }
        workers.insert(number, start(number, &path));
        if round.is_multiple_of(8) {
            shared.sweep();
        }
    }
    everyone_goes_on(&shared);
    shared.stop();
    workers.into_iter().for_each(Actor::end_well);
    shared.work(&us);
    shared.sweep();
    us.leave();
    shared.assert_nothing_is_left("at the end");
    assert_eq!(names_beside(&path), ["region"]);
    let told_count = shared.told_count();
    let generation = shared.generation();
    println!(
        "{} kills, {held_count} of owners seen, {told_count} repairs, segment reused {generation} \
         times",
        kill_count()
    );
    assert!(generation > 1, "the segment was never reused");
    assert!(told_count >= held_count && told_count <= kill_count());
}

fn everyone_goes_on(shared: &Shared) {
    let deadline = now() + PATIENCE;
    for number in 0..WORKERS {
        let before = shared.load(PROGRESS + number);
        while shared.load(PROGRESS + number) == before {
            assert!(now() < deadline, "worker {number} hangs");
            std::thread::yield_now();
        }
    }
}
