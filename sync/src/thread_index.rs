//! A small number for each living thread, so that a table can have a row for each thread.
//!
//! A thread takes the lowest free number when it first asks for its number, and gives the number
//! back when it ends. A thread that finds no free number the first time never gets one.
//!
//! Invariants:
//! - No two threads hold the same number at the same time.
//! - A thread that gave its number back has no number from then on, even in destructors of
//!   thread-locals that run later. Words that it wrote into its row may remain: the next owner of
//!   the number sees everything that former owners wrote before they gave the number back.

use crate::atomic::{AtomicU64, Relaxed, acquire, release};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

/// At most this many threads have a number at the same time; other threads have none.
pub const THREAD_INDEX_COUNT: usize = 64 * WORD_COUNT;

const WORD_COUNT: usize = if cfg!(loom) { 1 } else { 64 };

/// The pool of numbers: the taken ones, and the highest ever taken.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `taken` | a thread that takes or gives back a number | a thread that takes one |
/// | `high_water` | a thread that takes a number | threads that walk over rows |
pub(crate) struct IndexPool {
    /// Bit `n % 64` of word `n / 64` is set while a thread has the number `n`.
    taken: [AtomicU64; WORD_COUNT],
    /// One above the highest number ever taken.
    high_water: AtomicU64,
}

impl IndexPool {
    #[cfg(not(loom))]
    const fn new() -> IndexPool {
        IndexPool {
            taken: [const { AtomicU64::new(0) }; WORD_COUNT],
            high_water: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> IndexPool {
        IndexPool {
            taken: std::array::from_fn(|_| AtomicU64::new(0)),
            high_water: AtomicU64::new(0),
        }
    }

    /// Takes the lowest free number; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<u32> {
        let number = (0u32..)
            .zip(&self.taken)
            .find_map(|(word_index, word)| take_bit(word).map(|bit| 64 * word_index + bit))?;
        // This needs no ordering of its own: a thread executes a barrier between a write into its
        // row and the check that follows, and a thread that walks over the rows executes a barrier
        // before the walk.
        self.high_water.fetch_max(u64::from(number) + 1, Relaxed);
        Some(number)
    }

    /// Makes the number free for other threads.
    pub(crate) fn give_back(&self, number: u32) {
        let bit = 1 << (number % 64);
        // ORDER: pairs with the acquire in `take_bit`: the next owner sees the words that remain in
        // the row of this number, and does not overwrite them.
        self.taken[number as usize / 64].fetch_and(!bit, release("thread_index.give_back"));
    }
}

fn take_bit(word: &AtomicU64) -> Option<u32> {
    let mut taken = word.load(Relaxed);
    while taken != u64::MAX {
        let bit = (!taken).trailing_zeros();
        // ORDER: pairs with the release in `give_back`.
        let order = acquire("thread_index.take");
        match word.compare_exchange_weak(taken, taken | 1 << bit, order, Relaxed) {
            Ok(_) => return Some(bit),
            Err(now) => taken = now,
        }
    }
    None
}

pub(crate) use current::high_water;
pub use current::thread_index;

#[cfg(not(loom))]
mod current {
    use std::cell::Cell;

    use super::{IndexPool, Relaxed, THREAD_INDEX_COUNT};

    static NUMBERS: IndexPool = IndexPool::new();

    const NOT_ASKED: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    const _: () = assert!(THREAD_INDEX_COUNT < NONE as usize);

    thread_local! {
        /// Has no destructor, so destructors of other thread-locals can still read it.
        static INDEX: Cell<u32> = const { Cell::new(NOT_ASKED) };
        static RETURN: ReturnOnExit = const { ReturnOnExit };
    }

    /// Gives the number back when the thread ends.
    struct ReturnOnExit;

    impl Drop for ReturnOnExit {
        fn drop(&mut self) {
            let index = INDEX.replace(NONE);
            if (index as usize) < THREAD_INDEX_COUNT {
                NUMBERS.give_back(index);
            }
        }
    }

    /// The number of the calling thread, below [`THREAD_INDEX_COUNT`]. No other thread has it.
    ///
    /// `None` if all numbers were taken when the thread first asked, or if the thread is ending and
    /// has given its number back.
    #[inline]
    #[must_use]
    pub fn thread_index() -> Option<u32> {
        let index = INDEX.get();
        if (index as usize) < THREAD_INDEX_COUNT { Some(index) } else { first(index) }
    }

    #[cold]
    fn first(index: u32) -> Option<u32> {
        if index == NONE {
            return None;
        }
        // Only a thread that can give a number back takes one.
        let taken = RETURN.try_with(|_| ()).ok().and_then(|()| NUMBERS.take());
        INDEX.set(taken.unwrap_or(NONE));
        taken
    }

    /// One above the highest number that any thread ever had.
    #[inline]
    pub(crate) fn high_water() -> usize {
        NUMBERS.high_water.load(Relaxed) as usize
    }
}

/// The numbers of threads in a model, in which each thread sets its own number.
#[cfg(loom)]
mod current {
    use std::cell::Cell;

    use super::{IndexPool, Relaxed};

    loom::lazy_static! {
        static ref NUMBERS: IndexPool = IndexPool::new();
    }

    loom::thread_local! {
        static INDEX: Cell<Option<u32>> = Cell::new(None);
    }

    /// The number that the calling thread has set, if any.
    pub fn thread_index() -> Option<u32> {
        INDEX.with(Cell::get)
    }

    /// Sets the number of the calling thread.
    #[cfg(test)]
    pub(crate) fn become_thread(number: u32) {
        NUMBERS.high_water.fetch_max(u64::from(number) + 1, Relaxed);
        INDEX.with(|index| index.set(Some(number)));
    }

    /// One above the highest number that any thread ever had.
    pub(crate) fn high_water() -> usize {
        NUMBERS.high_water.load(Relaxed) as usize
    }
}

#[cfg(all(test, loom))]
pub(crate) use current::become_thread;
