//! A stopped reader keeps only the entries that it holds; a dead one keeps none.

use std::path::Path;

use forebay_ordmap::Map;
use rustix::process::Signal;

use crate::scene::{KEYS, Scene, key_of, value_of};
use forebay_testkit::process::Actor;

/// The number of entries that may wait although no lease holds them: a batch.
const BATCH: u64 = 64;

/// Stores this version of all keys.
fn fill(map: &Map<'_>, version: u64) {
    for key in 0..KEYS {
        map.insert(&key_of(0, key), &value_of(0, key, version).unwrap()).unwrap();
    }
}

/// A process that holds three entries of the first version.
fn reader_of_three(dir: &Path, map: &Map<'_>) -> Actor {
    fill(map, 1);
    let mut reader = Actor::start("hold", dir);
    assert_eq!(reader.hear().as_deref(), Some("holding 3"));
    reader
}

#[test]
fn a_stopped_reader_keeps_what_it_holds_and_a_dead_one_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    let participant = scene.region.join().unwrap();
    let map = scene.map(&participant);
    let reader = reader_of_three(dir.path(), &map);
    reader.signal(Signal::STOP);
    for version in [2, 3, 5, 6, 7] {
        fill(&map, version);
        assert!(map.stats().waiting_count <= BATCH + 3, "{:?}", map.stats());
    }
    map.reclaim().unwrap();
    assert_eq!(map.stats().waiting_count, 3, "the stopped reader holds three");
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
    reader.kill();
    assert_eq!(map.reclaim().unwrap(), 3, "a dead reader holds nothing");
    assert_eq!(scene.region.sweep().unwrap(), 0, "reclaiming has swept already");
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.entries, report.waiting), (KEYS as u64, 0), "{report}");
}

/// No process calls the sweep: changes look for dead participants.
#[test]
fn a_change_frees_entries_that_a_dead_reader_held() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    let participant = scene.region.join().unwrap();
    let map = scene.map(&participant);
    let reader = reader_of_three(dir.path(), &map);
    reader.kill();
    for version in [2, 3, 5, 6, 7, 9, 10, 11] {
        fill(&map, version);
    }
    assert_eq!(scene.region.sweep().unwrap(), 0, "a change has swept already");
    assert!(map.stats().waiting_count < BATCH, "{:?}", map.stats());
}

/// As many processes die as there are rows: processes that join later find a free row without a
/// call of `sweep`.
#[test]
fn dead_ones_keep_no_place_from_the_living() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    scene.map(&scene.region.join().unwrap());
    for _ in 0..scene.region.config().participants_max + 2 {
        let mut reader = Actor::start("hold", dir.path());
        assert_eq!(reader.hear().as_deref(), Some("holding 0"));
        reader.kill();
    }
    scene.region.join().unwrap();
}
