//! Tests of the index with a single thread. `tests/index_stress` plays random histories, and the
//! loom models run several threads.

mod buckets;
mod document;
mod words;

use std::cell::RefCell;
use std::sync::Arc;

use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords, Words};

use super::*;

const BUCKETS: usize = 2;
const SEGMENTS: usize = 2;
const SEGMENT_LOCATIONS: u32 = 1000;
/// A location in no segment.
const NOWHERE: u32 = SEGMENTS as u32 * SEGMENT_LOCATIONS;

/// Returns the location of a record, which encodes the record: key and sequence have two digits
/// each.
fn location(key: u32, sequence: u32) -> u32 {
    key * 10 + sequence
}

#[derive(Default)]
struct Locations {
    removed: RefCell<Vec<(u32, RemovalReason)>>,
}

impl Records for Locations {
    fn segment_of(&self, location: u32) -> usize {
        (location / SEGMENT_LOCATIONS) as usize
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        u64::from(at.location() % 10)
    }

    fn on_removed(&self, hit: &IndexHit<'_>, reason: RemovalReason) {
        self.removed.borrow_mut().push((hit.at().location(), reason));
    }
}

struct Store {
    index: Index<Arc<LineWords>, Locations>,
    words: Arc<LineWords>,
    pins: Pins<Arc<LineWords>>,
    row: PinRow<Arc<LineWords>>,
}

fn store() -> Store {
    let words = Arc::new(LineWords::new(words_needed(BUCKETS).unwrap()));
    // SAFETY: there is one table of pins, and no location is reused.
    let index = unsafe { Index::new(Arc::clone(&words), BUCKETS, Locations::default()) }.unwrap();
    let pins = Pins::new(Arc::new(LineWords::new(16)), 1, SEGMENTS, Barrier::fence()).unwrap();
    // SAFETY: the row is taken once.
    let row = unsafe { pins.row(0) }.unwrap();
    Store { index, words, pins, row }
}

/// Returns a hash such that each key has a fingerprint of its own; with two buckets, each key has
/// both.
fn hash(key: u32) -> KeyHash {
    KeyHash::new(u64::from(key) + 1)
}

fn key(key: u32) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool> {
    IndexKey::new(hash(key), move |at| at.location() / 10 == key)
}

impl Store {
    fn publish(&self, of: u32, sequence: u32) -> Result<UncheckedWord, InsertError> {
        let location = location(of, sequence);
        let new = InsertRequest { location, size_class: 20, sequence: u64::from(sequence) };
        self.index.insert(&self.row, &key(of), &new)
    }

    fn insert(&self, of: u32, sequence: u32) -> bool {
        let unchecked = self.publish(of, sequence).unwrap();
        self.index.make_live(&self.row, &key(of), unchecked)
    }

    fn lookup(&self, of: u32) -> Option<IndexHit<'_>> {
        self.index.lookup(&self.row, &key(of))
    }

    fn use_often(&self, of: u32, times: usize) {
        (0..times).for_each(|_| self.index.count_use(&self.lookup(of).unwrap()));
    }

    /// The locations of all words, sorted.
    fn locations(&self) -> Vec<u32> {
        let words = (0..BUCKETS).flat_map(|bucket| self.index.bucket(bucket));
        let words = words.filter(|word| !word.is_empty());
        let mut locations: Vec<u32> = words.map(|word| word.location()).collect();
        locations.sort_unstable();
        locations
    }

    /// Writes any word into a slot, to simulate damage and deaths.
    fn set(&self, slot: usize, word: IndexWord) {
        self.words.word(slot).store(word.bits(), forebay_sync::atomic::Relaxed);
    }

    fn take_removed(&self) -> Vec<(u32, RemovalReason)> {
        std::mem::take(&mut self.index.records().removed.borrow_mut())
    }
}
