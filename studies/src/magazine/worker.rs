//! One worker's pair of magazines.

use std::mem;
use std::sync::Arc;

use super::counts::MagazineCounts;
use super::depot::Depot;

/// A worker's free items. When a worker drops this, the depot takes the items as far as it has
/// room.
#[derive(Debug)]
pub struct Magazines<T> {
    depot: Arc<Depot<T>>,
    /// The magazine in use: items are taken from this magazine and given to it.
    loaded: Vec<T>,
    /// The magazine that was loaded before. It is full or empty, unless it came from a worker that
    /// ended and left it half filled.
    previous: Vec<T>,
    counts: MagazineCounts,
}

impl<T> Magazines<T> {
    /// Makes a pair of empty magazines.
    #[must_use]
    pub fn new(depot: Arc<Depot<T>>) -> Magazines<T> {
        let (loaded, previous) = (depot.new_magazine(), depot.new_magazine());
        Magazines { depot, loaded, previous, counts: MagazineCounts::default() }
    }

    /// Returns a free item, if this worker or the depot has one.
    #[must_use]
    pub fn take(&mut self) -> Option<T> {
        self.counts.takes += 1;
        if self.loaded.is_empty() {
            self.load_filled();
        }
        self.loaded.pop()
    }

    /// Returns a free item, or a new one.
    #[must_use]
    pub fn take_or_make(&mut self, make: impl FnOnce() -> T) -> T {
        self.take_to_make().unwrap_or_else(make)
    }

    /// Gives an item back, for any worker to take.
    ///
    /// If this worker and the depot are full, drops a magazine of items to make room.
    pub fn give(&mut self, item: T) {
        self.counts.gives += 1;
        if self.is_full() {
            self.load_empty();
        }
        self.loaded.push(item);
    }

    /// The counts of this pair.
    pub fn counts(&self) -> MagazineCounts {
        self.counts
    }

    /// The number of free items in this pair.
    pub fn item_count(&self) -> usize {
        self.loaded.len() + self.previous.len()
    }

    /// Returns a free item, or `None`, which counts as an item that the caller makes.
    pub(super) fn take_to_make(&mut self) -> Option<T> {
        let taken = self.take();
        self.counts.made += u64::from(taken.is_none());
        taken
    }

    fn is_full(&self) -> bool {
        self.loaded.len() >= self.depot.item_max()
    }

    fn load_filled(&mut self) {
        mem::swap(&mut self.loaded, &mut self.previous);
        if self.loaded.is_empty() && self.depot.exchange_empty(&mut self.loaded) {
            self.counts.exchanges += 1;
        }
    }

    fn load_empty(&mut self) {
        mem::swap(&mut self.loaded, &mut self.previous);
        if !self.is_full() {
            return;
        }
        if self.depot.exchange_filled(&mut self.loaded) {
            self.counts.exchanges += 1;
        } else {
            self.counts.dropped += self.loaded.len() as u64;
            self.loaded.clear();
        }
    }
}

impl<T> Drop for Magazines<T> {
    fn drop(&mut self) {
        self.depot.take_over([&mut self.loaded, &mut self.previous], self.counts);
    }
}
