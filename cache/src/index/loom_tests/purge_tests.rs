//! Models of an insert during a purge. All purges are simplified to one sequence number.

use super::*;
use forebay_sync::atomic::{Ordering, fence};
use forebay_sync::model::{breaks, fails, fails_within, holds};

/// The state of purges.
struct Purges {
    /// The number of the last purge; 0 before the only purge.
    sequence: AtomicU64,
    /// Set once the purge is complete.
    is_done: AtomicU64,
}

/// The old content, in location 0, was made before the purge. The origin returns the new content to
/// a fill that saw the purge before it asked.
const STALE: u32 = 0;
const NEW: u32 = 1;

fn fill(store: &Store, row: &Row, purges: &Purges, insert: Insert) {
    let noted = purges.sequence.load(Ordering::Acquire);
    let location = if noted == 0 { STALE } else { NEW };
    insert(store, row, location, &|| purges.sequence.load(Ordering::Acquire) == noted);
}

type Insert = fn(&Store, &Row, u32, &dyn Fn() -> bool);

/// Publishes a record, checks the purges, then makes the record live or withdraws it.
fn checked(store: &Store, row: &Row, location: u32, is_newest: &dyn Fn() -> bool) {
    let Ok(unchecked) = store.publish(row, KEY, location) else {
        return;
    };
    if is_newest() {
        store.index.make_live(row, &store.key(KEY), unchecked);
    } else {
        store.index.withdraw(unchecked);
    }
}

fn purge(store: &Store, row: &Row, purges: &Purges, walk: fn(&Store, &Row)) {
    purges.sequence.store(1, Ordering::Release);
    fence("model.purge");
    walk(store, row);
    purges.is_done.store(1, Ordering::Release);
}

fn removes(store: &Store, row: &Row) {
    store.index.remove(row, &store.key(KEY));
}

fn removes_by_bucket(store: &Store, row: &Row) {
    let key = store.key(KEY);
    store.index.remove_where(row, 0..BUCKETS, |hit| key.is_at(hit.at()));
}

fn purge_against_fill(insert: Insert, walk: fn(&Store, &Row)) {
    let store = store();
    let purges = Arc::new(Purges { sequence: AtomicU64::new(0), is_done: AtomicU64::new(0) });
    let (of_fill, of_purge) = (Arc::clone(&purges), Arc::clone(&purges));
    let filling = run(&store, 1, move |store, row| fill(store, row, &of_fill, insert));
    let purging = run(&store, 2, move |store, row| purge(store, row, &of_purge, walk));
    let row = store.row(0);
    if purges.is_done.load(Ordering::Acquire) == 1 {
        assert_ne!(store.read(&row, KEY), Some(1), "found after its purge");
    }
    filling.join().unwrap();
    purging.join().unwrap();
    assert_ne!(store.read(&row, KEY), Some(1), "it survived its purge");
}

fn by_key() {
    purge_against_fill(checked, removes);
}

#[test]
fn no_lookup_finds_a_record_that_was_purged_before() {
    holds("index: purge by key against insert", by_key);
    holds("index: purge by bucket against insert", || {
        purge_against_fill(checked, removes_by_bucket);
    });
}

#[test]
fn each_ordering_of_unchecked_words_is_needed() {
    breaks("index.unchecked", "index: purge by key against insert", by_key);
    breaks("model.purge", "index: purge by key against insert", by_key);
}

#[test]
fn models_of_wrong_checks_fail() {
    fails_within(Some(3), "index: live before the purges are checked", || {
        purge_against_fill(
            |store, row, location, is_newest| {
                let inserted = store.insert(row, KEY, location);
                if inserted && !is_newest() {
                    store.index.remove_location(hash(), location);
                }
            },
            removes,
        );
    });
    fails("index: the purges are checked before publishing", || {
        purge_against_fill(
            |store, row, location, is_newest| {
                if is_newest() {
                    store.insert(row, KEY, location);
                }
            },
            removes,
        );
    });
    fails("index: a purge that passes over unchecked words", || {
        purge_against_fill(checked, |store, row| {
            while let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
                store.index.remove_hit(&hit);
            }
        });
    });
}
