//! The depot, where workers exchange whole magazines.

use std::mem;

use forebay_sync::atomic::{AtomicUsize, Relaxed};
use forebay_sync::{LockClass, Mutex};

use super::counts::MagazineCounts;

/// The filled and the empty magazines that the workers of one process share.
#[derive(Debug)]
pub struct Depot<T> {
    item_max: usize,
    filled_max: usize,
    /// The number of filled magazines, written under the lock and read without it. It is a hint
    /// that saves taking the lock when there is nothing to exchange. A stale value costs an
    /// unneeded lock, a new item or a dropped magazine.
    filled_hint: AtomicUsize,
    stock: Mutex<Stock<T>>,
}

#[derive(Debug)]
struct Stock<T> {
    filled: Vec<Vec<T>>,
    /// Empty magazines, which are kept so that an exchange need not allocate.
    empty: Vec<Vec<T>>,
    gone: MagazineCounts,
}

impl<T> Depot<T> {
    /// Makes a depot for magazines of `item_max` items each, but at least one. It keeps at most
    /// `filled_max` filled magazines, and as many empty ones.
    #[must_use]
    pub fn new(item_max: usize, filled_max: usize) -> Depot<T> {
        let stock = Stock {
            filled: Vec::with_capacity(filled_max),
            empty: Vec::with_capacity(filled_max),
            gone: MagazineCounts::default(),
        };
        Depot {
            item_max: item_max.max(1),
            filled_max,
            filled_hint: AtomicUsize::new(0),
            stock: Mutex::new(LockClass::Test, stock),
        }
    }

    /// The capacity of a magazine, in items.
    pub fn item_max(&self) -> usize {
        self.item_max
    }

    /// The number of filled magazines in the depot. A magazine from a worker that ended may not be
    /// full.
    pub fn filled_count(&self) -> usize {
        self.filled_hint.load(Relaxed)
    }

    /// The summed counts of the workers that have ended.
    pub fn gone_counts(&self) -> MagazineCounts {
        self.stock.lock().gone
    }

    pub(super) fn new_magazine(&self) -> Vec<T> {
        Vec::with_capacity(self.item_max)
    }

    /// Exchanges an empty magazine for a filled one. Returns false, without an exchange, if the
    /// depot has no filled magazine.
    pub(super) fn exchange_empty(&self, magazine: &mut Vec<T>) -> bool {
        debug_assert!(magazine.is_empty(), "the magazine to exchange is not empty");
        if self.filled_count() == 0 {
            return false;
        }
        let mut stock = self.stock.lock();
        let Some(filled) = stock.filled.pop() else {
            return false;
        };
        self.filled_hint.store(stock.filled.len(), Relaxed);
        let empty = mem::replace(magazine, filled);
        let surplus = if stock.empty.len() < self.filled_max {
            stock.empty.push(empty);
            None
        } else {
            Some(empty)
        };
        drop(stock);
        drop(surplus);
        true
    }

    /// Exchanges a filled magazine for an empty one. Returns false, without an exchange, if the
    /// depot has no room for a filled magazine.
    pub(super) fn exchange_filled(&self, magazine: &mut Vec<T>) -> bool {
        if self.filled_count() >= self.filled_max {
            return false;
        }
        let mut stock = self.stock.lock();
        if stock.filled.len() >= self.filled_max {
            return false;
        }
        let empty = stock.empty.pop().unwrap_or_default();
        stock.filled.push(mem::replace(magazine, empty));
        self.filled_hint.store(stock.filled.len(), Relaxed);
        drop(stock);
        magazine.reserve_exact(self.item_max);
        true
    }

    /// Takes over the magazines of a worker that ends, as far as there is room, and adds the
    /// worker's counts.
    pub(super) fn take_over(&self, magazines: [&mut Vec<T>; 2], mut counts: MagazineCounts) {
        let mut stock = self.stock.lock();
        for magazine in magazines {
            if magazine.is_empty() {
                continue;
            }
            if stock.filled.len() < self.filled_max {
                stock.filled.push(mem::take(magazine));
            } else {
                counts.dropped += magazine.len() as u64;
            }
        }
        self.filled_hint.store(stock.filled.len(), Relaxed);
        stock.gone += counts;
    }
}
