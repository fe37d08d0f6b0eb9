//! One number for all that the store holds, and the receipts that give it back.
//!
//! Invariants:
//! - `used_bytes` is the sum of all living [`Charge`]s and never exceeds `bytes_max`.
//! - `growing_bytes` is the sum of all living [`Reservation`]s. It limits how much may be
//!   unfinished at a time; the bytes themselves are charged as well.
//!
//! The counters are `Relaxed`: they only count, no data is published through them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the allocator keeps beside an allocation, and the half of its size class that is lost.
pub(crate) const ALLOCATION_BYTES: u64 = 16;

/// The counters that every charge of one store draws on.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    used_bytes: AtomicU64,
    growing_bytes: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            used_bytes: AtomicU64::new(0),
            growing_bytes: AtomicU64::new(0),
        })
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    pub(crate) fn growing_bytes(&self) -> u64 {
        self.growing_bytes.load(Relaxed)
    }

    /// Charges `bytes` if there is room.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        take(&self.used_bytes, bytes, self.bytes_max)
            .then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// A receipt for bytes that are not charged, for the one append that must go on without room.
    pub(crate) fn unbilled(self: &Arc<Self>) -> Charge {
        Charge { budget: Arc::clone(self), bytes: 0 }
    }

    /// An empty reservation.
    pub(crate) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }
}

/// Adds to a counter unless the sum would exceed `max`.
fn take(counter: &AtomicU64, bytes: u64, max: u64) -> bool {
    let raise = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= max);
    counter.try_update(Relaxed, Relaxed, raise).is_ok()
}

/// A receipt for charged bytes; dropping it gives them back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// A share of what growing records may take; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// Makes the share `bytes` large. Growing fails, and changes nothing, if all shares together
    /// would exceed `growing_bytes_max`.
    pub(crate) fn resize(&mut self, bytes: u64, growing_bytes_max: u64) -> bool {
        if bytes < self.bytes {
            self.budget.growing_bytes.fetch_sub(self.bytes - bytes, Relaxed);
        } else if !take(&self.budget.growing_bytes, bytes - self.bytes, growing_bytes_max) {
            return false;
        }
        self.bytes = bytes;
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.growing_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_never_exceeds_the_budget_and_comes_back() {
        let budget = Budget::new(100);
        let first = budget.charge(60);
        assert!(first.is_some());
        for (bytes, fits) in [(41, false), (40, true), (u64::MAX, false), (0, true)] {
            assert_eq!(budget.charge(bytes).is_some(), fits, "{bytes} beside 60 of 100");
        }
        drop(first);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_reservation_grows_within_its_limit_and_always_shrinks() {
        let budget = Budget::new(100);
        let mut share = budget.reservation();
        for (bytes, fits, after) in [(30, true, 30), (51, false, 30), (50, true, 50), (5, true, 5)]
        {
            assert_eq!(share.resize(bytes, 50), fits, "to {bytes}");
            assert_eq!(budget.growing_bytes(), after, "to {bytes}");
        }
        assert!(share.resize(4, 0), "shrinking needs no room");
        drop(share);
        assert_eq!(budget.growing_bytes(), 0);
    }
}
