//! Tests of use counts and ghosts: the operations that count as uses, and the keys that count as
//! requested more than once.

use super::super::put::Put;
use super::*;
use crate::segment::{HeaderKind, SegmentQueue};

const KEY: &[u8] = b"key";

fn base(value: &[u8]) -> VariantKey {
    VariantKey { names: b"user-agent".to_vec(), variant: value.to_vec() }
}

fn put_variant(worker: &StoreWorker, value: &[u8]) {
    let leader = match worker.collapse(KEY, None, None, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        CollapseResult::Stored => basics::lead_variant(worker, value),
        other => panic!("{other:?}"),
    };
    assert!(fill(leader, b"head", Some(base(value)), b"body"));
}

fn uses(worker: &StoreWorker, key: &[u8]) -> u8 {
    worker.inner.records.look(key).expect("stored").hit.word().uses()
}

fn known(worker: &StoreWorker) -> crate::RecordVersion {
    match worker.lookup(KEY) {
        Lookup::Record(found) => found.version(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_is_revalidated_is_one_use() {
    let (_store, worker) = open(32 << 20);
    assert!(put(&worker, KEY, b"old", b"body"));
    assert_eq!(uses(&worker, KEY), 0, "storing does not count as a use");
    let known = known(&worker);
    assert_eq!(uses(&worker, KEY), 1);
    let CollapseResult::Leader(leader, _) =
        worker.collapse(KEY, None, Some(known), JoinTerms::at(0))
    else {
        panic!("the caller did not become leader");
    };
    leader.validated(b"new", fresh(), None);
    assert_eq!(get(&worker, KEY).expect("stored").0, b"new");
    assert_eq!(uses(&worker, KEY), 2, "the second use is the lookup of the test");
}

#[test]
fn a_record_counts_as_used_when_it_is_sent_but_not_when_it_is_only_found() {
    let (_store, worker) = open(64 << 20);
    assert!(put(&worker, KEY, b"head", &basics::body(1, 300_000)));
    let Lookup::Record(found) = worker.lookup(KEY) else {
        panic!("the key has no record");
    };
    let crate::StoredBody::Long(long) = found.body() else {
        panic!("the body is not stored in fragments");
    };
    let fragment = crate::store::long::fragment_key(long.id(), 0);
    assert!(worker.has_fragments(&long, 0..300_000));
    assert_eq!(uses(&worker, &fragment), 0);
    assert!(worker.pin_fragment(&long, 0, 0..10, 0).is_some());
    assert_eq!((uses(&worker, &fragment), uses(&worker, KEY)), (1, 1));
}

#[test]
fn an_inspected_record_is_not_used() {
    let (_store, worker) = open(32 << 20);
    assert!(put(&worker, b"plain", b"old", b"body"));
    put_variant(&worker, b"one");
    put_variant(&worker, b"two");
    let listed = || {
        let mut uses = Vec::new();
        let all = crate::Selection::within(b"");
        worker.list(&all, None, 10, &mut |one| uses.push((one.key.to_vec(), one.uses))).unwrap();
        uses
    };
    let before = (listed(), uses(&worker, b"plain"), uses(&worker, KEY));
    assert!(matches!(worker.inspect(b"plain"), Lookup::Record(found) if found.head() == b"old"));
    assert!(matches!(worker.inspect(b"other"), Lookup::Miss));
    let Lookup::Base(base) = worker.inspect(KEY) else { panic!("the key has no base") };
    assert!(base.variant(b"one").is_some() && base.variant(b"two").is_some());
    assert_eq!((listed(), uses(&worker, b"plain"), uses(&worker, KEY)), before);
    let mut values = Vec::new();
    base.each_variant(&mut |variant| values.push(variant.to_vec()));
    assert_eq!(values, [b"one", b"two"]);
    let Lookup::Base(base) = worker.lookup(KEY) else { panic!("the key has no base") };
    assert!(base.variant(b"two").is_some());
    assert_ne!(listed(), before.0, "a lookup for an answer counts");
}

/// A client may send a different user agent with each request, so a new variant does not count as
/// requested before.
#[test]
fn a_new_variant_of_a_known_resource_is_new() {
    let (_store, worker) = open(32 << 20);
    let queue = |base: Option<&VariantKey>| worker.inner.queue_for(KEY, base);
    assert_eq!(queue(Some(&base(b"one"))), SegmentQueue::Small);
    put_variant(&worker, b"one");
    for (name, base, expected) in [
        ("the same variant", Some(base(b"one")), SegmentQueue::Main),
        ("another", Some(base(b"two")), SegmentQueue::Small),
        (
            "other names",
            Some(VariantKey { names: b"accept".to_vec(), ..base(b"html") }),
            SegmentQueue::Small,
        ),
        ("one that does not vary", None, SegmentQueue::Small),
    ] {
        assert_eq!(queue(base.as_ref()), expected, "{name}");
    }
}

#[test]
fn a_variant_that_left_unused_is_known_when_it_comes_back() {
    let (store, worker) = open(4 << 20);
    put_variant(&worker, b"one");
    put_variant(&worker, b"two");
    let is_there = |value: &[u8]| match worker.lookup(KEY) {
        Lookup::Base(found) => found.variant(value).is_some(),
        other => panic!("the base has left: {other:?}"),
    };
    let mut number = 0;
    while variant_key(&worker, KEY, b"one")
        .is_some_and(|key| worker.inner.records.look(&key).is_some())
    {
        assert!(put(&worker, format!("k{number}").as_bytes(), b"head", &[0; 4000]));
        worker.turn(NOW, |_| ());
        assert!(matches!(worker.lookup(KEY), Lookup::Base(_)), "a used record was evicted");
        number += 1;
        assert!(number < 10_000);
    }
    assert!(!is_there(b"one"));
    let queue = |value: &[u8]| worker.inner.queue_for(KEY, Some(&base(value)));
    let before = store.stats().ghost_hits;
    assert_eq!(queue(b"three"), SegmentQueue::Small, "this variant was never stored");
    assert_eq!(queue(b"one"), SegmentQueue::Main, "this variant left unused");
    assert_eq!(queue(b"one"), SegmentQueue::Small, "the ghost of this variant was removed");
    assert_eq!(store.stats().ghost_hits, before + 1);
}

/// Fragments get no ghosts, because no later fragment has the key of an earlier one.
#[test]
fn fragments_leave_no_ghosts() {
    let (_store, worker) = open(64 << 20);
    assert!(put(&worker, KEY, b"head", &basics::body(1, 300_000)));
    let Lookup::Record(found) = worker.lookup(KEY) else {
        panic!("the key has no record");
    };
    let crate::StoredBody::Long(long) = found.body() else {
        panic!("the body is not stored in fragments");
    };
    let inner = &worker.inner;
    let ghost = |key: &[u8]| {
        inner
            .records
            .ghost_of(&inner.records.look(key).expect("stored").hit, inner.shared.hash(key))
    };
    assert_eq!(ghost(&crate::store::long::fragment_key(long.id(), 0)), None);
    assert_eq!(ghost(KEY), Some(inner.shared.hash(KEY)));
}

#[test]
fn a_long_head_that_names_nothing_is_a_miss_and_leaves() {
    let (store, worker) = open(32 << 20);
    let put = Put {
        kind: HeaderKind::LongHead,
        key: KEY,
        tags: &[],
        head: b"head",
        body: &[b"no body is named so"],
        times: fresh(),
        purge_noted: 0,
        primary: KEY,
    };
    worker.inner.put(&put, SegmentQueue::Small).unwrap();
    assert!(matches!(worker.lookup(KEY), Lookup::Miss));
    assert!(worker.inner.records.look(KEY).is_none(), "the damaged head is still in the index");
    assert_eq!(store.stats().dropped_damaged, 1);
    assert_sound(&store);
}

/// If a further variant replaced used variants, a client that sends ever new values could displace
/// the variants of all other clients.
#[test]
fn a_further_variant_replaces_one_that_no_request_has_used() {
    let store = Store::open(StoreConfig { variants_max: 3, ..config(8 << 20) }).unwrap();
    let worker = store.join().unwrap();
    let stored = || ["a", "b", "c", "d", "e", "f"].map(|value| uses_of(&worker, value)).concat();
    let count_use = |value: &str| match worker.lookup(KEY) {
        Lookup::Base(found) => assert!(found.variant(value.as_bytes()).is_some(), "{value}"),
        other => panic!("{other:?}"),
    };
    for value in ["a", "b", "c"] {
        put_variant(&worker, value.as_bytes());
    }
    count_use("a");
    count_use("a");
    count_use("b");
    assert_eq!(stored(), "a2 b1 c0 ");
    put_variant(&worker, b"d");
    assert_eq!(stored(), "a2 b1 d0 ", "c was not used");
    put_variant(&worker, b"e");
    assert_eq!(stored(), "a2 b1 e0 ", "nor was d");
    count_use("e");
    count_use("e");
    // All variants are used, and b the least. Then the counts of all are lowered by the count of b.
    put_variant(&worker, b"f");
    assert_eq!(stored(), "a1 e1 f0 ");
    put_variant(&worker, b"b");
    assert_eq!(stored(), "a1 b0 e1 ", "f was not used");
}

/// The variant and its uses, if it is stored.
fn uses_of(worker: &StoreWorker, value: &str) -> String {
    variant_key(worker, KEY, value.as_bytes())
        .filter(|key| worker.inner.records.look(key).is_some())
        .map_or(String::new(), |key| format!("{value}{} ", uses(worker, &key)))
}
