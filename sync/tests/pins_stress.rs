//! Pins, leases and magazines with real threads, real memory and, where the kernel has it, a real
//! `membarrier`. The memory is plain, so ThreadSanitizer sees a reader that overlaps a writer.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use forebay_sync::leases::{LeaseRow, Leases};
use forebay_sync::magazine::{Depot, Magazines, SharedMagazines};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords, LockClass, Mutex};

const EMPTY: u64 = 0;
const RECORD_WORDS: usize = 32;

struct Rng(u64);

impl Rng {
    /// From `FOREBAY_SEED`, else from the hasher's random keys; prints it.
    fn of(test: &str) -> Rng {
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("{test}: FOREBAY_SEED={seed}");
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn fork(&mut self) -> Rng {
        Rng(self.next())
    }
}

/// All barriers that this kernel offers.
fn barriers() -> Vec<Barrier> {
    let offered = [Barrier::process(), Barrier::global()];
    std::iter::once(Barrier::Fence).chain(offered.into_iter().flatten()).collect()
}

/// A piece of memory that holds one number in each of its words.
struct Record(UnsafeCell<[u64; RECORD_WORDS]>);
// SAFETY: that is what the tests check.
unsafe impl Sync for Record {}

impl Record {
    fn new(number: u64) -> Record {
        Record(UnsafeCell::new([number; RECORD_WORDS]))
    }

    /// # Safety
    /// Nobody writes meanwhile.
    unsafe fn check(&self) {
        // SAFETY: the caller's promise.
        let words = unsafe { &*self.0.get() };
        assert!(words.iter().all(|word| *word == words[0]), "a torn record: {words:?}");
    }

    /// # Safety
    /// Nobody reads or writes meanwhile.
    unsafe fn write(&self, number: u64) {
        // SAFETY: the caller's promise.
        let words = unsafe { &mut *self.0.get() };
        words.fill(number);
    }
}

/// Records that are named by the same words again and again, with what protects them.
struct Store {
    pins: Pins<Arc<LineWords>>,
    leases: Leases<Arc<LineWords>>,
    words: Vec<AtomicU64>,
    records: Vec<Record>,
    is_over: AtomicBool,
}

const ROWS: usize = 4;
const SLOTS: usize = 2;
const COLUMNS: usize = 24;

fn word_of(column: usize) -> u64 {
    column as u64 + 1
}

fn store(barrier: Barrier) -> Store {
    let pin_words = LineWords::new(Pins::<LineWords>::words_needed(ROWS, COLUMNS).unwrap());
    let lease_words = LineWords::new(Leases::<LineWords>::words_needed(ROWS, SLOTS).unwrap());
    Store {
        pins: Pins::new(Arc::new(pin_words), ROWS, COLUMNS, barrier).unwrap(),
        leases: Leases::new(Arc::new(lease_words), ROWS, SLOTS, barrier).unwrap(),
        words: (0..COLUMNS).map(|column| AtomicU64::new(word_of(column))).collect(),
        records: (0..COLUMNS).map(|_| Record::new(0)).collect(),
        is_over: AtomicBool::new(false),
    }
}

impl Store {
    fn is_there(&self, column: usize) -> bool {
        self.words[column].load(Ordering::Acquire) == word_of(column)
    }

    /// Reads a record under a pin; some readers hold on to it by a lease.
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
            let lease = leases.take(word_of(column), || true).unwrap();
            drop(pin);
            // SAFETY: leased.
            unsafe { self.records[column].check() };
            drop(lease);
        } else if rng.below(4) == 0 {
            // A second one, which looks for itself.
            if let Ok(_lease) = leases.take(word_of(column), || self.is_there(column)) {
                drop(pin);
                // SAFETY: leased.
                unsafe { self.records[column].check() };
            }
        }
        true
    }

    /// Reuses records until `count` are: each time some are taken out, one barrier serves all that
    /// are out, and those that nobody holds are written anew and named by the same word as before.
    fn reclaim(&self, count: u64, rng: &mut Rng) {
        let mut is_out = [false; COLUMNS];
        let mut leased = Vec::new();
        let mut reused = 0;
        while reused < count {
            for column in (0..COLUMNS).filter(|_| rng.below(3) == 0) {
                self.words[column].store(EMPTY, Ordering::Relaxed);
                is_out[column] = true;
            }
            self.pins.barrier();
            // Pins first, then leases: a holder goes from the one to the other.
            let is_out_and_unpinned = |&c: &usize| is_out[c] && !self.pins.is_pinned(c);
            let unpinned: Vec<usize> = (0..COLUMNS).filter(is_out_and_unpinned).collect();
            self.leases.leased_places(&mut leased);
            for column in unpinned {
                if leased.binary_search(&word_of(column)).is_ok() {
                    continue;
                }
                reused += 1;
                // SAFETY: nobody holds it, and nobody can come to hold it.
                unsafe { self.records[column].write(reused) };
                self.words[column].store(word_of(column), Ordering::Release);
                is_out[column] = false;
            }
            thread::yield_now();
        }
        for column in (0..COLUMNS).filter(|&column| is_out[column]) {
            self.words[column].store(word_of(column), Ordering::Release);
        }
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// One life of a row's owner: it reads, and ends with a pin and a lease that nobody lowers.
    fn live(&self, row: usize, rng: &mut Rng) -> usize {
        // SAFETY: one owner at a time, as `serve_row` sees to.
        let pins = unsafe { self.pins.row(row) }.unwrap();
        // SAFETY: as above.
        let leases = unsafe { self.leases.row(row) }.unwrap();
        let hits = (0..2_000).filter(|_| self.read(&pins, &leases, rng)).count();
        let column = rng.below(COLUMNS);
        if let Ok(pin) = pins.pin(column, || self.is_there(column)) {
            let _ = leases.take(word_of(column), || true).unwrap().into_id();
            pin.keep();
        }
        hits
    }

    /// Owner after owner of one row, each in a thread of its own; the row of the dead is cleared.
    fn serve_row(&self, row: usize, mut rng: Rng) -> usize {
        let mut hits = 0;
        while hits == 0 || !self.is_over.load(Ordering::Relaxed) {
            hits += thread::scope(|scope| scope.spawn(|| self.live(row, &mut rng)).join().unwrap());
            // SAFETY: the owner was joined, the next is not there yet.
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
            owners.into_iter().map(|owner| owner.join().unwrap()).sum()
        });
        println!("{barrier:?}: {hits} hits");
        assert_eq!(store.pins.pinned_count(), 0, "{barrier:?}");
        assert_eq!(store.leases.held_count(), 0, "{barrier:?}");
    }
}

/// Writes all of a buffer, which the last owner left whole.
fn use_buffer(buffer: &mut [u64], mark: u64) {
    assert!(buffer.iter().all(|word| *word == buffer[0]), "not whole: {buffer:?}");
    buffer.fill(mark);
}

fn new_buffer() -> Box<[u64]> {
    vec![0; RECORD_WORDS].into()
}

/// Buffers on their way from one worker to another. (ThreadSanitizer cannot follow std's channels.)
struct Way {
    buffers: Mutex<VecDeque<Box<[u64]>>>,
    /// One of the two has ended: the other one does not wait for it.
    is_closed: AtomicBool,
}

/// One side of a way; closes it at its end, be it a panic.
struct Side<'a>(&'a Way);

impl Drop for Side<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
    }
}

impl Side<'_> {
    fn send(&self, buffer: Box<[u64]>) {
        while self.0.buffers.lock().len() >= 64 && !self.0.is_closed.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        self.0.buffers.lock().push_back(buffer);
    }

    fn receive(&self) -> Option<Box<[u64]>> {
        loop {
            let is_closed = self.0.is_closed.load(Ordering::Acquire);
            let buffer = self.0.buffers.lock().pop_front();
            if buffer.is_some() || is_closed {
                return buffer;
            }
            thread::yield_now();
        }
    }
}

/// Takes and gives with pairs of magazines that others use, too.
fn share(shared: &SharedMagazines<Box<[u64]>>, near: usize, rng: &mut Rng) {
    for round in 0..2_000 {
        let count = rng.below(20);
        let buffers: Vec<_> = (0..count).map(|_| shared.take_or_make(near, new_buffer)).collect();
        for mut buffer in buffers {
            use_buffer(&mut buffer, round);
            shared.give(near, buffer);
        }
    }
}

#[test]
fn buffers_go_from_worker_to_worker_through_the_depot() {
    let mut rng = Rng::of("magazines");
    let depot = Arc::new(Depot::new(8, 4));
    let buffers = Mutex::new(LockClass::Test, VecDeque::new());
    let way = Way { buffers, is_closed: AtomicBool::new(false) };
    let shared = SharedMagazines::new(&depot, 2);
    let rounds = 20_000;
    thread::scope(|scope| {
        let (depot, way, shared) = (&depot, &way, &shared);
        let giver = scope.spawn(move || {
            let (side, mut own) = (Side(way), Magazines::new(Arc::clone(depot)));
            for round in 0..rounds {
                let mut buffer = own.take_or_make(new_buffer);
                use_buffer(&mut buffer, round);
                side.send(buffer);
            }
        });
        let taker = scope.spawn(move || {
            let (side, mut own) = (Side(way), Magazines::new(Arc::clone(depot)));
            while let Some(mut buffer) = side.receive() {
                use_buffer(&mut buffer, 0);
                own.give(buffer);
            }
        });
        let sharers = (0..4).map(|near| {
            let mut rng = rng.fork();
            scope.spawn(move || share(shared, near, &mut rng))
        });
        // ThreadSanitizer sees the end of a thread in its join.
        for worker in sharers.chain([giver, taker]).collect::<Vec<_>>() {
            worker.join().unwrap();
        }
    });
    drop(shared);
    let sum = depot.gone_counts();
    println!("{sum:?}");
    assert_eq!(sum.takes, sum.gives, "every buffer came back");
    assert!(sum.made - sum.dropped <= 4 * 8, "what is left lies in the depot");
    assert!(sum.exchanges * 8 <= sum.takes + sum.gives, "whole magazines: {sum:?}");
}
