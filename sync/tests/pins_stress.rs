//! Stress tests of pins and leases with real threads and real memory, with each barrier that the
//! kernel offers. The records are not atomic, so ThreadSanitizer reports a reader that overlaps a
//! writer.
//!
//! These tests exercise the tables: counts, slots, cleared rows, reused records. They would hardly
//! fail if a barrier did nothing: `barrier_litmus.rs` tests barriers. Under ThreadSanitizer every
//! barrier is a fence.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use forebay_sync::leases::{LeaseRow, Leases};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords};
use forebay_testkit::StopFlag;

use forebay_testkit::Rng;

const EMPTY: u64 = 0;
const RECORD_WORDS: usize = 32;

/// The largest number of owners of a row, one after another. A reclaimer that has not ended by then
/// counts as hanging.
const STEPS_MAX: u64 = 100_000_000;

/// All barriers that this kernel offers.
fn barriers() -> Vec<Barrier> {
    std::iter::once(Barrier::fence()).chain(Barrier::process()).collect()
}

/// A piece of memory that holds one number in each of its words.
struct Record(UnsafeCell<[u64; RECORD_WORDS]>);
// SAFETY: the tests check this.
unsafe impl Sync for Record {}

impl Record {
    fn new(number: u64) -> Record {
        Record(UnsafeCell::new([number; RECORD_WORDS]))
    }

    /// # Safety
    /// - No thread writes at the same time.
    unsafe fn check(&self) {
        // SAFETY: the caller's promise.
        let words = unsafe { &*self.0.get() };
        assert!(words.iter().all(|word| *word == words[0]), "a torn record: {words:?}");
    }

    /// # Safety
    /// - No other thread reads or writes at the same time.
    unsafe fn write(&self, number: u64) {
        // SAFETY: the caller's promise.
        let words = unsafe { &mut *self.0.get() };
        words.fill(number);
    }
}

/// Records whose memory is reused under the same words, with their pins and leases.
struct Store {
    pins: Pins<Arc<LineWords>>,
    leases: Leases<Arc<LineWords>>,
    words: Vec<AtomicU64>,
    records: Vec<Record>,
    stop: StopFlag,
}

const ROWS: usize = 4;
const SLOTS: usize = 2;
const COLUMNS: usize = 24;

fn word_of(column: usize) -> u64 {
    column as u64 + 1
}

fn store(barrier: Barrier) -> Store {
    let pin_words = LineWords::new(Pins::<LineWords>::words_needed(ROWS, COLUMNS).expect("small"));
    let lease_words =
        LineWords::new(Leases::<LineWords>::words_needed(ROWS, SLOTS).expect("small"));
    Store {
        pins: Pins::new(Arc::new(pin_words), ROWS, COLUMNS, barrier).expect("its words"),
        leases: Leases::new(Arc::new(lease_words), ROWS, SLOTS, barrier).expect("its words"),
        words: (0..COLUMNS).map(|column| AtomicU64::new(word_of(column))).collect(),
        records: (0..COLUMNS).map(|_| Record::new(0)).collect(),
        stop: StopFlag::default(),
    }
}

impl Store {
    fn is_there(&self, column: usize) -> bool {
        self.words[column].load(Ordering::Acquire) == word_of(column)
    }

    /// Reads a record under a pin, and at random under a lease too. Returns false if the record was
    /// removed.
    fn read(
        &self,
        pins: &PinRow<Arc<LineWords>>,
        leases: &LeaseRow<Arc<LineWords>>,
        rng: &mut Rng,
    ) -> bool {
        let column = rng.below(COLUMNS);
        let Ok(pin) = pins.pin(column, || self.is_there(column)) else {
            return false;
        };
        // SAFETY: pinned.
        unsafe { self.records[column].check() };
        if rng.below(4) == 0 {
            let lease = leases.take(word_of(column), || true).expect("a free slot");
            drop(pin);
            // SAFETY: leased.
            unsafe { self.records[column].check() };
            drop(lease);
        } else if rng.below(4) == 0 {
            // A second lease, which checks by itself that the record is still named.
            if let Ok(_lease) = leases.take(word_of(column), || self.is_there(column)) {
                drop(pin);
                // SAFETY: leased.
                unsafe { self.records[column].check() };
            }
        }
        true
    }

    /// Reuses `count` records. Each round removes the words of some records and executes one
    /// barrier for all of them. Then it writes the records that have no holder, and stores their
    /// words again.
    fn reclaim(&self, count: u64, rng: &mut Rng) {
        let _guard = self.stop.guard();
        let mut is_out = [false; COLUMNS];
        let mut leased = Vec::new();
        let mut reused = 0;
        while reused < count {
            for column in (0..COLUMNS).filter(|_| rng.below(3) == 0) {
                self.words[column].store(EMPTY, Ordering::Relaxed);
                is_out[column] = true;
            }
            self.pins.barrier();
            // Pins first, then leases: a holder moves from a pin to a lease.
            let is_out_and_unpinned = |&c: &usize| is_out[c] && !self.pins.is_pinned(c);
            let unpinned: Vec<usize> = (0..COLUMNS).filter(is_out_and_unpinned).collect();
            self.leases.leased_places(&mut leased);
            for column in unpinned {
                if leased.binary_search(&word_of(column)).is_ok() {
                    continue;
                }
                reused += 1;
                // SAFETY: no thread holds the record, and none can take a hold of it.
                unsafe { self.records[column].write(reused) };
                self.words[column].store(word_of(column), Ordering::Release);
                is_out[column] = false;
            }
            thread::yield_now();
        }
        for column in (0..COLUMNS).filter(|&column| is_out[column]) {
            self.words[column].store(word_of(column), Ordering::Release);
        }
    }

    /// The life of one owner of a row: it reads records, and ends while it still has a pin and a
    /// lease. Returns the number of reads that found their record.
    fn live(&self, row: usize, rng: &mut Rng) -> usize {
        // SAFETY: `serve_row` lets a row have one owner at a time.
        let pins = unsafe { self.pins.row(row) }.expect("a row");
        // SAFETY: as above.
        let leases = unsafe { self.leases.row(row) }.expect("a row");
        let hits = (0..2_000).filter(|_| self.read(&pins, &leases, rng)).count();
        let column = rng.below(COLUMNS);
        if let Ok(pin) = pins.pin(column, || self.is_there(column)) {
            let _ = leases.take(word_of(column), || true).expect("a free slot").into_id();
            pin.keep();
        }
        hits
    }

    /// Runs the owners of one row one after another, each in a thread of its own, and clears the
    /// row after each. Returns the number of reads that found their record.
    fn serve_row(&self, row: usize, mut rng: Rng) -> usize {
        let mut hits = 0;
        for _ in (0..1).chain(self.stop.steps(STEPS_MAX)) {
            hits += thread::scope(|scope| {
                scope.spawn(|| self.live(row, &mut rng)).join().expect("no step panics")
            });
            // SAFETY: the owner's thread was joined, and the next owner does not exist yet.
            unsafe { self.pins.clear_row(row) };
            // SAFETY: as above.
            unsafe { self.leases.clear_row(row) };
        }
        hits
    }
}

#[test]
fn records_are_whole_while_their_memory_is_reused() {
    let mut rng = Rng::of("pins");
    for barrier in barriers() {
        let store = store(barrier);
        let hits: usize = thread::scope(|scope| {
            let rows = 0..ROWS;
            let owners: Vec<_> = rows
                .map(|row| {
                    let (store, rng) = (&store, rng.fork());
                    scope.spawn(move || store.serve_row(row, rng))
                })
                .collect();
            store.reclaim(10_000, &mut rng);
            owners.into_iter().map(|owner| owner.join().expect("no step panics")).sum()
        });
        println!("{barrier:?}: {hits} hits");
        assert_eq!(store.pins.pinned_count(), 0, "{barrier:?}");
        assert_eq!(store.leases.held_count(), 0, "{barrier:?}");
    }
}
