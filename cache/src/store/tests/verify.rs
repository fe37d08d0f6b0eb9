//! Tests of verifying records that were stored before the process attached to the region.

use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;

use super::super::layout::kind;
use super::super::long::fragment_key;
use super::super::verify::is_undamaged;
use super::reader::in_file;
use super::*;
use crate::LongBody;
use crate::index::BUCKET_WORDS;
use crate::segment::{Record, SegmentQueue};
use crate::store::put::FreeReserve;

#[test]
fn another_thread_goes_on_when_a_verifier_leaves() {
    let (store, _folder, path) = in_file(4 << 20);
    let worker = store.join().unwrap();
    for number in 0..40_u8 {
        assert!(put(&worker, &[b'k', number], b"head", &[number; 20_000]));
    }
    drop((worker, store));
    let store = Store::open(StoreConfig { path: Some(path), ..config(4 << 20) }).unwrap();
    let [first, second] = [(); 2].map(|()| store.join().unwrap());
    assert!(first.turn(NOW, |_| ()) && first.turn(NOW, |_| ()));
    let slot = first.inner.verifier.slot().expect("the first worker verifies");
    assert!(slot > 0);
    assert!(
        !second.turn(NOW, |_| ()) && second.inner.verifier.slot().is_none(),
        "one thread verifies at a time"
    );
    drop(first);
    assert!(second.turn(NOW, |_| ()));
    assert!(second.inner.verifier.slot() > Some(slot));
    while second.turn(NOW, |_| ()) {}
    assert_eq!(store.shared.verified.end(), u64::MAX);
    let third = store.join().unwrap();
    drop(second);
    third.turn(NOW, |_| ());
    assert_eq!(third.inner.verifier.slot(), None, "all records are verified");
}

/// Stores records in a file, damages them by `damage`, and attaches to the file again.
fn damaged(
    keys: &[&[u8]],
    damage: impl Fn(&Store, &[u8]),
) -> (Store, StoreWorker, tempfile::TempDir) {
    let (store, folder, path) = in_file(4 << 20);
    let worker = store.join().unwrap();
    for key in keys {
        assert!(put(&worker, key, b"head", b"body"));
    }
    drop(worker);
    for key in keys {
        damage(&store, key);
    }
    drop(store);
    let store = Store::open(StoreConfig { path: Some(path), ..config(4 << 20) }).unwrap();
    let worker = store.join().unwrap();
    (store, worker, folder)
}

/// Flips a bit of a word of the record of a key.
fn flip(store: &Store, key: &[u8], word: usize, bit: u32) {
    let worker = store.join().unwrap();
    let location = worker.inner.records.look(key).expect("stored").record().location;
    let data = store.shared.region.area(kind::DATA).unwrap();
    data.word(location.0 as usize * 8 + word).fetch_xor(1 << bit, Relaxed);
}

fn reported(worker: &StoreWorker) -> Vec<Option<Vec<u8>>> {
    let mut reported = Vec::new();
    worker.report_damaged(|key| reported.push(key.map(Vec::from)));
    reported
}

#[test]
fn a_record_that_was_taken_over_is_verified_before_its_first_hit() {
    let key = b"key".as_slice();
    // Each case: the flipped bit, and whether the lengths or the key of the record hide it from a
    // lookup, so that only the slices find the damage.
    let hidden = [(1, 48), (2, 63), (5, 3)];
    let plain = [(0, 50), (1, 3), (2, 40), (3, 20), (3, 60), (4, 0), (5, 30), (6, 5)];
    let cases = hidden.map(|at| (at, true)).into_iter().chain(plain.map(|at| (at, false)));
    for ((word, bit), is_hidden) in cases {
        let case = format!("bit {bit} of word {word}");
        let (store, worker, _folder) = damaged(&[key], |store, key| flip(store, key, word, bit));
        assert!(matches!(worker.lookup(key), Lookup::Miss), "{case}");
        if is_hidden {
            assert_eq!(store.stats().dropped_damaged, 0, "{case}");
            while worker.turn(NOW, |_| ()) {}
        }
        assert_eq!(store.stats().dropped_damaged, 1, "{case}");
        let reported = reported(&worker);
        assert_eq!(reported.len(), 1, "{case}");
        assert!(is_hidden || reported == [Some(key.to_vec())], "{case}: {reported:?}");
        while worker.turn(NOW, |_| ()) {}
        assert_eq!(store.stats().dropped_damaged, 1, "{case}");
    }
}

#[test]
fn a_record_is_verified_once_and_the_slices_verify_the_rest() {
    let keys: Vec<_> = (0..40).map(|number| format!("key {number}").into_bytes()).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let (store, worker, _folder) = damaged(&keys, |_, _| ());
    assert!(matches!(worker.lookup(keys[0]), Lookup::Record(_)));
    // Damage after the first use shows that later lookups on this thread read no body.
    keys.iter().for_each(|key| flip(&store, key, 6, 5));
    assert_eq!(reported(&worker), Vec::<Option<Vec<u8>>>::new());
    assert!(matches!(worker.lookup(keys[0]), Lookup::Record(_)));
    assert!(matches!(worker.lookup(keys[1]), Lookup::Miss));
    while worker.turn(NOW, |_| ()) {}
    assert_eq!(store.stats().dropped_damaged, keys.len() as u64);
    assert_eq!(reported(&worker).len(), 16, "the report is bounded");
    // Records that this process stores are not verified.
    assert!(put(&worker, keys[0], b"head", b"body"));
    flip(&store, keys[0], 6, 5);
    assert!(matches!(worker.lookup(keys[0]), Lookup::Record(_)));
}

#[test]
fn a_damaged_record_that_is_moved_during_its_check_is_removed() {
    let key = b"key".as_slice();
    let (store, worker, _folder) = damaged(&[key], |store, key| flip(store, key, 6, 5));
    let (inner, records) = (&worker.inner, &worker.inner.records);
    let slot = records.index.lookup(&records.pins, &records.key(key)).expect("stored").slot();
    let move_to_main = |record: &Record<'_>| {
        let hash = store.shared.hash(key);
        let hit = records.index.find_location(&records.pins, hash, record.location.0);
        let hit = hit.expect("no other thread removes it");
        let frozen = records.access().marks(hit.at()).expect("its lengths are right").freeze();
        let copied = inner.append_with(SegmentQueue::Main, FreeReserve::NONE, |open| {
            open.append_copy(record, frozen)
        });
        assert!(records.index.move_to(&hit, copied.expect("there is room").0.0, 0));
    };
    let mut check_count = 0;
    records.verify_slot(slot, |record| {
        let record = record.expect("its lengths are right");
        check_count += 1;
        if check_count == 1 {
            move_to_main(record);
        }
        is_undamaged(record)
    });
    assert_eq!(check_count, 2, "the copy is checked");
    assert!(records.index.lookup(&records.pins, &records.key(key)).is_none(), "a copy is left");
    assert_eq!(store.stats().dropped_damaged, 1);
    assert_eq!(reported(&worker), [Some(key.to_vec())]);
}

#[test]
fn a_slice_of_verifying_may_end_between_two_records_of_a_bucket() {
    let keys: Vec<_> = (0..400).map(|number| format!("key {number}").into_bytes()).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let (_store, worker, _folder) = damaged(&keys, |_, _| ());
    let records = &worker.inner.records;
    let all = records.index.hits(&records.pins, 0..usize::MAX);
    let slots: Vec<_> = all.map(|hit| hit.slot()).collect();
    let pair = slots.windows(2).find(|pair| pair[0] / BUCKET_WORDS == pair[1] / BUCKET_WORDS);
    let first = pair.expect("two records share a bucket")[0];
    assert_eq!(records.verify_from(first, 100), first + 1);
}

#[test]
fn a_long_body_whose_first_needed_fragment_is_damaged_is_incomplete() {
    let key = b"key".as_slice();
    let (store, _folder, path) = in_file(64 << 20);
    let worker = store.join().unwrap();
    assert!(put(&worker, key, b"head", &basics::body(1, 600_000)));
    let long = long_body(&worker, key);
    let bytes = u64::from(long.part_of(0, &(0..600_000)).end);
    assert!(long.fragments(0..600_000).end >= 3);
    drop(worker);
    flip(&store, &fragment_key(long.id(), 1), 20, 5);
    drop(store);
    let store = Store::open(StoreConfig { path: Some(path), ..config(64 << 20) }).unwrap();
    let worker = store.join().unwrap();
    assert!(worker.has_fragments(&long, 0..bytes), "the damage is not in this part");
    assert!(worker.has_fragments(&long, 0..600_000), "only the first fragment is verified");
    assert!(!worker.has_fragments(&long, bytes..600_000), "the part begins with the damage");
    assert_eq!(store.stats().dropped_damaged, 1);
    assert!(!worker.has_fragments(&long, 0..600_000), "the damaged fragment is removed");
}

fn long_body(worker: &StoreWorker, key: &[u8]) -> LongBody {
    let Lookup::Record(head) = worker.lookup(key) else {
        panic!("the key has no record");
    };
    let crate::StoredBody::Long(long) = head.body() else {
        panic!("the body is not stored in fragments");
    };
    long
}
