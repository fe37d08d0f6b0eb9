//! A process dies in the walk of a purge by tag. Its purge stays announced, and the next purge by
//! that tag removes the remaining records.

use std::path::Path;

use forebay_cache::{
    CollapseResult, Fill, JoinTerms, Lookup, RecordTags, RecordTimes, Selection, Store,
    StoreConfig, StoreWorker,
};
use forebay_testkit::process::Actor;

use crate::points::HAS_CRASH_POINTS;
use crate::scene::config;

/// More resources than a walk copies from the key index in one batch.
const RESOURCES: usize = 150;

/// The resources that the purge has reached when the process dies.
const REACHED: &[usize] = &[1, 64, 100];

/// More purges than the ring has slots.
const MANY: usize = 1100;

fn open(dir: &Path) -> Store {
    let path = Some(dir.join("store/region"));
    Store::open(StoreConfig { path, ..config() }).expect("a store")
}

fn key(number: usize) -> Vec<u8> {
    format!("site\0http\0host\0/{number:03}").into_bytes()
}

fn red() -> Selection {
    Selection { within: Vec::new(), tags: Some("red".parse().expect("a tag expression")) }
}

/// Begins to fetch a response with the tag.
fn begin(worker: &StoreWorker, key: &[u8]) -> Fill {
    let CollapseResult::Leader(leader, _) = worker.collapse(key, None, None, JoinTerms::at(0))
    else {
        panic!("no leader, although the key has no other fetch");
    };
    let times = RecordTimes { response_time: 1, stale_from: 1_000_000 };
    let mut fill = leader.begin(b"head", None, None, times).expect("a fill");
    fill.tag(RecordTags::new([&b"red"[..]]).expect("a tag"));
    fill
}

fn stored_count(worker: &StoreWorker) -> usize {
    let is_stored = |number: &usize| !matches!(worker.lookup(&key(*number)), Lookup::Miss);
    (0..RESOURCES).filter(is_stored).count()
}

/// Purges by the tag.
pub(crate) fn run_role(dir: &Path) {
    let store = open(dir);
    let worker = store.join().expect("a place");
    worker.purge_selected(&red(), false, &mut |_| ()).expect("a purge");
}

#[test]
fn a_purge_that_died_in_its_walk_stores_nothing_and_the_next_one_removes_the_rest() {
    if !HAS_CRASH_POINTS {
        return;
    }
    for reached in REACHED {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        let worker = store.join().expect("a place");
        for number in 0..RESOURCES {
            assert!(begin(&worker, &key(number)).finish());
        }
        let (early, late) = (begin(&worker, b"early"), begin(&worker, b"late"));
        let crash_at = format!("purge.resource:{reached}");
        let environment = [("FOREBAY_CRASH_AT", &*crash_at)];
        Actor::start_with("purge", dir.path(), &environment).end_killed();
        assert_eq!(stored_count(&worker), RESOURCES - reached, "the dead purge has reached some");
        assert!(!early.finish(), "{reached}: fetched before the dead purge, and stored");
        // The slot of the dead purge is overwritten.
        for _ in 0..MANY {
            worker.purge(b"another").expect("a purge");
        }
        assert!(!late.finish(), "{reached}: fetched before the dead purge, and stored");
        assert!(begin(&worker, b"new").finish(), "{reached}: fetched after it, and not stored");
        worker.purge_selected(&red(), false, &mut |_| ()).expect("a purge");
        assert_eq!(stored_count(&worker), 0, "{reached}");
        assert_eq!(store.sweep().expect("a sweep"), 1);
        worker.mend();
        while worker.turn(0, |_| ()) {}
        let report = worker.check_key_index().expect("the key index");
        assert_eq!((report.left_over, report.faults), (0, Vec::new()), "{reached}");
    }
}
