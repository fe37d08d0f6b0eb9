//! Tests of the reader: a store that is seen from outside, through a file that is mapped read-only.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;
use forebay_testkit::StopFlag;

use super::super::layout::{kind, word};
use super::*;
use crate::store::config::tables_bytes;
use crate::{KeyParts, RecordKind, StoreReadError, StoreReader};

/// Opens a store in a file. Returns the store, the folder of the file, and the file's path.
pub(super) fn in_file(budget_bytes: u64) -> (Store, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let path = folder.path().join("store");
    let config = StoreConfig { path: Some(path.clone()), ..config(budget_bytes) };
    (Store::open(config).unwrap(), folder, path)
}

/// The kind and the body length of each stored record, by its key.
fn list(reader: &StoreReader) -> BTreeMap<Vec<u8>, (RecordKind, u32)> {
    list_with(reader, || ())
}

/// Does the same as [`list`], but pauses after each record.
fn list_with(reader: &StoreReader, pause: fn()) -> BTreeMap<Vec<u8>, (RecordKind, u32)> {
    let mut all = BTreeMap::new();
    reader.list(|record| {
        pause();
        let before = all.insert(record.key.to_vec(), (record.kind, record.body_bytes));
        assert_eq!(before, None, "a record was shown twice");
        assert_eq!(record.stale_from == NOW + 3600, record.stale_from < 1 << 39);
        ControlFlow::Continue(())
    });
    all
}

#[test]
fn a_tool_finds_what_a_server_has_stored() {
    let (store, _folder, path) = in_file(32 << 20);
    let worker = store.join().unwrap();
    let reader = StoreReader::open(&path).unwrap();
    assert_eq!(list(&reader), BTreeMap::new());
    assert!(reader.get(b"key").is_none());

    assert!(put(&worker, b"key", b"head", b"body"));
    assert!(put(&worker, b"long", b"its head", &[7; 300_000]));
    let base = VariantKey { names: b"accept".to_vec(), variant: b"html".to_vec() };
    assert!(fill(lead(&worker, b"varies", None), b"a head", Some(base), b"html"));

    let found = reader.get(b"key").unwrap();
    assert_eq!((found.head(), found.body(), found.tags()), (&b"head"[..], &b"body"[..], &b""[..]));
    let listed = found.listed();
    assert_eq!((listed.key, listed.kind, listed.uses), (&b"key"[..], RecordKind::Whole, 0));
    assert_eq!((listed.stale_from, listed.is_soft), (NOW + 3600, false));
    assert!(get(&worker, b"key").is_some());
    assert_eq!(reader.get(b"key").unwrap().listed().uses, 1, "the reader sees uses and adds none");

    let long = reader.get(b"long").unwrap().long_body().unwrap();
    let fragments = long.fragments(0..long.bytes());
    let parts = fragments.clone().map(|number| reader.fragment(&long, number).unwrap());
    assert_eq!(parts.map(|part| part.body().len()).sum::<usize>(), 300_000);
    assert!(reader.fragment(&long, fragments.end).is_none());

    let all = list(&reader);
    let count = |kind| all.values().filter(|(found, _)| *found == kind).count();
    assert_eq!(count(RecordKind::Whole), 2);
    assert_eq!(count(RecordKind::LongHead), 1);
    assert_eq!(count(RecordKind::Fragment), fragments.len());
    assert_eq!(count(RecordKind::Base), 1);
    assert_eq!(all.len(), 4 + fragments.len());
    let (mut primary_count, mut variant_count, mut numbers) = (0, 0, Vec::new());
    for key in all.keys() {
        let found = reader.get(key).unwrap();
        assert_eq!(found.listed().key, key);
        match found.listed().parts() {
            KeyParts::Primary(primary) => {
                assert_eq!(primary, key);
                primary_count += 1;
            }
            KeyParts::Variant { primary, .. } => {
                assert_eq!((primary, key.len()), (&b"varies"[..], b"varies".len() + 25));
                variant_count += 1;
            }
            KeyParts::Fragment { body, number } => {
                assert_eq!(body, long.id());
                numbers.push(number);
            }
        }
    }
    numbers.sort_unstable();
    assert_eq!((primary_count, variant_count), (3, 1));
    assert!(numbers.into_iter().eq(fragments));
    let mut shown = 0;
    reader.list(|_| {
        shown += 1;
        ControlFlow::Break(())
    });
    assert_eq!(shown, 1);

    worker.purge(b"key").unwrap();
    assert!(reader.get(b"key").is_none());
    let report = reader.check(CheckDepth::Checksums, |_| ());
    assert_eq!((report.findings.len(), report.live_count), (0, all.len() as u64 - 1), "{report}");
    assert_sound(&store);
}

#[test]
fn a_tool_shares_a_region_out_as_the_server_does() {
    let (store, _folder, path) = in_file(16 << 20);
    let worker = store.join().unwrap();
    for number in 0..8000 {
        put(&worker, format!("{number}").as_bytes(), b"head", &[3; 4000]);
        worker.turn(NOW, |_| ());
    }
    worker.purge(b"7999").unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let (outside, inside) = (reader.stats(), store.stats());
    let accounts = [
        (outside.live_bytes, inside.live_bytes),
        (outside.dead_bytes, inside.dead_bytes),
        (outside.metadata_bytes + tables_bytes(), inside.metadata_bytes),
        (outside.pinned_bytes, inside.pinned_bytes),
        (outside.segment_count, inside.segment_count),
        (outside.segments.free, inside.free_segment_count),
        (
            outside.segments.open + outside.segments.sealed,
            inside.segment_count - inside.free_segment_count,
        ),
        (outside.segment_bytes, inside.segment_bytes),
        (outside.index_word_count, inside.index_word_count),
    ];
    for (number, (outside, inside)) in accounts.into_iter().enumerate() {
        assert_eq!(outside, inside, "account {number}");
    }
    let named = outside.live_bytes + outside.dead_bytes + outside.pinned_bytes;
    assert_eq!(named + outside.metadata_bytes + outside.free_bytes, outside.region_bytes);
    assert_eq!((outside.participant_count, outside.purge_count), (1, 1));
    assert!(outside.sequence >= 8000);
    let mut live_bytes = 0;
    reader.list(|record| {
        live_bytes += record.record_bytes;
        ControlFlow::Continue(())
    });
    assert_eq!(live_bytes, outside.live_bytes);
    assert_sound(&store);
}

/// The number of reads that a reader makes beside a writer. `FOREBAY_OPS` sets it.
fn read_count() -> usize {
    std::env::var("FOREBAY_OPS").map_or(20_000, |count| count.parse().expect("a number"))
}

/// The limit of a writer's changes: more than it makes while the reader reads.
fn changes_max() -> u64 {
    1000 * (read_count() as u64 + 10_000)
}

/// The body of a change, short enough to be stored whole. Its length and all its bytes depend only
/// on the key and the number of the change.
fn body_of(key: &str, number: usize) -> String {
    let unit = format!("[{key} {number}]");
    unit.repeat(16_000 / unit.len() + 1)[..number * 7919 % 16_000].into()
}

#[test]
fn a_tool_gets_whole_records_while_the_server_writes_them_over() {
    let (store, _folder, path) = in_file(4 << 20);
    let stop = StopFlag::default();
    let (begun, has_begun) = mpsc::channel();
    let key_of = |number: usize| format!("key {}", number % 200);
    thread::scope(|scope| {
        let (store, stop) = (&store, &stop);
        let server = scope.spawn(move || {
            let worker = store.join().unwrap();
            let change = |number: usize| {
                let key = key_of(number * 7);
                worker.purge(key.as_bytes()).unwrap();
                let body = body_of(&key, number);
                put(&worker, key.as_bytes(), &number.to_le_bytes(), body.as_bytes());
                worker.turn(NOW, |_| ());
            };
            let is_reclaiming = || store.stats().segments_freed > 0;
            let fill = (0..10_000).take_while(|_| !is_reclaiming());
            let filled_by = fill.inspect(|number| change(*number)).count();
            begun.send(()).unwrap();
            stop.steps(changes_max()).for_each(|step| change(filled_by + step as usize));
        });
        let guard = stop.guard();
        has_begun.recv().expect("the writer has filled the store");
        let reader = StoreReader::open(&path).unwrap();
        let mut newest = BTreeMap::new();
        for number in 0..read_count() {
            let key = key_of(number);
            if let Some(found) = reader.get(key.as_bytes()) {
                assert_eq!(found.listed().key, key.as_bytes());
                let change = usize::from_le_bytes(found.head().try_into().unwrap());
                assert!(found.body() == body_of(&key, change).as_bytes(), "{key}, {change}");
                let before = newest.insert(key, change);
                assert!(before <= Some(change), "{before:?} was purged before {change} was stored");
            }
            if number % (read_count() / 5).max(400) == 0 {
                let report = reader.check(CheckDepth::Checksums, |_| ());
                assert!(report.is_sound(), "{report}");
                assert!(list_with(&reader, thread::yield_now).len() <= 200);
            }
        }
        drop(guard);
        server.join().unwrap();
        assert!(!newest.is_empty());
    });
    assert!(store.stats().segments_freed > 0);
    let report = check(&store);
    assert!(report.is_sound(), "{report}");
}

#[test]
fn a_key_that_is_replaced_during_a_listing_is_listed_once() {
    let (store, _folder, path) = in_file(4 << 20);
    let worker = store.join().unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let buckets_of = |key: &str| {
        worker.inner.shared.hash(key.as_bytes()).buckets(worker.inner.shared.plan.bucket_count)
    };
    let keys = (0..1_000_000).map(|number| format!("key {number}"));
    let key = keys.clone().find(|key| !buckets_of(key).is_sorted()).unwrap();
    // While the neighbour is in the first of the key's two buckets, the key's word is in the second
    // bucket, which is listed earlier.
    let is_neighbour =
        |other: &String| *other != key && buckets_of(other)[0] == buckets_of(&key)[0];
    let neighbour = keys.clone().find(is_neighbour).unwrap();
    assert!(put(&worker, neighbour.as_bytes(), b"head", b"body"));
    assert!(put(&worker, key.as_bytes(), b"head", b"old"));
    let slot = || worker.inner.records.look(key.as_bytes()).map(|found| found.hit.slot());
    let old_slot = slot().unwrap();
    let mut listed = Vec::new();
    reader.list(|record| {
        listed.push((record.key.to_vec(), record.body_bytes));
        if listed.len() == 1 {
            worker.purge(neighbour.as_bytes()).unwrap();
            worker.purge(key.as_bytes()).unwrap();
            assert!(put(&worker, key.as_bytes(), b"head", b"newer"));
            assert!(slot().unwrap() > old_slot, "the new record is listed later than the old one");
        }
        ControlFlow::Continue(())
    });
    assert_eq!(listed, [(key.clone().into_bytes(), 3)], "only the old version is listed");
    assert_eq!(list(&reader), BTreeMap::from([(key.into_bytes(), (RecordKind::Whole, 5))]));
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let (store, folder, path) = in_file(4 << 20);
    let missing = StoreReader::open(&folder.path().join("other"));
    assert!(matches!(missing, Err(StoreReadError::Region(_))));
    let sizes = store.shared.region.area(kind::STORE).unwrap();
    let cases = [
        (word::SEGMENT_BYTES, 0, "segment sizes"),
        (word::SEGMENT_BYTES, 1 << 20, "smaller than its stated sizes"),
        (word::SEGMENT_COUNT, u64::MAX, "segment sizes"),
        (word::SEGMENT_COUNT, 1 << 20, "smaller than its stated sizes"),
        (word::BUCKET_COUNT, 1, "size of the index"),
        (word::BUCKET_COUNT, u64::MAX, "size of the index"),
        (word::BUCKET_COUNT, 1 << 40, "size of the index"),
    ];
    for (number, value, why) in cases {
        let before = sizes.word(number).swap(value, Relaxed);
        let refused = StoreReader::open(&path).unwrap_err().to_string();
        assert!(refused.contains(why), "word {number} is {value}: {refused}");
        assert!(store.check(CheckDepth::Headers, |_| ()).is_err(), "word {number} is {value}");
        sizes.word(number).store(before, Relaxed);
    }
    assert!(StoreReader::open(&path).is_ok());
}
