//! Many threads, whose records are in segments that are reused again and again.
//!
//! Each thread has keys that only it writes, and knows which of their records must be found. If one
//! of these is not found, a thread must have reported the removal of exactly this record. All
//! threads write the remaining, shared keys.

use std::cell::{Cell, UnsafeCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use forebay_cache::index::{
    Index, IndexHit, IndexKey, InsertError, InsertRequest, KeyHash, PinnedLocation, Records,
    RemovalReason, WordState,
};
use forebay_sync::pins::Pins;
use forebay_sync::{Barrier, LineWords};

use super::{Row, index, pins, poor_hash, row};
use forebay_testkit::Rng;

const THREADS: usize = 4;
const STEPS: usize = if cfg!(any(debug_assertions, tsan)) { 20_000 } else { 150_000 };
const ROUNDS: usize = 50;
/// The number of buckets: too few for all keys, so that some records are evicted.
const BUCKETS: usize = 12;
const OWN_KEYS: usize = 30;
const SHARED_KEYS: usize = 12;
const FINGERPRINTS: u64 = 24;
const SEGMENTS_EACH: usize = 6;
const SEGMENT_RECORDS: usize = 16;
const RECORD_WORDS: usize = 12;

/// A record: key and sequence, repeated so that a torn record is detected.
struct Record(UnsafeCell<[u64; RECORD_WORDS]>);
// SAFETY: that is what the test checks.
unsafe impl Sync for Record {}

struct Memory {
    records: Vec<Record>,
    /// Whether the record with this sequence was removed.
    gone: Vec<AtomicBool>,
}

impl Memory {
    fn read(&self, at: PinnedLocation<'_>) -> (u64, u64) {
        self.read_own(at.location())
    }

    /// Reads a record of a segment that is the caller's own, or pinned.
    fn read_own(&self, location: u32) -> (u64, u64) {
        // SAFETY: no thread writes there now.
        let words = unsafe { *self.records[location as usize].0.get() };
        let (key, sequence) = (words[0], words[1]);
        let is_whole = words.chunks(2).all(|pair| *pair == [key, sequence]);
        assert!(is_whole, "a torn record: {words:?}");
        (key, sequence)
    }

    /// Writes a record that no word names, in a segment that is the caller's own.
    fn write(&self, location: u32, key: u64, sequence: u64) {
        let words = std::array::from_fn(|word| if word % 2 == 0 { key } else { sequence });
        // SAFETY: no thread reads or writes there now.
        unsafe { *self.records[location as usize].0.get() = words };
    }

    fn is_gone(&self, sequence: u64) -> bool {
        self.gone[sequence as usize].load(Ordering::Acquire)
    }

    fn set_gone(&self, sequence: u64) {
        let was_gone = self.gone[sequence as usize].swap(true, Ordering::AcqRel);
        assert!(!was_gone, "record {sequence} was removed twice");
    }

    /// Waits until the remover of a record has reported the removal, which it does shortly after
    /// the removal.
    fn wait_until_gone(&self, sequence: u64) {
        for _ in 0..10_000_000 {
            if self.is_gone(sequence) {
                return;
            }
            thread::yield_now();
        }
        panic!("record {sequence} is not found, though no thread removed it");
    }
}

/// Sometimes lets another thread run, in the middle of an operation of the index.
fn wobble() {
    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    let count = COUNT.get() + 1;
    COUNT.set(count);
    if count.is_multiple_of(61) {
        thread::yield_now();
    }
}

impl Records for Memory {
    fn segment_of(&self, location: u32) -> usize {
        wobble();
        location as usize / SEGMENT_RECORDS
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        self.read(at).1
    }

    fn on_removed(&self, hit: &IndexHit<'_>, _reason: RemovalReason) {
        self.set_gone(self.read(hit.at()).1);
    }
}

struct Shared {
    index: Index<Arc<LineWords>, Memory>,
    pins: Pins<Arc<LineWords>>,
    next_sequence: AtomicU64,
    /// For each key the lowest sequence that may be found: all records with lower sequences were
    /// replaced or removed.
    lowest: Vec<AtomicU64>,
}

fn shared(barrier: Barrier) -> Shared {
    let segments = THREADS * SEGMENTS_EACH;
    let record = |_| Record(UnsafeCell::new([0; RECORD_WORDS]));
    let memory = Memory {
        records: (0..segments * SEGMENT_RECORDS).map(record).collect(),
        gone: (0..=THREADS * STEPS).map(|_| AtomicBool::new(false)).collect(),
    };
    Shared {
        index: index(BUCKETS, memory),
        pins: pins(THREADS, segments, barrier),
        next_sequence: AtomicU64::new(1),
        lowest: (0..THREADS * OWN_KEYS).map(|_| AtomicU64::new(0)).collect(),
    }
}

/// Whether all threads write a key. Keys below `THREADS * OWN_KEYS` have one writer each.
fn is_shared_key(key: u64) -> bool {
    key >= (THREADS * OWN_KEYS) as u64
}

fn hash(key: u64) -> KeyHash {
    poor_hash(key, FINGERPRINTS)
}

struct Worker<'a> {
    shared: &'a Shared,
    row: Row,
    number: usize,
    rng: Rng,
    /// The sequence of the record that this thread stored under each of its own keys.
    own: HashMap<u64, u64>,
    free: Vec<usize>,
    /// The sealed segments, the oldest first, with the number of their records.
    sealed: VecDeque<(usize, usize)>,
    open: usize,
    open_count: usize,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, number: usize, rng: Rng) -> Worker<'a> {
        let first = number * SEGMENTS_EACH;
        Worker {
            shared,
            row: row(&shared.pins, number),
            number,
            rng,
            own: HashMap::new(),
            free: (first + 1..first + SEGMENTS_EACH).collect(),
            sealed: VecDeque::new(),
            open: first,
            open_count: 0,
        }
    }

    fn index(&self) -> &'a Index<Arc<LineWords>, Memory> {
        &self.shared.index
    }

    fn memory(&self) -> &'a Memory {
        self.shared.index.records()
    }

    fn key(&self, key: u64) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + use<'a>> {
        let memory = self.memory();
        IndexKey::new(hash(key), move |at| {
            wobble();
            memory.read(at).0 == key
        })
    }

    fn step(&mut self) {
        let own = (self.number * OWN_KEYS + self.rng.below(OWN_KEYS)) as u64;
        let any = self.rng.below(THREADS * OWN_KEYS) as u64;
        let shared = (THREADS * OWN_KEYS + self.rng.below(SHARED_KEYS)) as u64;
        match self.rng.below(100) {
            0..30 => self.read(any),
            30..55 => self.read_own(own),
            55..80 => self.insert_own(own),
            80..85 => self.remove_own(own),
            85..92 => drop(self.insert(shared)),
            92..95 => drop(self.index().remove(&self.row, &self.key(shared))),
            95..97 => self.replace(shared),
            97..99 => self.replace(own),
            _ => self.hold(any, shared),
        }
    }

    /// Reads a key, and checks that its record is not older than the last record whose insertion
    /// has returned.
    fn read(&mut self, key: u64) {
        let lowest = self.shared.lowest[key as usize].load(Ordering::Acquire);
        let Some(hit) = self.index().lookup(&self.row, &self.key(key)) else {
            return;
        };
        let (found, sequence) = self.memory().read(hit.at());
        assert_eq!(found, key, "another key's record");
        assert!(sequence >= lowest, "{sequence} was removed when {lowest} was acknowledged");
        if self.rng.below(4) == 0 {
            self.index().count_use(&hit);
        }
    }

    /// Reads a key that only this thread writes. Expects exactly the stored record, unless a thread
    /// removed it.
    fn read_own(&mut self, key: u64) {
        self.read(key);
        let hit = self.index().lookup(&self.row, &self.key(key));
        let found = hit.map(|hit| self.memory().read(hit.at()).1);
        let expected = self.own.get(&key).copied();
        match (found, expected) {
            (Some(found), Some(expected)) => assert_eq!(found, expected),
            (Some(found), None) => panic!("{found} is found after its removal"),
            (None, Some(expected)) => {
                self.memory().wait_until_gone(expected);
                self.own.remove(&key);
            }
            (None, None) => {}
        }
    }

    fn insert_own(&mut self, key: u64) {
        let before = self.own.get(&key).copied();
        let (sequence, is_in) = match self.insert(key) {
            Ok(inserted) => inserted,
            Err(InsertError::Outdated) => panic!("another thread writes this key"),
            Err(InsertError::Full) => return,
        };
        if !is_in {
            return;
        }
        self.own.insert(key, sequence);
        self.shared.lowest[key as usize].store(sequence, Ordering::Release);
        if let Some(before) = before {
            self.memory().wait_until_gone(before);
        }
    }

    fn remove_own(&mut self, key: u64) {
        let count = self.index().remove(&self.row, &self.key(key));
        let Some(sequence) = self.own.remove(&key) else {
            return assert_eq!(count, 0, "{key} was not there");
        };
        assert!(count <= 1, "{count} records of one key");
        self.memory().wait_until_gone(sequence);
        self.shared.lowest[key as usize].store(sequence + 1, Ordering::Release);
    }

    /// Publishes a new record, and in most cases makes it live. Returns its sequence, and whether
    /// it is in the index.
    fn insert(&mut self, key: u64) -> Result<(u64, bool), InsertError> {
        let new = self.new_record(key);
        let unchecked = self.index().insert(&self.row, &self.key(key), &new)?;
        wobble();
        let is_in = if self.rng.below(10) > 0 {
            self.index().make_live(&self.row, &self.key(key), unchecked)
        } else {
            self.index().withdraw(unchecked);
            false
        };
        Ok((new.sequence, is_in))
    }

    fn new_record(&mut self, key: u64) -> InsertRequest {
        let location = self.next_location();
        let sequence = self.shared.next_sequence.fetch_add(1, Ordering::Relaxed);
        self.memory().write(location, key, sequence);
        InsertRequest { location, size_class: 13, sequence }
    }

    fn replace(&mut self, key: u64) {
        let new = self.new_record(key);
        let Some(hit) = self.index().lookup(&self.row, &self.key(key)) else {
            return;
        };
        let (_, old) = self.memory().read(hit.at());
        let is_newer = new.sequence > old;
        if is_newer && self.index().replace(&self.row, &self.key(key), &hit, &new) {
            if !is_shared_key(key) {
                self.own.insert(key, new.sequence);
                self.shared.lowest[key as usize].store(new.sequence, Ordering::Release);
            }
        } else if !is_shared_key(key) {
            self.memory().wait_until_gone(old);
        }
    }

    /// Keeps a pin up for a while, and checks that the record that it protects does not change.
    fn hold(&mut self, key: u64, other: u64) {
        let Some(hit) = self.index().lookup(&self.row, &self.key(key)) else {
            return;
        };
        let before = self.memory().read(hit.at());
        thread::yield_now();
        drop(self.index().lookup(&self.row, &self.key(other)));
        assert_eq!(self.memory().read(hit.at()), before, "the record was reused under its pin");
    }

    fn next_location(&mut self) -> u32 {
        if self.open_count == SEGMENT_RECORDS {
            self.sealed.push_back((self.open, self.open_count));
            self.open = self.free.pop().expect("one segment is kept free");
            self.open_count = 0;
            while self.free.is_empty() {
                self.reclaim();
            }
        }
        self.open_count += 1;
        (self.open * SEGMENT_RECORDS + self.open_count - 1) as u32
    }

    /// Removes the words of the oldest segment, and reuses it if it is not pinned.
    fn reclaim(&mut self) {
        let (segment, count) = self.sealed.pop_front().expect("some are sealed");
        for record in 0..count {
            self.let_go((segment * SEGMENT_RECORDS + record) as u32);
        }
        self.shared.pins.barrier();
        if self.shared.pins.is_pinned(segment) {
            self.sealed.push_back((segment, 0));
        } else {
            self.free.push(segment);
        }
    }

    /// Moves a record of a segment that is reclaimed, if the record was used and the open segment
    /// has room; otherwise removes it.
    fn let_go(&mut self, location: u32) {
        let (key, sequence) = self.memory().read_own(location);
        let hit = self.index().find_location(&self.row, hash(key), location);
        if let Some(hit) = hit.filter(|hit| hit.word().uses() > 0)
            && self.open_count < SEGMENT_RECORDS / 2
        {
            let copy = (self.open * SEGMENT_RECORDS + self.open_count) as u32;
            self.open_count += 1;
            self.memory().write(copy, key, sequence);
            if self.index().move_to(&hit, copy, hit.word().uses() - 1) {
                return;
            }
        }
        if self.index().remove_location(hash(key), location).is_some() {
            self.memory().set_gone(sequence);
        }
    }
}

fn run(barrier: Barrier, rng: &mut Rng) {
    let shared = shared(barrier);
    let mut workers: Vec<_> =
        (0..THREADS).map(|number| Worker::new(&shared, number, rng.fork())).collect();
    for _ in 0..ROUNDS {
        thread::scope(|scope| {
            let round = |worker: &mut Worker<'_>| (0..STEPS / ROUNDS).for_each(|_| worker.step());
            let threads: Vec<_> =
                workers.iter_mut().map(|worker| scope.spawn(move || round(worker))).collect();
            // ThreadSanitizer sees these joins, but not the join of the scope.
            threads.into_iter().for_each(|thread| thread.join().expect("no worker fails"));
        });
        check(&shared, &workers);
    }
    let gone_count = shared.index.records().gone.iter().filter(|gone| gone.load(Ordering::Relaxed));
    assert!(gone_count.count() > STEPS / 4, "too little happened");
}

/// Checks, after all threads have ended, that each word belongs to its key.
fn check(shared: &Shared, workers: &[Worker<'_>]) {
    assert_eq!(shared.pins.pinned_count(), 0);
    let row = &workers[0].row;
    let memory = shared.index.records();
    let mut found = HashMap::new();
    for hit in shared.index.hits(row, 0..BUCKETS) {
        assert_eq!(hit.word().state(), WordState::Live);
        let (key, sequence) = memory.read(hit.at());
        assert!(!memory.is_gone(sequence), "{sequence} was taken out");
        assert_eq!(found.insert(key, sequence), None, "two records of {key}");
        let of_key = IndexKey::new(hash(key), |at| memory.read(at).0 == key);
        let again = shared.index.lookup(row, &of_key).map(|hit| hit.slot());
        assert_eq!(again, Some(hit.slot()), "{key} is in a slot where no lookup reads");
    }
    found.retain(|key, _| !is_shared_key(*key));
    let own = workers.iter().flat_map(|worker| &worker.own);
    let expected = own.filter(|(_, sequence)| !memory.is_gone(**sequence));
    assert_eq!(found, expected.map(|(key, sequence)| (*key, *sequence)).collect());
}

#[test]
fn threads_find_their_own_records_and_no_others() {
    let mut rng = Rng::of("threads");
    let offered = [Barrier::process()];
    for barrier in std::iter::once(Barrier::fence()).chain(offered.into_iter().flatten()) {
        run(barrier, &mut rng);
    }
}
