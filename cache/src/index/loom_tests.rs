//! Models of the rules in docs/format/store.md, "Index", in every interleaving.
//!
//! Each location is a segment of its own, so that one pin protects one record. All keys have the
//! same buckets. Unless a model says otherwise, they also have the same fingerprint, so that only
//! the comparison of the keys distinguishes them, and a reused segment gets an equal word. The
//! models of `purge` use this store too.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `records[location]` | the owner of the open segment, before publication | all, under a pin |

mod purge_tests;
mod replace_tests;
mod reuse_tests;
mod verified_tests;

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Relaxed, UnsafeCell};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords, Words};
use loom::thread;

use super::*;

const LOCATIONS: usize = 5;
const ROWS: usize = 3;
const BUCKETS: usize = 2;
pub(crate) const KEY: u8 = b'A';
const OTHER_KEY: u8 = b'B';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    key: u8,
    sequence: u64,
}

pub(crate) struct Memory([UnsafeCell<Record>; LOCATIONS]);
// SAFETY: that is what the models check.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn read(&self, at: PinnedLocation<'_>) -> Record {
        // SAFETY: the record's segment is pinned.
        self.0[at.location() as usize].with(|record| unsafe { *record })
    }

    /// Writes a record, for the owner of the open segment.
    fn write(&self, location: u32, record: Record) {
        // SAFETY: the segment is open, and no word names the record.
        self.0[location as usize].with_mut(|old| unsafe { *old = record });
    }
}

impl Records for Arc<Memory> {
    fn segment_of(&self, location: u32) -> usize {
        location as usize
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        self.read(at).sequence
    }

    fn on_removed(&self, hit: &IndexHit<'_>, _reason: RemovalReason) {
        // The pin of the hit keeps the record, so this read must be legal.
        self.read(hit.at());
    }
}

pub(crate) struct Store {
    pub(crate) index: Index<Arc<LineWords>, Arc<Memory>>,
    words: Arc<LineWords>,
    pins: Pins<Arc<LineWords>>,
}

/// A store with one row for each thread.
pub(crate) fn store() -> Arc<Store> {
    let words = Arc::new(LineWords::new(words_needed(BUCKETS).unwrap()));
    let nobody = || UnsafeCell::new(Record { key: 0, sequence: 0 });
    let memory = Arc::new(Memory(std::array::from_fn(|_| nobody())));
    // SAFETY: the models keep the rules, or show what happens otherwise.
    let index = unsafe { Index::new(Arc::clone(&words), BUCKETS, memory) }.unwrap();
    let pin_words = Arc::new(LineWords::new(ROWS * LOCATIONS));
    let pins = Pins::new(pin_words, ROWS, LOCATIONS, Barrier::fence()).unwrap();
    Arc::new(Store { index, words, pins })
}

pub(crate) type Row = PinRow<Arc<LineWords>>;

fn hash() -> KeyHash {
    KeyHash::new(7)
}

impl Store {
    pub(crate) fn row(&self, number: usize) -> Row {
        // SAFETY: in each model a row has one owner at a time.
        unsafe { self.pins.row(number) }.unwrap()
    }

    pub(crate) fn key(&self, key: u8) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool> {
        let records = Arc::clone(self.index.records());
        IndexKey::new(hash(), move |at| records.read(at).key == key)
    }

    /// Writes a record and publishes it. Its sequence is its location plus one.
    pub(crate) fn publish(
        &self,
        row: &Row,
        key: u8,
        location: u32,
    ) -> Result<UncheckedWord, InsertError> {
        let sequence = u64::from(location) + 1;
        self.index.records().write(location, Record { key, sequence });
        self.index.insert(row, &self.key(key), &InsertRequest { location, size_class: 0, sequence })
    }

    pub(crate) fn insert(&self, row: &Row, key: u8, location: u32) -> bool {
        let published = self.publish(row, key, location);
        published.is_ok_and(|unchecked| self.index.make_live(row, &self.key(key), unchecked))
    }

    /// Derives a new record from the record that was found, and replaces the found record. Returns
    /// whether the new record is in the index.
    pub(crate) fn replace(&self, row: &Row, hit: &IndexHit<'_>, location: u32) -> bool {
        let old = self.index.records().read(hit.at());
        let sequence = u64::from(location) + 1;
        self.index.records().write(location, Record { sequence, ..old });
        let new = InsertRequest { location, size_class: 0, sequence };
        self.index.replace(row, &self.key(old.key), hit, &new)
    }

    /// Looks up a key, checks the content of the record if there is one, and returns its sequence.
    pub(crate) fn read(&self, row: &Row, key: u8) -> Option<u64> {
        let hit = self.index.lookup(row, &self.key(key))?;
        let record = self.index.records().read(hit.at());
        assert_eq!(record.key, key, "another key's record");
        Some(record.sequence)
    }

    /// All words that are not empty, after all threads have ended.
    fn all(&self) -> Vec<IndexWord> {
        let words = (0..BUCKETS).flat_map(|bucket| self.index.bucket(bucket));
        words.filter(|word| !word.is_empty()).collect()
    }

    /// The locations of the live records, after all threads have ended; there must be no other
    /// words.
    fn live_locations(&self) -> Vec<u32> {
        let all = self.all();
        assert!(all.iter().all(|word| word.state() == WordState::Live), "{all:?}");
        all.iter().map(|word| word.location()).collect()
    }
}

/// Runs in another thread, with a row of its own.
pub(crate) fn run<T: 'static>(
    store: &Arc<Store>,
    row: usize,
    work: impl FnOnce(&Store, &Row) -> T + 'static,
) -> thread::JoinHandle<T> {
    let store = Arc::clone(store);
    thread::spawn(move || work(&store, &store.row(row)))
}
