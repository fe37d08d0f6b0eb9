//! Models of rules 1, 2 and 5: a pinned record stays; words are swapped under a pin; a remover
//! reads a changed word again.

use super::*;
use forebay_sync::atomic::Ordering;
use forebay_sync::model::{breaks, breaks_within, fails, holds, holds_within};

/// The reclaimer removes the word and, if the segment is not pinned, puts the record of another key
/// into the same location, under an equal word. Returns whether the location was reused.
fn reuse(store: &Store, row: &Row) -> bool {
    store.index.remove_location(hash(), 0);
    store.pins.barrier();
    !store.pins.is_pinned(0) && store.insert(row, OTHER_KEY, 0)
}

/// Runs `work` on a key in one thread, while the segment of its record is reused for another key.
fn against_reuse(work: fn(&Store, &Row)) {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, work);
    let is_other_in = reuse(&store, &row);
    thread.join().unwrap();
    assert_eq!(store.read(&row, KEY), None, "it was taken out");
    assert_eq!(store.read(&row, OTHER_KEY), is_other_in.then_some(1), "a stranger was taken out");
}

fn reader() {
    against_reuse(|store, row| {
        store.read(row, KEY);
    });
}

fn remover() {
    against_reuse(|store, row| {
        store.index.remove(row, &store.key(KEY));
    });
}

/// Models a thread that counts uses while the reclaimer reuses the segment.
fn counter() {
    against_reuse(|store, row| {
        if let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
            store.index.count_use(&hit);
        }
    });
}

/// Models an inserter that finds the location of its key reused by another key.
fn inserter() {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, |store, row| assert!(store.insert(row, KEY, 1)));
    let is_other_in = reuse(&store, &row);
    thread.join().unwrap();
    assert_eq!(store.read(&row, KEY), Some(2));
    assert_eq!(store.read(&row, OTHER_KEY), is_other_in.then_some(1), "a stranger was taken out");
}

/// Checks that each of two readers, one for each key, finds the record of its key, or nothing.
fn two_readers() {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let first = run(&store, 1, |store, row| store.read(row, KEY));
    let second = run(&store, 2, |store, row| store.read(row, OTHER_KEY));
    reuse(&store, &row);
    first.join().unwrap();
    second.join().unwrap();
}

/// Models an insert into two full buckets, whose words have other fingerprints than the new word.
/// The word with the fewest uses is evicted, and its segment is reused while another thread reads
/// the record.
fn a_full_pair() {
    let store = store();
    let row = store.row(0);
    (0..3).for_each(|location| insert_stranger(&store, &row, location));
    assert!(store.insert(&row, KEY, 3));
    let reader = run(&store, 1, |store, row| store.read(row, KEY));
    insert_stranger(&store, &row, 4);
    assert_eq!(store.read(&row, KEY), None, "it gave way");
    store.pins.barrier();
    if !store.pins.is_pinned(3) {
        store.index.records().write(3, Record { key: OTHER_KEY, sequence: 9 });
    }
    reader.join().unwrap();
    assert_eq!(store.live_locations().len(), 4);
}

/// Inserts a record with a fingerprint of its own, and counts a use of it.
fn insert_stranger(store: &Store, row: &Row, location: u32) {
    store.index.records().write(location, Record { key: OTHER_KEY, sequence: 1 });
    let key = IndexKey::new(KeyHash::new(u64::from(location) + 20), |_| true);
    let new = InsertRequest { location, size_class: 0, sequence: 1 };
    let unchecked = store.index.insert(row, &key, &new).unwrap();
    assert!(store.index.make_live(row, &key, unchecked));
    let hit = store.index.lookup(row, &key).unwrap();
    store.index.count_use(&hit);
}

/// Runs `remove` against `work`, which moves the record or counts a use of it.
fn remover_against(work: fn(&Store, &Row), remove: fn(&Store, &Row)) {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, work);
    remove(&store, &row);
    thread.join().unwrap();
    assert_eq!(store.live_locations(), [0; 0], "it survived its removal");
}

fn moves(store: &Store, row: &Row) {
    let Some(hit) = store.index.lookup(row, &store.key(KEY)) else {
        return;
    };
    let copy = store.index.records().read(hit.at());
    store.index.records().write(1, copy);
    store.index.move_to(&hit, 1, 0);
}

fn counts(store: &Store, row: &Row) {
    if let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
        store.index.count_use(&hit);
    }
}

fn removes(store: &Store, row: &Row) {
    store.index.remove(row, &store.key(KEY));
}

#[test]
fn a_pinned_record_is_not_reused() {
    holds("index: a reader, and the segment is used again", reader);
    holds("index: a use is counted, and the segment is used again", counter);
    holds_within(Some(3), "index: two readers, and the segment is used again", two_readers);
    holds_within(Some(3), "index: an insert, and the segment is used again", inserter);
    holds("index: a full pair of buckets", a_full_pair);
}

#[test]
fn a_stalled_remover_removes_no_other_record() {
    holds_within(Some(4), "index: a remover, and the segment is used again", remover);
}

#[test]
fn a_remover_reads_again() {
    holds("index: remove against move", || remover_against(moves, removes));
    holds("index: remove against a counted use", || remover_against(counts, removes));
}

#[test]
fn each_ordering_of_reuse_is_needed() {
    breaks("index.look", "index: a reader, and the segment is used again", reader);
    breaks_within(
        Some(4),
        "index.publish",
        "index: a remover, and the segment is used again",
        remover,
    );
}

#[test]
fn models_of_wrong_swaps_fail() {
    fails("index: a use counted by a store", || {
        against_reuse(|store, row| {
            if let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
                let used = hit.word().with_uses(1).bits();
                store.words.word(hit.slot()).store(used, Relaxed);
            }
        });
    });
    fails("index: a remover that swaps after its pin", || {
        against_reuse(|store, row| {
            let Some(hit) = store.index.lookup(row, &store.key(KEY)) else {
                return;
            };
            let (slot, word) = (hit.slot(), hit.word());
            drop(hit);
            store.index.swap_exactly(slot, word, IndexWord::EMPTY, Ordering::Relaxed);
        });
    });
    fails("index: remove against move, without reading again", || {
        remover_against(moves, |store, row| {
            if let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
                store.index.remove_hit(&hit);
            }
        });
    });
}
