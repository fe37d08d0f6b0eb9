//! Models of pins: readers pin memory, a reclaimer reuses the memory under the *same* word, and
//! other threads remove the word.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `word` | remover, reclaimer | all |
//! | `body` | reclaimer, before it publishes | readers under a pin |

use std::sync::Arc;

use loom::thread;

use super::{PinRow, Pins};
use crate::atomic::{AtomicU64, Ordering, Relaxed, UnsafeCell, acquire, release};
use crate::barrier::Barrier;
use crate::model::{breaks, breaks_within, fails, holds, holds_within};
use crate::words::LineWords;

const EMPTY: u64 = 0;
const RECORD: u64 = 8;

struct Store {
    pins: Pins<Arc<LineWords>>,
    word: AtomicU64,
    /// The number of readers that have joined, on which a wrong reclaimer relies.
    joined: AtomicU64,
    body: UnsafeCell<(u8, u8)>,
}
// SAFETY: the models check this.
unsafe impl Sync for Store {}
// SAFETY: as above.
unsafe impl Send for Store {}

fn store() -> Arc<Store> {
    let words = Arc::new(LineWords::new(2));
    Arc::new(Store {
        pins: Pins::new(words, 2, 1, Barrier::fence()).unwrap(),
        word: AtomicU64::new(RECORD),
        joined: AtomicU64::new(0),
        body: UnsafeCell::new((b'A', 1)),
    })
}

fn row(store: &Store, row: usize) -> PinRow<Arc<LineWords>> {
    // SAFETY: in each model a row has one owner at a time.
    unsafe { store.pins.row(row) }.unwrap()
}

/// Pins and reads the memory, if the word names it. With `keep` the memory stays pinned, as if the
/// reader had died.
fn hit(store: &Store, row: &PinRow<Arc<LineWords>>, keep: bool) {
    let word = store.word.load(Relaxed);
    if word == EMPTY {
        return;
    }
    let is_there = || store.word.load(acquire("model.look_again")) == word;
    if let Ok(pin) = row.pin(0, is_there) {
        // SAFETY: pinned.
        let body = store.body.with(|body| unsafe { *body });
        assert!(body == (b'A', 1) || body == (b'B', 2), "a torn record");
        if keep {
            pin.keep();
        }
    }
}

fn take_out(store: &Store) {
    let _ = store.word.compare_exchange(RECORD, EMPTY, Relaxed, Relaxed);
}

fn reuse(store: &Store) {
    // SAFETY: no row pins the memory.
    store.body.with_mut(|body| unsafe { *body = (b'B', 2) });
    let _ = store.word.compare_exchange(EMPTY, RECORD, release("model.reuse"), Relaxed);
}

fn reclaim(store: &Store) {
    take_out(store);
    store.pins.barrier();
    // The second look needs no second barrier, since the word stays removed.
    if !store.pins.is_pinned(0) || !store.pins.is_pinned(0) {
        reuse(store);
    }
}

fn reader(store: &Arc<Store>, own: usize, hits: usize) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || {
        let row = row(&store, own);
        (0..hits).for_each(|_| hit(&store, &row, false));
    })
}

fn one_reader_twice() {
    let store = store();
    let reader = reader(&store, 0, 2);
    reclaim(&store);
    reader.join().unwrap();
}

fn two_readers() {
    let store = store();
    let readers = [reader(&store, 0, 1), reader(&store, 1, 1)];
    reclaim(&store);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// Models a third thread (a purge) that removes the word under a pin; the reclaimer may find the
/// word gone.
fn third_party() {
    let store = store();
    let reader = reader(&store, 0, 1);
    let other = Arc::clone(&store);
    let remover = thread::spawn(move || {
        let row = row(&other, 1);
        let is_there = || other.word.load(acquire("model.look_again")) == RECORD;
        let pin = row.pin(0, is_there);
        if pin.is_ok() {
            take_out(&other);
        }
    });
    reclaim(&store);
    reader.join().unwrap();
    remover.join().unwrap();
}

/// Models a reader that pins memory that it has already pinned: the memory is free after the last
/// unpin.
fn nested() {
    let store = store();
    let other = Arc::clone(&store);
    let reader = thread::spawn(move || {
        let row = row(&other, 0);
        let outer = row.pin(0, || other.word.load(acquire("model.look_again")) == RECORD);
        if outer.is_ok() {
            hit(&other, &row, false);
            // SAFETY: pinned.
            let body = other.body.with(|body| unsafe { *body });
            assert!(body == (b'A', 1) || body == (b'B', 2), "a torn record");
        }
    });
    reclaim(&store);
    reader.join().unwrap();
}

/// Models a reader that dies while it pins the memory. Another thread clears the reader's row and
/// takes the row.
fn dead_reader() {
    let store = store();
    let other = Arc::clone(&store);
    let finder = thread::spawn(move || {
        let dying = Arc::clone(&other);
        let reader = thread::spawn(move || hit(&dying, &row(&dying, 0), true));
        reader.join().unwrap();
        // SAFETY: the owner has ended, and no other thread takes its row.
        unsafe { other.pins.clear_row(0) };
        hit(&other, &row(&other, 0), false);
    });
    reclaim(&store);
    finder.join().unwrap();
}

/// Models a worker that joins and immediately reads. The reclaimer always looks at the rows or,
/// with `by_list`, only if it saw before its barrier that a worker had joined.
fn joining(by_list: bool) {
    let store = store();
    let other = Arc::clone(&store);
    let reader = thread::spawn(move || {
        other.joined.store(1, Ordering::Release);
        hit(&other, &row(&other, 0), false);
    });
    take_out(&store);
    let nobody = by_list && store.joined.load(Ordering::Acquire) == 0;
    store.pins.barrier();
    if nobody || !store.pins.is_pinned(0) {
        reuse(&store);
    }
    reader.join().unwrap();
}

#[test]
fn pinned_memory_is_not_reused() {
    holds("pins: one reader, twice", one_reader_twice);
    holds_within(Some(3), "pins: two readers", two_readers);
    holds_within(Some(3), "pins: another thread removes the word", third_party);
    holds("pins: a pin within a pin", nested);
    holds_within(Some(3), "pins: a reader dies", dead_reader);
    holds("pins: a worker joins", || joining(false));
}

#[test]
fn each_ordering_of_pins_is_needed() {
    for name in
        ["pins.raise", "pins.reclaim", "pins.unpin", "pins.look", "model.look_again", "model.reuse"]
    {
        breaks(name, "pins: one reader, twice", one_reader_twice);
    }
    breaks_within(Some(3), "pins.clear", "pins: a reader dies", dead_reader);
}

#[test]
fn rows_in_use_cannot_be_listed_first() {
    fails("pins: the rows in use listed before the barrier", || joining(true));
}
