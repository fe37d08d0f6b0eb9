//! A process dies at each crash point, when it reaches the point the first time or a later time;
//! other processes continue.

use std::collections::BTreeSet;
use std::path::Path;

use crate::scene::Scene;
use forebay_testkit::Rng;
use forebay_testkit::process::Actor;
use forebay_testkit::workers::start;

/// Whether this build has crash points: only builds with debug assertions have them.
const HAS_CRASH_POINTS: bool = cfg!(debug_assertions);

/// The process dies when it reaches a point for the first or the sixth time.
const TIMES: &[u32] = &[1, 6];

/// Points that replacing and removing changes must reach too: the first changes only insert.
const AFTER_MANY: &[&str] = &[
    "change.armed",
    "change.turned",
    "change.published",
    "change.counted",
    "change.in_limbo",
    "change.old_freed",
    "object.raised",
    "hint.taken_out",
];

/// Points that are passed once, when a map is created.
const AT_FIRST: &[&str] = &["map.written", "map.live"];

/// Points in a repair, each with the point at which another process must have died before.
const IN_REPAIR: &[(&str, &str)] = &[
    ("repair.finished", "change.published:500"),
    ("repair.undoing", "change.armed:500"),
    ("repair.settled", "object.noted:5"),
    ("repair.rebuilt", "limbo.freed:5"),
];

/// The points in the sources.
fn points() -> BTreeSet<String> {
    let mut points = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for mark in ["step!(\"", "crash_point!(\""] {
                for after in text.split(mark).skip(1) {
                    points.extend(after.split('"').next().map(str::to_owned));
                }
            }
        }
    }
    points
}

#[test]
fn a_death_at_a_crash_point_leaves_nothing_behind() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let mut random = Rng::of("a_death_at_a_crash_point");
    let points = points();
    assert!(points.len() > 25, "{points:?}");
    for point in &points {
        let dir = tempfile::tempdir().unwrap();
        let scene = Scene::open(dir.path());
        if AT_FIRST.contains(&&**point) {
            start(dir.path(), 2, &mut random, Some(point)).end_killed();
            go_on(&scene, dir.path(), &mut random, None);
        } else if let Some((_, before)) = IN_REPAIR.iter().find(|(name, _)| name == point) {
            die_in_repair(&scene, dir.path(), point, before, &mut random);
        } else {
            for times in TIMES {
                die_at(&scene, dir.path(), point, *times, &mut random);
            }
            if AFTER_MANY.contains(&&**point) {
                die_at(&scene, dir.path(), point, 500, &mut random);
            }
        }
        scene.check_end(point);
    }
}

/// Kills one process by SIGKILL and the next one at the point, while a third one works and must go
/// on.
fn die_at(scene: &Scene, dir: &Path, point: &str, times: u32, random: &mut Rng) {
    scene.stop(false);
    let first = start(dir, 0, random, None);
    scene.wait_for_steps(0, 100);
    let witness = start(dir, 1, random, None);
    first.kill();
    // A dead participant is swept once.
    let times = if point.starts_with("sweep.") { 1 } else { times };
    let witness = if times == 1 && point.starts_with("sweep.") {
        witness.kill();
        None
    } else {
        Some(witness)
    };
    // The process does not end by itself, so it has reached the point.
    start(dir, 2, random, Some(&format!("{point}:{times}"))).end_killed();
    go_on(scene, dir, random, witness);
}

fn die_in_repair(scene: &Scene, dir: &Path, point: &str, before: &str, random: &mut Rng) {
    scene.stop(false);
    start(dir, 2, random, Some(before)).end_killed();
    start(dir, 2, random, Some(point)).end_killed();
    go_on(scene, dir, random, None);
}

fn go_on(scene: &Scene, dir: &Path, random: &mut Rng, witness: Option<Actor>) {
    scene.stop(false);
    let witness = witness.unwrap_or_else(|| start(dir, 1, random, None));
    scene.wait_for_steps(1, 100);
    let next = start(dir, 2, random, None);
    scene.wait_for_steps(2, 100);
    scene.stop(true);
    [witness, next].into_iter().for_each(Actor::end_well);
}
