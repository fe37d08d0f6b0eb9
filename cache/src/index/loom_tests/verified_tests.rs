//! Lookups beside the check of records that were taken over from another process.

use forebay_sync::model::{breaks, holds};

use super::*;
use crate::index::VerifiedSlots;

/// A thread removes a damaged record and extends the verified slots; a lookup that trusts the slot
/// does not find the record.
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
    // Where the barrier of a pin is no fence, a lookup executes none, so the model has none.
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
