//! Models of lookups during the check of records that were taken over from another process.

use forebay_sync::model::{breaks, fails, holds};

use super::*;
use crate::index::VerifiedSlots;

/// Checks that a lookup that trusts a verified slot does not find a damaged record. Another thread
/// removes the record and then extends the verified slots.
fn lookup_beside_the_check() {
    let (store, verified) = (store(), Arc::new(VerifiedSlots::none()));
    assert!(store.insert(&store.row(0), KEY, 0));
    let (of_check, to_extend) = (Arc::clone(&store), Arc::clone(&verified));
    let checking = thread::spawn(move || {
        let row = of_check.row(1);
        let hit = of_check.index.lookup(&row, &of_check.key(KEY));
        assert!(of_check.index.remove_hit(&hit.expect("no other thread removes it")));
        to_extend.set_end(u64::MAX);
    });
    // If the barrier of a pin is not a fence, a lookup executes no fence, so the model has none.
    let is_verified = verified.end() == u64::MAX;
    let is_named = (0..BUCKETS).any(|at| store.index.bucket(at).iter().any(|w| !w.is_empty()));
    assert!(!(is_verified && is_named), "a damaged record is trusted");
    checking.join().unwrap();
}

#[test]
fn a_lookup_trusts_no_record_that_the_check_removed() {
    let model = "index: a lookup beside the check of old records";
    holds(model, lookup_beside_the_check);
    for name in ["index.verified", "index.verify"] {
        breaks(name, model, lookup_beside_the_check);
    }
}

/// Runs `check`, which checks all slots and removes the only record, which is damaged, while
/// another thread moves this record.
fn check_beside_a_move(check: fn(&Store, &Row)) {
    let store = store();
    assert!(store.insert(&store.row(0), KEY, 0));
    let moving = run(&store, 1, |store, row| {
        let Some(hit) = store.index.lookup(row, &store.key(KEY)) else {
            return;
        };
        let copy = store.index.records().read(hit.at());
        store.index.records().write(1, copy);
        store.index.move_to(&hit, 1, 0);
    });
    check(&store, &store.row(0));
    moving.join().unwrap();
    assert!(store.all().is_empty(), "a damaged record is trusted");
}

fn removes_from_each_slot(store: &Store, row: &Row) {
    for slot in 0..BUCKETS * BUCKET_WORDS {
        let is_damaged = |hit: &IndexHit<'_>| store.index.records().read(hit.at()).key == KEY;
        store.index.remove_slot_if(row, slot, is_damaged);
    }
}

fn removes_each_hit_once(store: &Store, row: &Row) {
    for hit in store.index.hits(row, 0..BUCKETS) {
        store.index.remove_hit(&hit);
    }
}

#[test]
fn a_damaged_record_that_moves_during_the_check_is_removed() {
    holds("index: the check of old records beside a move", || {
        check_beside_a_move(removes_from_each_slot);
    });
    fails("index: a check that tries each removal once", || {
        check_beside_a_move(removes_each_hit_once);
    });
}
