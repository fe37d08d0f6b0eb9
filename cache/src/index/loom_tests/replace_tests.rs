//! Models of rules 3, 4 and 6: of several records of a key, the record with the highest sequence
//! stays, and a reader never sees a torn record.

use super::*;
use forebay_sync::atomic::Ordering;
use forebay_sync::model::{breaks, breaks_within, fails_within, holds, holds_within};

/// Runs this number of inserters of one key. The record in location n has the sequence n + 1. The
/// record with the highest sequence stays, and its inserter learns that it stays.
fn inserters(count: u32) {
    let store = store();
    let others: Vec<_> = (0..count - 1)
        .map(|location| {
            run(&store, location as usize, move |store, row| store.insert(row, KEY, location))
        })
        .collect();
    let highest = count - 1;
    let is_in = store.insert(&store.row(highest as usize), KEY, highest);
    others.into_iter().for_each(|other| drop(other.join().unwrap()));
    assert!(is_in, "the highest gave way");
    assert_eq!(store.live_locations(), [highest], "exactly the highest stays");
}

/// Models an inserter that dies after it made its record live, before it searches for other records
/// of the key. The cleanup searches instead.
fn an_inserter_dies() {
    let store = store();
    let row = store.row(0);
    let other = run(&store, 1, |store, row| store.insert(row, KEY, 1));
    if let Ok(unchecked) = store.publish(&row, KEY, 0) {
        store.index.go_live(unchecked);
    }
    let found = store.index.find_location(&row, hash(), 0);
    found.inspect(|hit| drop(store.index.resolve_duplicates(&row, &store.key(KEY), hit)));
    assert!(other.join().unwrap());
    assert_eq!(store.live_locations(), [1], "exactly the higher stays");
}

/// Models two inserters of a key, and a thread that replaces the live record of the key, if there
/// is one, by a record with the highest sequence.
fn inserters_and_a_replacement(replaces: fn(&Store, &Row, u32) -> bool) {
    let store = store();
    let lower = run(&store, 0, |store, row| store.insert(row, KEY, 0));
    let higher = run(&store, 1, |store, row| store.insert(row, KEY, 1));
    let is_replaced = replaces(&store, &store.row(2), 2);
    lower.join().unwrap();
    higher.join().unwrap();
    assert_eq!(store.live_locations(), [if is_replaced { 2 } else { 1 }], "exactly the highest");
}

/// Derives a new record from the stored one, and replaces the stored one.
fn replaces(store: &Store, row: &Row, location: u32) -> bool {
    let hit = store.index.lookup(row, &store.key(KEY));
    hit.is_some_and(|hit| store.replace(row, &hit, location))
}

fn moves(store: &Store, row: &Row) {
    let hit = store.index.lookup(row, &store.key(KEY)).unwrap();
    let copy = store.index.records().read(hit.at());
    store.index.records().write(1, copy);
    assert!(store.index.move_to(&hit, 1, 0));
}

/// Checks that a reader always finds the record while `work` moves or replaces it in one step.
fn reader_during(work: fn(&Store, &Row)) {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, work);
    assert!(store.read(&row, KEY).is_some(), "the reader saw neither");
    thread.join().unwrap();
}

fn reader_during_move() {
    reader_during(moves);
}

fn reader_during_replacement() {
    reader_during(|store, row| assert!(replaces(store, row, 1)));
}

/// Checks that a reader finds the old record, the new record, or none, during an insert over an
/// existing record.
fn reader_during_insert() {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, |store, row| assert!(store.insert(row, KEY, 1)));
    store.read(&row, KEY);
    thread.join().unwrap();
    assert_eq!(store.read(&row, KEY), Some(2));
}

/// Checks that a record does not survive its removal if a record of the same key with a higher
/// sequence is inserted at the same time.
fn remove_against_insert() {
    let store = store();
    let row = store.row(0);
    assert!(store.insert(&row, KEY, 0));
    let thread = run(&store, 1, |store, row| store.insert(row, KEY, 1));
    store.index.remove(&row, &store.key(KEY));
    assert_ne!(store.read(&row, KEY), Some(1), "found after its removal");
    thread.join().unwrap();
    assert!(!store.live_locations().contains(&0), "it survived its removal");
}

#[test]
fn one_record_of_two_inserters_stays() {
    holds_within(Some(4), "index: two inserters", || inserters(2));
    holds_within(Some(3), "index: an inserter dies", an_inserter_dies);
}

#[test]
fn one_record_of_three_inserters_stays() {
    holds_within(Some(2), "index: three inserters", || inserters(3));
}

#[test]
fn a_replacement_counts_among_inserters() {
    holds_within(Some(2), "index: two inserters and a replacement", || {
        inserters_and_a_replacement(replaces);
    });
    fails_within(Some(2), "index: a replacement that does not look again", || {
        inserters_and_a_replacement(|store, row, location| {
            let key = store.key(KEY);
            store.index.records().write(location, Record { key: KEY, sequence: 3 });
            let new = IndexWord::new(hash().fingerprint(), WordState::Live, location, 0);
            store.index.lookup(row, &key).is_some_and(|hit| {
                store.index.swap(hit.slot(), hit.word(), |_| new, Ordering::Release)
            })
        });
    });
}

#[test]
fn a_reader_finds_a_record_during_its_replacement() {
    holds("index: a reader during a move", reader_during_move);
    holds("index: a reader during a replacement", reader_during_replacement);
    holds("index: a reader during an insert", reader_during_insert);
    holds("index: remove against insert", remove_against_insert);
}

#[test]
fn each_ordering_of_replacing_is_needed() {
    breaks_within(Some(4), "index.look_again", "index: two inserters", || inserters(2));
    breaks("index.move", "index: a reader during a move", reader_during_move);
    breaks("index.replace", "index: a reader during a replacement", reader_during_replacement);
}
