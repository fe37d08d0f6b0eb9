//! At each crash point a process dies. Other processes detect the death, repair the data once if
//! needed, and sweep.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_shm::Liveness;

use super::shared::{Shared, fresh, names_beside};
use forebay_testkit::process::{Actor, PATIENCE};

/// Whether this build has crash points.
pub(crate) const HAS_CRASH_POINTS: bool = cfg!(all(debug_assertions, not(tsan)));

/// The state of the region's path before the process starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    /// No file.
    Nothing,
    /// A file that is not a region.
    Garbage,
    /// A region without participants.
    Region,
    /// A region whose lock the test holds.
    WeHold,
    /// A region whose lock a dead participant holds.
    DeadHolds,
    /// A region with a dead participant that holds nothing.
    Dead,
}

/// The crash points, each with the state before, and with whether the next owner must repair.
const POINTS: &[(&str, Before, bool)] = &[
    ("region.dir_locked", Before::Nothing, false),
    ("region.moved", Before::Garbage, false),
    ("region.file_made", Before::Nothing, false),
    ("region.allocated", Before::Nothing, false),
    ("region.written", Before::Nothing, false),
    ("region.named", Before::Nothing, false),
    ("join.byte_locked", Before::Region, false),
    ("join.row_written", Before::Region, false),
    ("join.taken", Before::Region, false),
    ("test.pinned", Before::Region, false),
    ("test.leased", Before::Region, false),
    ("test.taken_out", Before::Region, true),
    ("test.rewritten", Before::Region, true),
    ("lock.waiting", Before::WeHold, false),
    ("lock.woken", Before::WeHold, false),
    ("lock.acquired", Before::Region, true),
    ("lock.acquired_to_repair", Before::DeadHolds, true),
    ("lock.repaired", Before::DeadHolds, true),
    ("test.torn", Before::Region, true),
    ("lock.before_unlock", Before::Region, true),
    ("lock.unlocked", Before::Region, false),
    ("sweep.byte_locked", Before::Dead, false),
    ("sweep.marked", Before::Dead, false),
    ("sweep.cleaned", Before::Dead, false),
    ("sweep.row_free", Before::Dead, false),
    ("leave.row_free", Before::Region, false),
];

/// Kills a process at one crash point of its life.
fn die_at(point: &str, before: Before, path: &Path) {
    let dying = |path: &Path| Actor::start_with("once", path, &[("FOREBAY_CRASH_AT", point)]);
    match before {
        Before::Nothing => dying(path).end_killed(),
        Before::Garbage => {
            drop(Shared::open(path));
            std::fs::write(path, "no region").unwrap();
            dying(path).end_killed();
        }
        Before::Region => {
            drop(Shared::open(path));
            dying(path).end_killed();
        }
        Before::WeHold => {
            let shared = Shared::open(path);
            let participant = shared.region.join().unwrap();
            let lock = shared.lock();
            let guard = lock.lock(&participant).unwrap();
            dying(path).end_killed();
            drop(guard);
            participant.leave();
        }
        Before::DeadHolds => {
            let holder = Actor::start_with("once", path, &[("FOREBAY_CRASH_AT", "test.torn")]);
            holder.end_killed();
            dying(path).end_killed();
        }
        Before::Dead => {
            drop(Shared::open(path).region.join().unwrap());
            dying(path).end_killed();
        }
    }
}

#[test]
fn who_dies_at_a_crash_point_leaves_nothing_that_is_not_swept() {
    if !HAS_CRASH_POINTS {
        return;
    }
    for &(point, before, must_be_told) in POINTS {
        let (_dir, path) = fresh();
        die_at(point, before, &path);

        let shared = Shared::open(&path);
        let participant = shared.region.join().unwrap();
        let was_told = shared.work(&participant);
        assert_eq!(was_told, must_be_told, "{point}: whether a repair is needed");
        assert!(!shared.work(&participant), "{point}: a repair is needed a second time");
        shared.sweep();
        assert_eq!(shared.sweep(), 0, "{point}: swept twice");
        participant.leave();
        shared.assert_nothing_is_left(point);
        let names = names_beside(&path);
        let is_left = |name: &&String| !["region", "region.damaged"].contains(&name.as_str());
        assert_eq!(names.iter().find(is_left), None, "{point}: files are left");
    }
}

#[test]
fn a_point_that_is_passed_twice_kills_the_second_time() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let (_dir, path) = fresh();
    Actor::start_with("once", &path, &[("FOREBAY_CRASH_AT", "test.torn:2")]).end_killed();
    let shared = Shared::open(&path);
    let participant = shared.region.join().unwrap();
    assert_eq!(shared.generation(), 2, "the lock was not held exactly twice");
    assert!(shared.work(&participant));
    let wrong = Actor::start_with("once", &path, &[("FOREBAY_CRASH_AT", "test.torn:abc")]);
    assert!(
        wrong.end().code().is_some_and(|code| code != 0),
        "a malformed FOREBAY_CRASH_AT was accepted"
    );
    shared.sweep();
}

/// A sweep frees the lock before the next owner takes it. The sweeper dies right after that.
#[test]
fn a_lock_that_a_sweeper_freed_needs_repair_once() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let (_dir, path) = fresh();
    let shared = Shared::open(&path);
    Actor::start_with("once", &path, &[("FOREBAY_CRASH_AT", "test.torn")]).end_killed();
    Actor::start_with("sweep", &path, &[("FOREBAY_CRASH_AT", "lock.abandoned")]).end_killed();
    assert_eq!(shared.lock().owner(), None);
    let participant = shared.region.join().unwrap();
    assert!(shared.work(&participant), "no repair is needed after the sweep");
    assert!(!shared.work(&participant), "a repair is needed a second time");
    shared.sweep();
    participant.leave();
    shared.assert_nothing_is_left("lock.abandoned");
}

/// If the process that should wake a thread dies, the thread sleeps on, but not for long.
#[test]
fn a_waiter_goes_on_when_its_waker_or_the_woken_one_dies() {
    if !HAS_CRASH_POINTS {
        return;
    }
    for (role, point) in [("hold_until_waited", "lock.unlocked"), ("once", "lock.woken")] {
        let (_dir, path) = fresh();
        let shared = Shared::open(&path);
        let participant = shared.region.join().unwrap();
        let lock = shared.lock();
        let guard = (role == "once").then(|| lock.lock(&participant).unwrap());
        let mut dying = Actor::start_with(role, &path, &[("FOREBAY_CRASH_AT", point)]);
        if role == "hold_until_waited" {
            assert_eq!(dying.hear().as_deref(), Some("holding"));
        }
        let waiter = Actor::start("once", &path);
        dying.end_killed();
        drop(guard);
        waiter.end_well();
        let guard = lock.lock_within(&participant, PATIENCE).unwrap();
        assert!(!guard.must_repair(), "{point}");
        drop(guard);
        shared.sweep();
        participant.leave();
        shared.assert_nothing_is_left(point);
    }
}

#[test]
fn every_crash_point_is_used() {
    let mut in_source = BTreeSet::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.join("src"), here.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // The name is in two pieces, so that this line does not count.
            for after in text.split(concat!("crash_", "point!(\"")).skip(1) {
                in_source.insert(after.split('"').next().unwrap().to_owned());
            }
        }
    }
    let mut used: BTreeSet<_> = POINTS.iter().map(|(point, ..)| (*point).to_owned()).collect();
    used.insert("lock.abandoned".to_owned());
    used.insert("region.cleared".to_owned());
    assert_eq!(in_source, used);
}

#[test]
fn a_waiter_is_told_at_most_one_sleep_after_a_death() {
    let (_dir, path) = fresh();
    let shared = Shared::open(&path);
    let participant = shared.region.join().unwrap();
    let mut holder = Actor::start("hold_and_spawn", &path);
    let grandchild = holder.hear().unwrap();
    assert!(!grandchild.is_empty());
    let stdin = holder.take_stdin();
    assert_ne!(shared.lock().owner(), None);
    holder.kill();
    let lock = shared.lock();
    let mut guard = lock.lock_within(&participant, PATIENCE).unwrap();
    assert!(guard.must_repair());
    assert_eq!(lock.owner(), Some(participant.id()));
    guard.repaired();
    drop(stdin);
}
