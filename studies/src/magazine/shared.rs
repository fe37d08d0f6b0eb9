//! Pairs of magazines for threads that have no pair of their own.

use std::sync::Arc;

use super::counts::MagazineCounts;
use super::depot::Depot;
use super::worker::Magazines;
use forebay_sync::{LockClass, Mutex, MutexGuard};

/// A fixed number of pairs, each behind a lock. A thread uses the first pair that is not locked.
///
/// This is meant for more threads than processors. With as many pairs as processors, a thread that
/// is preempted while it holds a pair blocks only that pair. Each pair has at most 2 M items. A
/// thread that looks into one pair does not see the free items of another pair, and makes a new
/// item. Compared with a pair of the thread's own, a take or a give costs two more
/// read-modify-writes, of the pair's lock, and the pair's cache lines move between processors. A
/// full magazine is dropped under the pair's lock.
#[derive(Debug)]
pub struct SharedMagazines<T> {
    pairs: Box<[LockedPair<T>]>,
}

/// A pair behind a lock. Each pair has cache lines of its own, since other processors use the pairs
/// beside it.
#[derive(Debug)]
#[repr(align(128))]
struct LockedPair<T>(Mutex<Magazines<T>>);

impl<T> SharedMagazines<T> {
    /// Makes `pairs` pairs, but at least one. There should be as many pairs as processors.
    #[must_use]
    pub fn new(depot: &Arc<Depot<T>>, pairs: usize) -> SharedMagazines<T> {
        let pair = |_| {
            let magazines = Magazines::new(Arc::clone(depot));
            LockedPair(Mutex::new(LockClass::Test, magazines))
        };
        SharedMagazines { pairs: (0..pairs.max(1)).map(pair).collect() }
    }

    /// Returns a free item, if the pair that this thread uses or the depot has one. `near` selects
    /// the pair that is tried first. It is any number that differs between threads, such as the
    /// thread's [index](forebay_sync::thread_index) or its processor.
    #[must_use]
    pub fn take(&self, near: usize) -> Option<T> {
        self.open(near).take()
    }

    /// Returns a free item, or a new one, which is made without a lock.
    #[must_use]
    pub fn take_or_make(&self, near: usize, make: impl FnOnce() -> T) -> T {
        let taken = self.open(near).take_to_make();
        taken.unwrap_or_else(make)
    }

    /// Gives an item back, like [`Magazines::give`].
    pub fn give(&self, near: usize, item: T) {
        self.open(near).give(item);
    }

    /// The summed counts of all pairs.
    pub fn counts(&self) -> MagazineCounts {
        let mut sum = MagazineCounts::default();
        for pair in &self.pairs {
            sum += pair.0.lock().counts();
        }
        sum
    }

    /// Returns the first pair that is not locked, starting at `near`. If all are locked, waits for
    /// the pair at `near`.
    fn open(&self, near: usize) -> MutexGuard<'_, Magazines<T>> {
        let (before, after) = self.pairs.split_at(near % self.pairs.len());
        let mut pairs = after.iter().chain(before);
        let open = pairs.find_map(|pair| pair.0.try_lock());
        open.unwrap_or_else(|| self.pairs[near % self.pairs.len()].0.lock())
    }
}
