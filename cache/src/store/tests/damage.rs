//! Each kind of finding of a check, made by hand: tests overwrite words of the areas.

mod dead;
mod drained;

use std::collections::BTreeSet;
use std::thread;

use forebay_sync::atomic::Relaxed;
use forebay_sync::{LINE_WORDS, Words};

use super::super::layout::{kind, word};
use super::super::put::Put;
use super::*;
use crate::FindingKind;
use crate::segment::{HeaderKind, Location, SEGMENT_WORDS, SegmentQueue, UNIT_BYTES};

const KEY: &[u8] = b"site\0http\0h\0/key";

/// The indexes of a segment's words in the table of segments.
const STATE: usize = 0;
const FILLED: usize = 2;
const LIVE: usize = 3;

/// The states of a segment.
const OPEN: u64 = 1;
const DRAINING: u64 = 3;

const STATE_BITS: u64 = 0b11 << 34;
const UNIT_WORDS: usize = UNIT_BYTES as usize / 8;

/// A store with some records. `KEY` is the key of one that is not the last record of its segment.
struct Made {
    store: Store,
    worker: StoreWorker,
}

/// Makes a store with two records that a participant stored before it died without leaving: the
/// record of `KEY` and, behind it, another one.
fn made_by_the_dead() -> Made {
    let (store, worker) = open(4 << 20);
    let made = Made { store: store.clone(), worker };
    let died = thread::spawn(move || {
        let worker = store.join().unwrap();
        assert!(put(&worker, KEY, b"head", &[2; 5000]));
        assert!(put(&worker, b"behind", b"head", b"body"));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(died.join().is_err());
    made
}

/// Removes the index word of a record, and nothing else of the record.
fn remove_word(worker: &StoreWorker, key: &[u8]) {
    let records = &worker.inner.records;
    assert_eq!(records.index.remove(&records.pins, &records.key(key)), 1);
}

fn made() -> Made {
    let (store, worker) = open(4 << 20);
    for number in 0..40 {
        assert!(put(&worker, format!("before {number}").as_bytes(), b"head", &[1; 3000]));
    }
    assert!(put(&worker, KEY, b"head", &[2; 500]));
    assert!(put(&worker, b"behind", b"head", b"body"));
    assert_sound(&store);
    Made { store, worker }
}

impl Made {
    fn area(&self, kind: u32) -> forebay_shm::Area {
        self.store.shared.region.area(kind).unwrap()
    }

    fn write(&self, kind: u32, index: usize, change: impl Fn(u64) -> u64) {
        let area = self.area(kind);
        let word = area.word(index);
        word.store(change(word.load(Relaxed)), Relaxed);
    }

    /// The slot and the index word of a key.
    fn word_of(&self, key: &[u8]) -> (usize, u64) {
        let inner = &self.worker.inner;
        let hit = inner
            .records
            .index
            .lookup(&inner.records.pins, &inner.records.key(key))
            .expect("the key is in the index");
        (hit.slot(), hit.word().bits())
    }

    fn write_index(&self, key: &[u8], change: impl Fn(u64) -> u64) {
        self.write(kind::INDEX, self.word_of(key).0, change);
    }

    /// Changes a word of the record of a key.
    fn write_record(&self, key: &[u8], number: usize, change: impl Fn(u64) -> u64) {
        let location = self.word_of(key).1 as u32;
        self.write(kind::DATA, location as usize * UNIT_WORDS + number, change);
    }

    fn write_segment(&self, segment: u32, number: usize, change: impl Fn(u64) -> u64) {
        self.write(kind::SEGMENTS, segment as usize * SEGMENT_WORDS + number, change);
    }

    fn segment_of(&self, key: &[u8]) -> u32 {
        let location = Location(self.word_of(key).1 as u32);
        self.store.shared.segments.geometry().segment_of(location).unwrap()
    }

    /// A segment that was never used.
    fn free(&self) -> u32 {
        self.store.shared.segments.geometry().segment_count() - 1
    }

    /// A copy of all words that tests change.
    fn saved(&self) -> Vec<(u32, Vec<u64>)> {
        let areas = [kind::STORE, kind::SEGMENTS, kind::INDEX, kind::PINS, kind::DATA];
        let words = |kind| self.area(kind).all().iter().map(|word| word.load(Relaxed)).collect();
        areas.into_iter().map(|kind| (kind, words(kind))).collect()
    }

    fn restore(&self, saved: &[(u32, Vec<u64>)]) {
        for (kind, words) in saved {
            let area = self.area(*kind);
            area.all().iter().zip(words).for_each(|(word, saved)| word.store(*saved, Relaxed));
        }
    }

    fn found(&self, severity: FindingSeverity) -> BTreeSet<&'static str> {
        let report = check(&self.store);
        let of_weight = report.findings.iter().filter(|finding| finding.severity() == severity);
        of_weight.map(|finding| finding.kind.name()).collect()
    }
}

/// A sentence, the damage that is done to a store, and the faults that a check finds then.
type Case = (&'static str, fn(&Made), &'static [&'static str]);

const WORDS: &[Case] = &[
    (
        "a word names a place in no segment",
        |made| made.write_index(KEY, |word| word | 0xffff_fff0),
        &["no_segment"],
    ),
    (
        "a word has a state that is never written",
        |made| made.write_index(KEY, |word| word | STATE_BITS),
        &["word_state"],
    ),
    (
        "a word names a place in a free segment",
        |made| {
            let units = made.store.shared.segments.geometry().segment_bytes() / UNIT_BYTES;
            let location = u64::from(made.free() * units);
            made.write_index(KEY, |word| word & !0xffff_ffff | location);
        },
        &["free_segment"],
    ),
    (
        "a segment was drained, and words still name it",
        |made| made.write_segment(made.segment_of(b"before 0"), STATE, |state| state + 1),
        &["drained_segment"],
    ),
    (
        "a word names an unfilled part of a segment",
        |made| made.write_segment(made.segment_of(KEY), FILLED, |_| 64),
        // The walk ends within the first record.
        &["not_filled", "walk"],
    ),
    (
        "a word names a location without a record",
        |made| made.write_record(KEY, 1, |_| 0),
        &["no_record", "walk"],
    ),
    (
        "a bit of a body is flipped",
        |made| made.write_record(KEY, 20, |word| word ^ 1 << 9),
        &["checksum"],
    ),
    ("unused bits of the marks are set", |made| made.write_record(KEY, 0, |_| 1 << 50), &["marks"]),
    (
        "a word has another fingerprint",
        |made| made.write_index(KEY, |word| word ^ 1 << 60),
        &["other_key"],
    ),
    (
        "a word has another size class",
        |made| made.write_index(KEY, |word| word ^ 1 << 37),
        &["size_class"],
    ),
    (
        "a record has a sequence that was never assigned",
        |made| made.write(kind::STORE, word::SEQUENCE, |last| last - 1),
        &["sequence"],
    ),
    (
        "a word stays unchecked",
        |made| made.write_index(KEY, |word| word & !STATE_BITS),
        &["unchecked"],
    ),
    (
        "a word that its publisher may still be changing is no fault",
        |made| made.write_index(b"behind", |word| word & !STATE_BITS),
        &[],
    ),
    ("two records of a key are live", make_duplicate, &["duplicate"]),
    ("a long head names no body", make_long_head, &["long_head"]),
];

fn make_duplicate(made: &Made) {
    let (_, first) = made.word_of(KEY);
    store_as(made, HeaderKind::Whole, KEY, b"newer");
    assert!(put(&made.worker, b"further", b"head", b"body"));
    assert_eq!(made.found(FindingSeverity::Fault), BTreeSet::new());
    // The word of the first record is written again, into the other record's bucket.
    let bucket = made.word_of(KEY).0 / 8;
    let words = made.area(kind::INDEX);
    let empty = (bucket * 8..bucket * 8 + 8).find(|slot| words.word(*slot).load(Relaxed) == 0);
    words.word(empty.unwrap()).store(first, Relaxed);
}

fn make_long_head(made: &Made) {
    store_as(made, HeaderKind::LongHead, b"long", b"nowhere");
}

/// Stores a record without checking for other records of the key.
fn store_as(made: &Made, kind: HeaderKind, key: &[u8], body: &[u8]) {
    let (head, times) = (b"head", fresh());
    let put =
        Put { kind, key, tags: &[], head, body: &[body], times, purge_noted: 0, primary: key };
    made.worker.inner.put(&put, SegmentQueue::Small).unwrap();
}

const SEGMENTS: &[Case] = &[
    (
        "the state of a segment is invalid",
        |made| made.write_segment(made.free(), STATE, |state| state | 7),
        &["segment_state"],
    ),
    (
        "the words of a free segment are not zero",
        |made| made.write_segment(made.free(), LIVE, |_| 5),
        &["free_not_empty"],
    ),
    (
        "a segment is filled to the middle of a unit",
        |made| made.write_segment(made.segment_of(KEY), FILLED, |filled| filled + 8),
        &["filled"],
    ),
    (
        "the owner of a segment is not attached",
        |made| made.write_segment(made.free(), STATE, |state| state | OPEN | 3 << 8),
        &["no_owner"],
    ),
    (
        "an owner is beyond the last row",
        |made| made.write_segment(made.free(), STATE, |state| state | OPEN | 0xfff0 << 8),
        &["no_owner"],
    ),
    (
        "two segments are open in one queue",
        |made| made.write_segment(made.free(), STATE, |state| state | OPEN | 1 << 8),
        &["open_twice"],
    ),
    (
        "a record that no word names is damaged",
        |made| {
            let location = made.word_of(KEY).1 as u32;
            made.worker.purge(KEY).unwrap();
            made.write(kind::DATA, location as usize * UNIT_WORDS + 1, |_| 0);
        },
        &["walk"],
    ),
    (
        "pins have no owner",
        |made| {
            let columns = made.free() as usize + 1;
            made.write(kind::PINS, 2 * columns.next_multiple_of(LINE_WORDS) + 7, |_| 1);
        },
        &["pins"],
    ),
];

#[test]
fn each_fault_that_is_made_is_found_and_no_other() {
    for &(name, damage, expected) in WORDS.iter().chain(SEGMENTS) {
        let made = made();
        let before = made.saved();
        damage(&made);
        let report = check(&made.store);
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(made.found(FindingSeverity::Fault), expected, "{name}: {report}");
        for finding in report.findings {
            assert!(
                finding.to_string().starts_with("fault: ")
                    || finding.severity() > FindingSeverity::Fault
            );
        }
        made.restore(&before);
        assert_sound(&made.store);
    }
}

#[test]
fn a_count_that_is_off_is_told_apart() {
    let made = made();
    let segment = made.segment_of(KEY);
    made.write_segment(segment, LIVE, |live| live + 64);
    let report = check(&made.store);
    assert!(report.is_sound() && report.drift_count == 1, "{report}");
    let finding = &report.findings[0];
    assert_eq!(finding.segment, Some(segment));
    assert!(
        matches!(finding.kind, FindingKind::LiveBytes { counted, named } if counted == named + 64)
    );
    made.write_segment(segment, LIVE, |live| live - 64);
    assert_sound(&made.store);
}

#[test]
fn a_finding_says_where_it_is_and_of_what_key() {
    let made = made();
    let saved = made.saved();
    made.write_record(KEY, 20, |word| !word);
    let (slot, word) = made.word_of(KEY);
    let report = check(&made.store);
    let [finding] = &report.findings[..] else {
        panic!("{report}");
    };
    let (location, segment) = (word as u32, made.segment_of(KEY));
    let expected = format!(
        "fault: the checksum of a record is wrong, unit {location}, segment {segment}, \
         slot {slot}, key \"site\\x00http\\x00h\\x00/key\""
    );
    assert_eq!(finding.to_string(), expected);
    assert_eq!(finding.key, KEY);
    let headers = made.store.check(CheckDepth::Headers, |_| ()).unwrap();
    assert!(headers.is_sound() && !headers.is_deep, "{headers}");
    made.restore(&saved);
}

/// The findings of a check of a store that has no faults.
fn notes(store: &Store) -> Vec<FindingKind> {
    assert_sound(store);
    check(store).findings.into_iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_finding_names_a_dead_participant_until_its_segments_are_repaired() {
    let (store, worker) = open(4 << 20);
    let other = store.clone();
    let died = thread::spawn(move || {
        let worker = other.join().unwrap();
        assert!(put(&worker, KEY, b"head", b"body"));
        worker.inner.records.pins.pin(0, || true).unwrap().keep();
        // The participant counts as dead, as after a panic.
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(died.join().is_err());
    assert_eq!(notes(&store), [FindingKind::Dead { pins: 1 }]);
    assert_eq!(store.sweep().unwrap(), 1);
    assert_eq!(notes(&store), [FindingKind::Suspect]);
    assert_eq!(worker.mend(), 1);
    assert_eq!(notes(&store), []);
    assert!(get(&worker, KEY).is_some());
}

#[test]
fn a_segment_that_waits_to_be_freed_is_noted() {
    let made = made();
    made.write_segment(made.free(), STATE, |state| state | DRAINING);
    assert_eq!(notes(&made.store), [FindingKind::Drained]);
    made.write_segment(made.free(), STATE, |state| state & !7);
    assert_eq!(notes(&made.store), []);
}

#[test]
fn fragments_and_heads_without_each_other_are_noted() {
    let (store, worker) = open(32 << 20);
    let mut filling = lead(&worker, KEY, None).begin(b"head", None, None, fresh()).unwrap();
    append(&mut filling, &[7; 300_000]);
    let found = notes(&store);
    let [FindingKind::OrphanFragments { count, bytes }] = found[..] else {
        panic!("{found:?}");
    };
    assert!(count > 1 && bytes > 65_536, "{found:?}");
    assert!(filling.finish());
    assert_eq!(notes(&store), []);
    let Lookup::Record(head) = worker.lookup(KEY) else {
        panic!("the key has no record");
    };
    let crate::StoredBody::Long(long) = head.body() else {
        panic!("the body is not stored in fragments");
    };
    drop(head);
    worker.inner.records.remove_fragments(long.id(), 2);
    let count = u64::from(long.fragments(0..long.bytes()).end);
    assert_eq!(notes(&store), [FindingKind::FragmentsMissing { missing: 2, count }]);
    remove_word(&worker, KEY);
    // The fragments stay for responses that are being sent, and are evicted later.
    worker.inner.clean_up_orphans();
    let [FindingKind::OrphanFragments { count: left, .. }] = notes(&store)[..] else {
        panic!("{:?}", notes(&store));
    };
    assert_eq!(left, count - 2);
}

#[test]
fn the_uses_of_very_many_fragments_are_reset_in_slices() {
    let mut config = config(128 << 20);
    // Many workers make small segments, and these make small fragments.
    config.worker_count = 32;
    config.object_bytes_max = u64::MAX;
    let store = Store::open(config).unwrap();
    let worker = store.join().unwrap();
    while worker.turn(NOW, |_| ()) {}
    assert!(put(&worker, KEY, b"head", &vec![7; 4 << 20]));
    let Lookup::Record(head) = worker.lookup(KEY) else {
        panic!("the key has no record");
    };
    let crate::StoredBody::Long(long) = head.body() else {
        panic!("the body is not stored in fragments");
    };
    drop(head);
    let inner = &worker.inner;
    let uses = |number| {
        let key = crate::store::long::fragment_key(long.id(), number);
        inner
            .records
            .index
            .lookup(&inner.records.pins, &inner.records.key(&key))
            .map(|hit| hit.word().uses())
    };
    let count = long.fragments(0..long.bytes()).end;
    assert!(count > 256, "{count}");
    for number in 0..count {
        assert!(worker.pin_fragment(&long, number, 0..1, 0).is_some());
    }
    assert_eq!(inner.records.index.remove(&inner.records.pins, &inner.records.key(KEY)), 1);
    assert!(worker.is_due() && worker.turn(NOW, |_| ()), "there is more to do");
    assert!(
        uses(0) == Some(0) && uses(count - 1) > Some(0),
        "some fragments are left for the next turn"
    );
    while worker.turn(NOW, |_| ()) {}
    assert!((0..count).all(|number| uses(number) == Some(0)), "the fragments are evicted next");
}

#[test]
fn a_variant_without_its_base_is_noted() {
    let (store, worker) = open(4 << 20);
    let base = VariantKey { names: b"accept".to_vec(), variant: b"html".to_vec() };
    assert!(fill(lead(&worker, KEY, None), b"head", Some(base), b"body"));
    assert_eq!(notes(&store), []);
    remove_word(&worker, KEY);
    assert_eq!(notes(&store), [FindingKind::OrphanVariant]);
}

#[test]
fn a_key_that_looks_like_a_variants_is_none() {
    let (store, worker) = open(4 << 20);
    // Before the last 24 bytes there is a NUL.
    let key = b"site\0http\0h\0/23-more-bytes-of-a-path";
    assert_eq!(key[key.len() - 25], 0);
    assert!(put(&worker, key, b"head", b"body"));
    assert_eq!(notes(&store), []);
}

#[test]
fn a_check_ends_for_every_content_of_a_region() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for turn in 0..12 {
        let made = made();
        let store = made.store.clone();
        drop(made);
        let areas = [kind::INDEX, kind::SEGMENTS, kind::PINS, kind::DATA, kind::STORE];
        let area = store.shared.region.area(areas[turn % areas.len()]).unwrap();
        for word in area.all() {
            // Either all words are random, or only some bits are changed.
            let noise =
                if turn < areas.len() { next() >> (next() % 64) } else { 1 << (next() % 64) };
            if turn < areas.len() || next() % 8 == 0 {
                word.fetch_xor(noise, Relaxed);
            }
        }
        match store.check(CheckDepth::Checksums, |_| ()) {
            Ok(report) => assert!(report.fault_count > 0 || turn % areas.len() == 4, "{turn}"),
            Err(_) => assert_eq!(areas[turn % areas.len()], kind::STORE),
        }
    }
}
