//! A stress test with real threads: owners publish, readers pin or copy, one thread reclaims and
//! moves.

use std::sync::atomic::AtomicU64 as Plain;
use std::thread;

use forebay_sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release, Relaxed};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords};
use forebay_testkit::StopFlag;

use super::*;

const KEYS: u64 = 512;
const OWNERS: u32 = 2;
const READERS: u32 = 2;
const RECLAIMER: u32 = OWNERS + READERS;
const APPENDS: u64 = if cfg!(debug_assertions) { 6_000 } else { 60_000 };
const SEGMENTS: u32 = 12;

/// The largest number of steps of a reader: a hundred times the number that it usually takes until
/// the owners are done.
const STEPS_MAX: u64 = 1_000 * APPENDS;

/// The largest number of yields while a thread waits for another one: about 50 s.
const YIELDS_MAX: u64 = 50_000_000;

struct Store {
    segments: Segments<Shared>,
    pins: Pins<Arc<LineWords>>,
    /// For each key, the location of its record plus 1.
    words: Vec<AtomicU64>,
    order: Plain,
    sequence: Plain,
    stop: StopFlag,
    hits: Plain,
    moves: Plain,
    frees: Plain,
    copies: Plain,
}

fn store() -> Store {
    let rows = RECLAIMER + 1;
    let geometry = Geometry::of(u64::from(SEGMENT_BYTES), u64::from(SEGMENTS)).unwrap();
    let words = |count| Arc::new(boxed_words(count));
    let pinned = Pins::<LineWords>::words_needed(rows as usize, SEGMENTS as usize).unwrap();
    let data = words((geometry.data_bytes() / 8) as usize);
    // SAFETY: the words are new.
    let segments = unsafe { Segments::new(words(8 * SEGMENTS as usize), data, geometry, rows) };
    let barrier = Barrier::process().unwrap_or(Barrier::fence());
    let pin_words = Arc::new(LineWords::new(pinned));
    Store {
        segments: segments.unwrap(),
        pins: Pins::new(pin_words, rows as usize, SEGMENTS as usize, barrier).unwrap(),
        words: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        order: Plain::new(0),
        sequence: Plain::new(1),
        stop: StopFlag::default(),
        hits: Plain::new(0),
        moves: Plain::new(0),
        frees: Plain::new(0),
        copies: Plain::new(0),
    }
}

/// Asserts that a record has this key and a correct checksum, and that each byte of its body is the
/// key's.
fn assert_right(record: &Record<'_>, key: u64) {
    assert_eq!(record.key(), key.to_le_bytes(), "another key's record");
    assert!(record.has_valid_checksum(), "a torn record");
    assert!(record.body().iter().all(|byte| *byte == key as u8));
}

impl Store {
    fn seal(&self, open: OpenSegment<Shared>) {
        // SAFETY: the owner has published all of its locations, and swaps no word later.
        unsafe { open.seal(self.order.fetch_add(1, Relaxed)) }.unwrap();
    }

    /// Waits for a free segment.
    fn claim(&self, row: u32, last: Option<u32>) -> OpenSegment<Shared> {
        let claim = |_| {
            // SAFETY: each thread has a row of its own.
            let open = unsafe { self.segments.claim(row, SegmentQueue::Small, last) };
            open.or_else(|| {
                thread::yield_now();
                None
            })
        };
        self.stop.steps(YIELDS_MAX).find_map(claim).expect("another thread failed")
    }

    fn own(&self, row: u32, mut rng: Rng) {
        let mut open = self.claim(row, None);
        for _ in 0..APPENDS {
            let key = rng.below(KEYS);
            let body = vec![key as u8; rng.size(6_000)];
            let parts = Parts { key: key.to_le_bytes().to_vec(), body, ..Parts::default() };
            let sequence = self.sequence.fetch_add(1, Relaxed);
            let location = loop {
                match parts.append(&mut open, sequence) {
                    Ok(location) => break location,
                    Err(AppendError::Full) => {
                        let last = open.segment();
                        self.seal(open);
                        open = self.claim(row, Some(last));
                    }
                    Err(other) => panic!("{other}"),
                }
            };
            self.words[key as usize].store(u64::from(location.0) + 1, Release);
        }
        self.seal(open);
    }

    fn read(&self, row: u32, mut rng: Rng) {
        let row = self.row(row);
        for _ in self.stop.steps(STEPS_MAX) {
            let key = rng.below(KEYS);
            self.hit(&row, key, rng.below(16) == 0);
            self.copy(rng.below(KEYS));
        }
    }

    fn row(&self, row: u32) -> PinRow<Arc<LineWords>> {
        // SAFETY: each thread has a row of its own.
        unsafe { self.pins.row(row as usize) }.unwrap()
    }

    /// Reads the record of a key, and purges it softly if `and_purge`.
    fn hit(&self, row: &PinRow<Arc<LineWords>>, key: u64, and_purge: bool) {
        let word = &self.words[key as usize];
        let seen = word.load(Relaxed);
        let Some(location) = seen.checked_sub(1).map(|location| Location(location as u32)) else {
            return;
        };
        let segment = self.segments.geometry().segment_of(location).unwrap();
        let is_there = || word.load(Acquire) == seen;
        if let Ok(_pin) = row.pin(segment as usize, is_there) {
            // SAFETY: the segment is pinned, and the word was loaded again under the pin.
            assert_right(&unsafe { self.segments.record(location) }.unwrap(), key);
            self.hits.fetch_add(1, Relaxed);
            // SAFETY: still pinned.
            let marks = unsafe { self.segments.marks(location) }.unwrap();
            if and_purge && marks.mark_soft().is_err() {
                let _ = word.compare_exchange(seen, 0, Relaxed, Relaxed);
            }
        }
    }

    fn copy(&self, key: u64) {
        let word = &self.words[key as usize];
        let seen = word.load(Relaxed);
        let Some(location) = seen.checked_sub(1).map(|location| Location(location as u32)) else {
            return;
        };
        match self.segments.unpinned().copy(location, || word.load(Relaxed) == seen) {
            Ok(copied) => {
                assert_right(&copied.record(), key);
                self.copies.fetch_add(1, Relaxed);
            }
            Err(CopyError::Gone) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Reclaims the oldest sealed segments until the owners are done.
    fn reclaim(&self, row: u32, mut rng: Rng) {
        let table = self.segments.table();
        for _ in self.stop.steps(YIELDS_MAX) {
            let sealed = table
                .segments_where(|state| state.phase == SegmentPhase::Sealed)
                .min_by_key(|segment| table.order(*segment));
            let free_count =
                table.segments_where(|state| state.phase == SegmentPhase::Free).count();
            let Some(segment) = sealed.filter(|_| free_count < 3) else {
                thread::yield_now();
                continue;
            };
            table.drain(segment).unwrap();
            self.empty(segment, row, &mut rng);
            self.pins.barrier();
            // Readers lower their pins even when another thread fails.
            let is_unpinned = (0..YIELDS_MAX).any(|_| {
                thread::yield_now();
                !self.pins.is_pinned(segment as usize)
            });
            assert!(is_unpinned, "a reader keeps its pin");
            // SAFETY: all words are removed, no thread pins the segment, and there is no other
            // reclaimer.
            unsafe { self.segments.free(segment) }.unwrap();
            self.frees.fetch_add(1, Relaxed);
        }
    }

    /// Removes the words of a draining segment; one in four records is moved.
    fn empty(&self, segment: u32, row: u32, rng: &mut Rng) {
        // SAFETY: the row is the reclaimer's.
        let mut open = unsafe { self.segments.claim(row, SegmentQueue::Main, None) };
        let mut key = Vec::new();
        for found in self.segments.scan(segment) {
            let found = found.unwrap();
            key.clear();
            self.segments.copy_key(&found, &mut key);
            let key = u64::from_le_bytes(key.as_slice().try_into().unwrap());
            let (word, named) = (&self.words[key as usize], u64::from(found.location.0) + 1);
            if word.load(Acquire) != named {
                continue;
            }
            let moved = open.as_mut().filter(|_| rng.below(4) == 0);
            let copy = moved.and_then(|open| {
                // SAFETY: the segment is draining, and this thread is its reclaimer.
                let record = unsafe { self.segments.record(found.location) }.unwrap();
                assert_right(&record, key);
                // SAFETY: as above.
                let frozen = unsafe { self.segments.marks(found.location) }?.freeze();
                open.append_copy(&record, frozen).ok()
            });
            let next = copy.map_or(0, |location| u64::from(location.0) + 1);
            let order = Release;
            if word.compare_exchange(named, next, order, Relaxed).is_ok() && copy.is_some() {
                self.moves.fetch_add(1, Relaxed);
            }
        }
        if let Some(open) = open
            && let Err(open) = open.give_back()
        {
            self.seal(open);
        }
    }
}

#[test]
fn many_threads_find_only_complete_records() {
    let mut rng = Rng::of("many_threads_find_only_complete_records");
    let store = store();
    thread::scope(|scope| {
        let store = &store;
        let mut start = |work: fn(&Store, u32, Rng), row: u32| {
            let rng = Rng(rng.next());
            scope.spawn(move || {
                let _guard = store.stop.panic_guard();
                work(store, row, rng);
            })
        };
        let owners: Vec<_> = (0..OWNERS).map(|row| start(Store::own, row)).collect();
        let mut others: Vec<_> = (OWNERS..RECLAIMER).map(|row| start(Store::read, row)).collect();
        others.push(start(Store::reclaim, RECLAIMER));
        // Joined explicitly: ThreadSanitizer does not see the join of the scope.
        let mut ends: Vec<_> = owners.into_iter().map(|owner| owner.join()).collect();
        store.stop.raise();
        ends.extend(others.into_iter().map(|other| other.join()));
        assert!(ends.iter().all(Result::is_ok), "a thread failed");
    });
    let counts =
        [&store.hits, &store.moves, &store.frees, &store.copies].map(|it| it.load(Relaxed));
    println!("hits, moves, frees, copies: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "an event never happened: {counts:?}");
    let is_at_rest =
        |state: SegmentState| matches!(state.phase, SegmentPhase::Free | SegmentPhase::Sealed);
    let at_rest = store.segments.table().segments_where(is_at_rest).count();
    assert_eq!(at_rest, SEGMENTS as usize, "a segment was lost");
}
