//! Pairs of magazines for threads that have none of their own.

use std::sync::Arc;

use super::counts::MagazineCounts;
use super::depot::Depot;
use super::worker::Magazines;
use forebay_sync::{LockClass, Mutex, MutexGuard};

/// A fixed number of pairs, each behind a lock; a thread uses the first that is open.
///
/// For more threads than processors: with as many pairs as processors, a thread that loses its
/// processor inside keeps one pair from the others, and no more. At most 2 M items lie in each
/// pair; a thread that looks into one pair does not see the free items of another, and makes a new
/// one. A take or give is two read-modify-writes of the pair's lock more than with a pair of one's
/// own, and its lines move between processors. When a magazine of items is dropped, that happens
/// under the pair's lock.
#[derive(Debug)]
pub struct SharedMagazines<T> {
    pairs: Box<[LockedPair<T>]>,
}

/// On lines of its own, since neighbours belong to other processors.
#[derive(Debug)]
#[repr(align(128))]
struct LockedPair<T>(Mutex<Magazines<T>>);

impl<T> SharedMagazines<T> {
    /// `pairs` pairs, at least one: as many as there are processors.
    #[must_use]
    pub fn new(depot: &Arc<Depot<T>>, pairs: usize) -> SharedMagazines<T> {
        let pair = |_| {
            let magazines = Magazines::new(Arc::clone(depot));
            LockedPair(Mutex::new(LockClass::Test, magazines))
        };
        SharedMagazines { pairs: (0..pairs.max(1)).map(pair).collect() }
    }

    /// A free item, if one of them or the depot has one at hand. `near` is any number that differs
    /// between threads (their
    /// [index](forebay_sync::thread_index), their processor): it says which pair is tried first.
    #[must_use]
    pub fn take(&self, near: usize) -> Option<T> {
        self.open(near).take()
    }

    /// A free item, or a new one, which is made without a lock.
    #[must_use]
    pub fn take_or_make(&self, near: usize, make: impl FnOnce() -> T) -> T {
        let taken = self.open(near).take_to_make();
        taken.unwrap_or_else(make)
    }

    /// Gives an item back; as [`Magazines::give`].
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

    /// The first pair whose lock is open, else the nearest when it opens.
    fn open(&self, near: usize) -> MutexGuard<'_, Magazines<T>> {
        let (before, after) = self.pairs.split_at(near % self.pairs.len());
        let mut pairs = after.iter().chain(before);
        let open = pairs.find_map(|pair| pair.0.try_lock());
        open.unwrap_or_else(|| self.pairs[near % self.pairs.len()].0.lock())
    }
}
