//! At each crash point a process dies, when it reaches the point for the first, second or seventh
//! time. Other processes continue.

use std::collections::BTreeSet;
use std::path::Path;

use crate::scene::Scene;
use forebay_testkit::Rng;
use forebay_testkit::process::Actor;
use forebay_testkit::workers::start;

/// Whether this build has crash points: only debug builds have them.
pub(crate) const HAS_CRASH_POINTS: bool = cfg!(debug_assertions);

/// The process dies when it reaches its crash point for the first, second or seventh time.
const TIMES: &[u32] = &[1, 2, 7];

/// Points that a process reaches only if another one has died there before. A process dies there
/// when it reaches the point for the first time.
const AFTER_A_DEATH: &[&str] = &["segment.suspect", "segment.adopted"];

/// The names of all crash points in the sources of the store.
fn points() -> BTreeSet<String> {
    let mut points = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a text");
            for after in text.split("crash_point!(\"").skip(1) {
                points.extend(after.split('"').next().map(str::to_owned));
            }
        }
    }
    points
}

#[test]
fn a_process_killed_at_a_crash_point_leaves_nothing_behind() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let mut random = Rng::of("who_dies_at_a_crash_point_of_the_store");
    let points = points();
    assert!(points.len() > 20, "{points:?}");
    for point in &points {
        let dir = tempfile::tempdir().expect("a directory");
        let scene = Scene::open(dir.path());
        for times in TIMES {
            die_at(&scene, dir.path(), point, *times, &mut random);
        }
        scene.check_end(point);
    }
}

/// One process dies by SIGKILL, the next one at the crash point. A third process works at the same
/// time, unless it would keep the second one from reaching the point. The workers that remain must
/// make progress.
fn die_at(scene: &Scene, dir: &Path, point: &str, times: u32, random: &mut Rng) {
    scene.stop(false);
    let first = start(dir, 0, random, None);
    scene.wait_for_steps(0, 300);
    let is_after_death = AFTER_A_DEATH.contains(&point);
    let witness = (!is_after_death).then(|| start(dir, 1, random, None));
    first.kill();
    let times = if is_after_death { 1 } else { times };
    // A worker never ends by itself here, so a killed process has reached the crash point.
    start(dir, 2, random, Some(&format!("{point}:{times}"))).end_killed();
    let witness = witness.unwrap_or_else(|| start(dir, 1, random, None));
    scene.wait_for_steps(1, 200);
    let next = start(dir, 2, random, None);
    scene.wait_for_steps(2, 200);
    scene.stop(true);
    [witness, next].into_iter().for_each(Actor::end_well);
}
