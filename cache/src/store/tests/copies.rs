//! Copies of variants for requests that do not select them.

use super::*;
use crate::{ConfirmedVariant, RecordTags, RecordVersion, Selection, selector_list};

const KEY: &[u8] = b"key";

fn base(value: &[u8]) -> VariantKey {
    VariantKey { names: b"accept".to_vec(), variant: value.to_vec() }
}

/// Stores the variant `one` with a tag.
fn store_one(worker: &StoreWorker) {
    let leader = lead(worker, KEY, None);
    let mut filling = leader.begin(b"head", Some(base(b"one")), Some(4), fresh()).unwrap();
    filling.tag(RecordTags::new([&b"red"[..]]).unwrap());
    append(&mut filling, b"body");
    assert!(filling.finish());
}

fn find(worker: &StoreWorker, value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    match worker.lookup(KEY) {
        Lookup::Base(base) => read(worker, &base.variant(value)?),
        _ => None,
    }
}

fn version(worker: &StoreWorker, value: &[u8]) -> RecordVersion {
    match worker.lookup(KEY) {
        Lookup::Base(base) => base.variant(value).expect("it is stored").version(),
        other => panic!("{other:?}"),
    }
}

/// Confirms the variant `one` for requests that select `two`. Returns whether a copy is stored.
fn confirm(leader: Leader, known: RecordVersion) -> bool {
    let copy = base(b"two");
    let confirmed = ConfirmedVariant { selector: b"one", known, copy: &copy };
    leader.validated_variant(&confirmed, (b"new", fresh(), None)).is_ok()
}

fn lead_two(worker: &StoreWorker) -> Leader {
    match worker.collapse(KEY, Some(&selector_list(b"two")), None, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_has_the_new_head_and_goes_with_purges_like_its_original() {
    type Purge = fn(&StoreWorker);
    let purges: [(&str, Purge); 3] = [
        ("by key", |worker| _ = worker.purge(KEY).unwrap()),
        ("by tag", |worker| {
            let all_red = Selection { within: Vec::new(), tags: Some("red".parse().unwrap()) };
            _ = worker.purge_selected(&all_red, false, &mut |_| ()).unwrap();
        }),
        ("by prefix", |worker| {
            let all = Selection { within: b"k".to_vec(), tags: None };
            _ = worker.purge_selected(&all, false, &mut |_| ()).unwrap();
        }),
    ];
    for (case, purge) in purges {
        let (store, worker) = open(8 << 20);
        store_one(&worker);
        assert!(confirm(lead_two(&worker), version(&worker, b"one")), "{case}");
        let expected = Some((b"new".to_vec(), b"body".to_vec()));
        assert_eq!((find(&worker, b"one"), find(&worker, b"two")), (expected.clone(), expected));
        purge(&worker);
        assert_eq!((find(&worker, b"one"), find(&worker, b"two")), (None, None), "{case}");
        assert_sound(&store);
        // A purge between the fetch of the original and its confirmation counts for the copy: the
        // walk of the purge may not have reached the original.
        store_one(&worker);
        let known = version(&worker, b"one");
        let early = lead_two(&worker);
        let noted = worker.inner.shared.purges.noted();
        purge(&worker);
        assert!(worker.inner.shared.purges.noted() > noted);
        assert!(!confirm(early, known), "{case}: purged while the origin was asked");
        assert_eq!(find(&worker, b"two"), None, "{case}");
        assert_sound(&store);
    }
}

/// A purge was announced before the origin was asked, but its walk has not reached the variant.
#[test]
fn a_purge_that_still_walks_prevents_a_copy() {
    let (store, worker) = open(8 << 20);
    store_one(&worker);
    worker.inner.shared.purges.announce(crate::purge::Predicate::Key(KEY));
    let leader = lead_two(&worker);
    assert!(!confirm(leader, version(&worker, b"one")));
    assert_eq!(find(&worker, b"two"), None, "a copy would outlive the purge");
    assert_sound(&store);
}

#[test]
fn a_body_in_fragments_and_a_variant_that_is_gone_have_no_copy() {
    let (store, worker) = open(32 << 20);
    let long = vec![b'x'; 1 << 20];
    assert!(fill(lead(&worker, KEY, None), b"head", Some(base(b"one")), &long));
    let known = version(&worker, b"one");
    assert!(!confirm(lead_two(&worker), known));
    assert_eq!(find(&worker, b"one").map(|(head, _)| head), Some(b"new".to_vec()), "renewed");
    assert!(!confirm(lead_two(&worker), known), "this version is gone");
    assert_eq!(find(&worker, b"two"), None);
    assert_sound(&store);
}
