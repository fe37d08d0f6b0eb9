//! The promise of a purge in rare cases: a variant that its base no longer names, and a walk during
//! which the ring overwrites the purge.

use super::super::put::Put;
use super::super::respond::Response;
use super::*;
use crate::segment::{HeaderKind, SegmentQueue};
use crate::{RecordTags, Selection};

const KEY: &[u8] = b"key";

/// More purges than any ring of these tests has slots.
const MANY: usize = 1100;

/// More resources than a walk copies from the key index in one batch.
const RESOURCES: usize = 200;

type Purge = fn(&StoreWorker);

fn red() -> RecordTags {
    RecordTags::new([&b"red"[..]]).unwrap()
}

fn all_red() -> Selection {
    Selection { within: Vec::new(), tags: Some("red".parse().unwrap()) }
}

fn is_found(worker: &StoreWorker, value: &[u8]) -> bool {
    match worker.lookup(KEY) {
        Lookup::Base(base) => base.variant(value).is_some(),
        _ => false,
    }
}

/// A thread has made the base name its variant, and is slow. Other threads make the base drop the
/// variant, so a purge does not reach the record that the slow thread then stores. The slow thread
/// dies before it notices. Then the base names the variant again.
#[test]
fn a_variant_stored_after_it_lost_its_name_is_not_found_when_it_is_named_again() {
    let purges: [(&str, Purge); 3] = [
        ("by tag", |worker| _ = worker.purge_selected(&all_red(), false, &mut |_| ()).unwrap()),
        ("softly by tag", |worker| {
            _ = worker.purge_selected(&all_red(), true, &mut |_| ()).unwrap();
        }),
        ("softly by key", |worker| _ = worker.purge_softly(KEY).unwrap()),
    ];
    for (case, purge) in purges {
        let store = Store::open(StoreConfig { variants_max: 1, ..config(8 << 20) }).unwrap();
        let (slow, other) = (store.join().unwrap(), store.join().unwrap());
        let tags = red();
        let response = |base| Response {
            primary: KEY,
            base: Some(base),
            kind: HeaderKind::Whole,
            tags: &[],
            head: b"head",
            body: &[b"body"],
            times: fresh(),
            begun_at: u64::MAX,
            purge_noted: other.inner.shared.purges.noted(),
            queue: SegmentQueue::Small,
        };
        let base = |value: &[u8]| VariantKey { names: b"accept".to_vec(), variant: value.to_vec() };
        let (one, two) = (base(b"one"), base(b"two"));
        let name = |worker: &StoreWorker| {
            let hash = worker.inner.shared.wide_hash(&one.variant);
            worker.inner.name_variant(&response(&one), &one.names, hash).unwrap()
        };
        other.inner.put_response(&response(&two)).unwrap();
        let mut key = Vec::new();
        write_key_of(&mut key, KEY, &name(&slow));
        other.inner.put_response(&response(&two)).unwrap();
        let put = Put {
            kind: HeaderKind::Whole,
            key: &key,
            tags: tags.as_bytes(),
            head: b"\x03\0onehead",
            body: &[b"body"],
            times: fresh(),
            purge_noted: 0,
            primary: KEY,
        };
        slow.inner.put(&put, SegmentQueue::Small).unwrap();
        assert!(slow.inner.records.look(&key).is_some(), "{case}: the record is in the index");
        purge(&other);
        if !is_found(&other, b"two") {
            other.inner.put_response(&response(&two)).unwrap();
        }
        name(&other);
        assert!(!is_found(&other, b"one"), "{case}: a purged variant is found");
        other.inner.put_response(&response(&one)).unwrap();
        assert!(is_found(&other, b"one"), "{case}");
        assert_sound(&store);
    }
}

/// While a purge by tag walks, so many other purges are announced that its slot of the ring is
/// overwritten.
#[test]
fn a_walk_that_outlasts_the_ring_leaves_nothing_that_was_fetched_before_it() {
    for is_soft in [false, true] {
        let (store, purger) = open(32 << 20);
        let other = store.join().unwrap();
        let key = |number: usize| format!("m{number:03}").into_bytes();
        let begin = |key: &[u8]| {
            let mut fill = lead(&other, key, None).begin(b"head", None, None, fresh()).unwrap();
            fill.tag(red());
            fill
        };
        for number in 0..RESOURCES {
            assert!(begin(&key(number)).finish());
        }
        // One fetch behind the walk, one in front of it, and one that ends while the purge is in
        // the ring.
        let (behind, ahead, early) = (begin(b"a"), begin(b"z"), begin(b"b"));
        let mut before = Some((behind, ahead, early));
        let purged = purger.purge_selected(&all_red(), is_soft, &mut |_| {
            let Some((behind, ahead, early)) = before.take() else {
                return;
            };
            assert!(!early.finish(), "it was fetched before the purge");
            for _ in 0..MANY {
                other.purge(b"another").unwrap();
            }
            assert!(!behind.finish() && !ahead.finish(), "they were fetched before the purge");
            assert!(begin(b"c").finish(), "it was fetched after the purge");
        });
        assert_eq!(purged.unwrap().records, RESOURCES as u64, "soft: {is_soft}");
        assert!(before.is_none(), "the walk reported its progress");
        for number in 0..RESOURCES {
            let is_fresh = match other.lookup(&key(number)) {
                Lookup::Record(found) => !found.is_soft(),
                _ => false,
            };
            assert!(!is_fresh, "{number} is left as it was");
        }
        for gone in [b"a", b"b", b"z"] {
            assert!(matches!(other.lookup(gone), Lookup::Miss), "{gone:?}");
        }
        assert!(get(&other, b"c").is_some());
        assert_sound(&store);
    }
}

/// A renewal moves the entry of a record to the end of its key's entries, and ahead of the walk.
#[test]
fn a_walk_finds_records_that_are_renewed_before_it_reaches_them() {
    let (store, purger) = open(32 << 20);
    let other = store.join().unwrap();
    let key = |number: usize| format!("m{number:03}").into_bytes();
    for number in 0..RESOURCES {
        let mut fill =
            lead(&other, &key(number), None).begin(b"head", None, None, fresh()).unwrap();
        fill.tag(red());
        assert!(fill.finish());
    }
    let mut is_renewed = false;
    let purged = purger.purge_selected(&all_red(), false, &mut |_| {
        if std::mem::replace(&mut is_renewed, true) {
            return;
        }
        for number in 0..RESOURCES {
            let known = match other.lookup(&key(number)) {
                Lookup::Record(found) => found.version(),
                _ => continue,
            };
            match other.collapse(&key(number), None, Some(known), JoinTerms::at(0)) {
                CollapseResult::Leader(leader, _) => leader.validated(b"new", fresh(), None),
                result => panic!("{result:?}"),
            }
        }
    });
    assert_eq!(purged.unwrap().records, RESOURCES as u64);
    assert!(is_renewed, "the walk reported its progress");
    for number in 0..RESOURCES {
        assert!(matches!(other.lookup(&key(number)), Lookup::Miss), "{number}");
    }
    assert_sound(&store);
}
