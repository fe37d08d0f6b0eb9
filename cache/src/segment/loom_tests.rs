//! Models of segments of one or two units, in every interleaving. The word that names a record is
//! part of the model, not of an index.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `word` | publisher, remover, mover | all threads |
//! | bytes of a segment | its owner | readers under a pin, reclaimer, tools |

mod drain_tests;

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};
use forebay_sync::model::{breaks, breaks_within, fails, holds, holds_within};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords, boxed_words};
use loom::thread;

use super::*;

type Words = Arc<Box<[AtomicU64]>>;

const EMPTY: u64 = 0;
const OLD: Location = Location(0);

/// Returns the word that names the record at a location.
fn named(location: Location) -> u64 {
    u64::from(location.0) + 1
}

struct Store {
    segments: Segments<Words>,
    pins: Pins<Arc<LineWords>>,
    word: AtomicU64,
    /// Set once a purge was acknowledged.
    acknowledged: AtomicU64,
}

/// Empty segments of `units` units each.
fn store(segment_count: u64, units: u64) -> Arc<Store> {
    let geometry = Geometry::of(64 * units, segment_count).unwrap();
    let words = |count| Arc::new(boxed_words(count));
    let table = words(8 * segment_count as usize);
    let data = words((8 * units * segment_count) as usize);
    let pin_words = Arc::new(LineWords::new(2 * segment_count as usize));
    // SAFETY: the words are new.
    let segments = unsafe { Segments::new(table, data, geometry, 2) }.unwrap();
    Arc::new(Store {
        segments,
        pins: Pins::new(pin_words, 2, segment_count as usize, Barrier::fence()).unwrap(),
        word: AtomicU64::new(EMPTY),
        acknowledged: AtomicU64::new(0),
    })
}

/// A store with a sealed and published record.
fn store_with_record(segment_count: u64) -> Arc<Store> {
    let store = store(segment_count, 1);
    let mut open = claim(&store, 0).unwrap();
    assert_eq!(append(&mut open, 1), OLD);
    store.word.store(named(OLD), Relaxed);
    // SAFETY: the word is live.
    unsafe { open.seal(1) }.unwrap();
    store
}

fn claim(store: &Store, row: u32) -> Option<OpenSegment<Words>> {
    // SAFETY: each thread that claims has a row.
    unsafe { store.segments.claim(row, SegmentQueue::Small, None) }
}

/// Appends a record of one unit, each part of which holds its sequence.
fn append(open: &mut OpenSegment<Words>, sequence: u64) -> Location {
    let key = [sequence as u8; 8];
    let record = NewRecord {
        kind: HeaderKind::Whole,
        sequence,
        purge_noted: 0,
        response_time: 0,
        marks: RecordMarks::stale_from(sequence),
        key: &key,
        tags: b"",
        head: b"",
        body: &[],
    };
    open.append(&record).unwrap()
}

fn assert_whole(record: &Record<'_>) {
    let sequence = record.header.sequence;
    assert_eq!(record.key(), [sequence as u8; 8], "a torn record");
    assert_eq!(record.marks.stale_from_seconds(), sequence, "the marks of another record");
}

fn row(store: &Store, row: usize) -> PinRow<Arc<LineWords>> {
    // SAFETY: in each model a row has one owner.
    unsafe { store.pins.row(row) }.unwrap()
}

/// Pins and reads the record, if a word names it.
fn hit(store: &Store, row: &PinRow<Arc<LineWords>>) {
    let word = store.word.load(Relaxed);
    if word == EMPTY {
        return;
    }
    if let Ok(_pin) = row.pin(0, || store.word.load(acquire("model.look_again")) == word) {
        // SAFETY: the segment is pinned, and the word was loaded again under the pin.
        let record = unsafe { store.segments.record(Location(word as u32 - 1)) }.unwrap();
        assert_whole(&record);
    }
}

fn publish(store: &Store, location: Location) {
    let new = named(location);
    let _ = store.word.compare_exchange(EMPTY, new, release("model.publish"), Relaxed);
}

fn take_out(store: &Store, location: Location) {
    let _ = store.word.compare_exchange(named(location), EMPTY, Relaxed, Relaxed);
}

/// Drains the only segment if it is sealed, and frees it if it is not pinned. Returns whether it
/// was freed.
fn reclaim(store: &Store) -> bool {
    if store.segments.table().drain(0).is_err() {
        return false;
    }
    for found in store.segments.scan(0) {
        let location = found.unwrap().location;
        // SAFETY: the segment is draining, and this thread is its reclaimer.
        assert_whole(&unsafe { store.segments.record(location) }.unwrap());
        if store.word.load(Relaxed) == named(location) {
            take_out(store, location);
        }
    }
    store.pins.barrier();
    if store.pins.is_pinned(0) {
        return false;
    }
    // SAFETY: as above; the reclaimer may read until it frees the segment.
    assert_whole(&unsafe { store.segments.record(OLD) }.unwrap());
    // SAFETY: all words were removed above; no thread pins the segment.
    unsafe { store.segments.free(0) }.is_ok()
}

/// Reuses the only segment for another record, under an equal word.
fn reuse(store: &Store) {
    if let Some(mut open) = claim(store, 1) {
        let location = append(&mut open, 2);
        publish(store, location);
    }
}

/// Models a reader that reads twice while the reclaimer of the segment reuses it.
fn pinned_and_reused() {
    let store = store_with_record(1);
    let other = Arc::clone(&store);
    let reader = thread::spawn(move || {
        let row = row(&other, 0);
        hit(&other, &row);
        hit(&other, &row);
    });
    if reclaim(&store) {
        reuse(&store);
    }
    reader.join().unwrap();
}

/// Models a thread that frees the segment that another thread has read, and a third thread that
/// claims and writes the segment.
fn freed_and_claimed() {
    let store = store_with_record(1);
    let (reading, reclaiming) = (Arc::clone(&store), Arc::clone(&store));
    let reader = thread::spawn(move || hit(&reading, &row(&reading, 0)));
    let reclaimer = thread::spawn(move || reclaim(&reclaiming));
    reuse(&store);
    reader.join().unwrap();
    reclaimer.join().unwrap();
}

/// Does the same as [`freed_and_claimed`], with a thread that claims the segment first and gives it
/// back.
fn given_back() {
    let store = store_with_record(1);
    let (reclaiming, claiming) = (Arc::clone(&store), Arc::clone(&store));
    let reclaimer = thread::spawn(move || reclaim(&reclaiming));
    let claimer = thread::spawn(move || {
        if let Some(open) = claim(&claiming, 0) {
            open.give_back().unwrap();
        }
    });
    reuse(&store);
    reclaimer.join().unwrap();
    claimer.join().unwrap();
}

/// Models a segment that is sealed before or after the word of its last record is published.
fn sealed(after_publishing: bool) {
    let store = store(1, 1);
    let other = Arc::clone(&store);
    let owner = thread::spawn(move || {
        let mut open = claim(&other, 0).unwrap();
        let location = append(&mut open, 1);
        if after_publishing {
            publish(&other, location);
        }
        // SAFETY: the model shows whether this contract is needed.
        unsafe { open.seal(7) }.unwrap();
        if !after_publishing {
            publish(&other, location);
        }
    });
    let is_free = reclaim(&store);
    owner.join().unwrap();
    assert!(!is_free || store.word.load(Relaxed) == EMPTY, "a word names a free segment");
}

/// Checks that `order` and `expires`, which are stored before sealing, are visible when the segment
/// is drained.
fn told() {
    let store = store(1, 1);
    let other = Arc::clone(&store);
    let owner = thread::spawn(move || {
        let mut open = claim(&other, 0).unwrap();
        append(&mut open, 9);
        // SAFETY: the record has no word, and will have none.
        unsafe { open.seal(7) }.unwrap();
    });
    let table = store.segments.table();
    if table.drain(0).is_ok() {
        assert_eq!((table.order(0), table.expires(0)), (7, 9), "order or expires is missing");
    }
    owner.join().unwrap();
}

/// Checks that a scan during an append finds complete records.
fn walked() {
    let store = store(1, 2);
    let other = Arc::clone(&store);
    let owner = thread::spawn(move || {
        let mut open = claim(&other, 0).unwrap();
        append(&mut open, 1);
        append(&mut open, 2);
    });
    for (found, sequence) in store.segments.scan(0).zip(1..) {
        let found = found.unwrap();
        assert_eq!(found.header.sequence, sequence);
        assert!(store.segments.has_valid_checksum(&found), "a torn record");
    }
    owner.join().unwrap();
}

/// Models the move of a record while a soft purge marks it. If `by_freezing`, the copy has the
/// mark, or the purge removes the record.
fn moved(by_freezing: bool) {
    let store = store_with_record(2);
    let (moving, purging) = (Arc::clone(&store), Arc::clone(&store));
    let mover = thread::spawn(move || move_record(&moving, by_freezing));
    let purger = thread::spawn(move || purge_softly(&purging));
    if store.acknowledged.load(acquire("model.acknowledged")) == 1 {
        assert_purged(&store, "fresh after the acknowledgement");
    }
    mover.join().unwrap();
    purger.join().unwrap();
    assert_purged(&store, "the mark was lost");
}

fn marks(store: &Store, location: Location) -> MarksWord<'_> {
    // SAFETY: no thread frees it in this model, and a word names it.
    unsafe { store.segments.marks(location) }.unwrap()
}

fn move_record(store: &Store, by_freezing: bool) {
    let mut open = claim(store, 1).unwrap();
    // SAFETY: no thread frees it in this model.
    let record = unsafe { store.segments.record(OLD) }.unwrap();
    let marks = marks(store, OLD);
    let copy = if by_freezing {
        open.append_copy(&record, marks.freeze()).unwrap()
    } else {
        let (header, marks) = (record.header, marks.load());
        let record = NewRecord {
            kind: header.kind,
            sequence: header.sequence,
            purge_noted: 0,
            response_time: 0,
            marks,
            key: record.key(),
            tags: b"",
            head: b"",
            body: &[],
        };
        open.append(&record).unwrap()
    };
    let order = release("model.move");
    let _ = store.word.compare_exchange(named(OLD), named(copy), order, Relaxed);
}

fn purge_softly(store: &Store) {
    loop {
        let word = store.word.load(acquire("model.find"));
        if word == EMPTY {
            break;
        }
        let location = Location(word as u32 - 1);
        if marks(store, location).mark_soft().is_ok() {
            break;
        }
        if store.word.compare_exchange(word, EMPTY, Relaxed, Relaxed).is_ok() {
            break;
        }
    }
    store.acknowledged.store(1, release("model.acknowledge"));
}

fn assert_purged(store: &Store, otherwise: &str) {
    let word = store.word.load(acquire("model.find"));
    if word != EMPTY {
        let marks = marks(store, Location(word as u32 - 1)).load();
        assert!(marks.is_soft(), "{otherwise}");
    }
}

/// Models a tool that copies a record while the segment is reused under the same word.
fn copied_from_outside() {
    let store = store_with_record(1);
    let other = Arc::clone(&store);
    let reclaimer = thread::spawn(move || {
        if reclaim(&other) {
            reuse(&other);
        }
    });
    let is_there = || store.word.load(Relaxed) == named(OLD);
    if let Ok(copied) = store.segments.unpinned().copy_unchecked(OLD, is_there) {
        assert_whole(&copied.record());
    }
    reclaimer.join().unwrap();
}

/// Models a tool that walks over a segment while the segment is reused.
fn walked_from_outside() {
    let store = store_with_record(1);
    let other = Arc::clone(&store);
    let reclaimer = thread::spawn(move || {
        if reclaim(&other) {
            reuse(&other);
        }
    });
    if let Some(walked) = store.segments.unpinned().walk(0) {
        assert_eq!(walked.damage, None, "no damage");
        let expected = u64::from(walked.state.generation) + 1;
        for found in walked.records {
            assert_eq!(found.header.sequence, expected, "a record of another generation");
        }
    }
    reclaimer.join().unwrap();
}

/// Models the death of a segment's owner. One thread detects the death, another one checks the
/// segment.
fn dead_owner() {
    let store = store(1, 1);
    let other = Arc::clone(&store);
    let finder = thread::spawn(move || {
        // The work of the dead owner, which the finder has seen.
        let mut open = claim(&other, 1).unwrap();
        let location = append(&mut open, 1);
        publish(&other, location);
        drop(open);
        // SAFETY: in the model the owner has ended.
        unsafe { other.segments.suspect(0, 1) }.unwrap();
    });
    // SAFETY: the row is this thread's.
    if let Ok(open) = unsafe { store.segments.adopt(0, 0) } {
        assert_eq!(open.filled_bytes(), 64);
        assert_eq!(store.word.load(Relaxed), named(OLD), "not all words are seen");
        // SAFETY: the segment is ours.
        assert_whole(&unsafe { store.segments.record(OLD) }.unwrap());
        // SAFETY: the word is live.
        unsafe { open.seal(1) }.unwrap();
    }
    finder.join().unwrap();
}

/// Models two threads that claim the only segment.
fn claimed_once() {
    let store = store(1, 1);
    let other = Arc::clone(&store);
    let claimer = thread::spawn(move || claim(&other, 1).map(|open| open.segment()));
    let own = claim(&store, 0).map(|open| open.segment());
    let others = claimer.join().unwrap();
    assert!(own.is_some() || others.is_some(), "no thread got a segment");
    assert_ne!(own, others, "two owners");
}

#[test]
fn bytes_that_are_read_are_not_overwritten() {
    holds("segments: pinned, reclaimed and reused", pinned_and_reused);
    holds("segments: freed by one, claimed by another", freed_and_claimed);
    holds("segments: claimed and given back", given_back);
    holds("segments: two claim", claimed_once);
}

#[test]
fn a_named_record_is_not_reclaimed() {
    holds("segments: sealed after the last word", || sealed(true));
    holds("segments: told with the seal", told);
    holds("segments: an owner dies", dead_owner);
    fails("segments: sealed before the last word", || sealed(false));
}

#[test]
fn a_scan_finds_complete_records() {
    holds("segments: a walk beside the owner", walked);
    holds_within(Some(3), "segments: a copy from outside", copied_from_outside);
    holds_within(Some(3), "segments: a walk from outside", walked_from_outside);
}

#[test]
fn a_soft_mark_is_not_lost() {
    holds("segments: a record is moved and marked", || moved(true));
    fails("segments: a record is moved without freezing", || moved(false));
}

#[test]
fn each_ordering_of_segments_is_needed() {
    for name in ["segment.free", "segment.claim"] {
        let model = "segments: freed by one, claimed by another";
        breaks_within(Some(3), name, model, freed_and_claimed);
        breaks_within(Some(3), name, "segments: claimed and given back", given_back);
    }
    for name in ["pins.raise", "pins.reclaim", "pins.unpin", "pins.look"] {
        let model = "segments: pinned, reclaimed and reused";
        breaks_within(Some(3), name, model, pinned_and_reused);
    }
    for name in ["segment.seal", "segment.drain"] {
        breaks(name, "segments: sealed after the last word", || sealed(true));
        breaks(name, "segments: told with the seal", told);
    }
    for name in ["segment.suspect", "segment.adopt"] {
        breaks(name, "segments: an owner dies", dead_owner);
    }
    for name in ["segment.fill", "segment.walk"] {
        breaks(name, "segments: a walk beside the owner", walked);
    }
}

#[test]
fn each_ordering_of_reading_without_a_pin_is_needed() {
    for name in [
        "segment.generation",
        "segment.named",
        "segment.copied",
        "segment.overwrite",
        "model.publish",
    ] {
        breaks_within(Some(3), name, "segments: a copy from outside", copied_from_outside);
    }
    for name in ["segment.free", "segment.fill", "segment.filled", "segment.generation"] {
        breaks_within(Some(3), name, "segments: a walk from outside", walked_from_outside);
    }
    for name in ["model.move", "model.find", "model.acknowledge", "model.acknowledged"] {
        breaks_within(Some(3), name, "segments: a record is moved and marked", || moved(true));
    }
}
