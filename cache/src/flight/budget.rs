//! The budget for all bytes that flights hold, and the charges that give these bytes back.
//!
//! Each growing record has an account. The promised bytes are reserved when the account is opened.
//! Bytes beyond the promise are taken from the budget when they are spent. While the account is
//! open, bytes that are given back can be spent again: promised bytes by the same record, other
//! bytes by any record.
//!
//! Invariants:
//! - `taken_bytes` is the sum of all accounts, and never exceeds `bytes_max`. An open account
//!   counts as much as its promise or its spending, whichever is larger. A closed account counts as
//!   much as its spending.
//! - The spending of an account is the sum of its living [`Charge`]s.
//! - The accounts of one share take more bytes only while the budget has at least as many bytes
//!   left as they have taken. So sources of responses that arrive slowly leave room for the others:
//!   one source leaves at least a half of the budget, two leave at least a quarter.
//!
//! The counters are `Relaxed`: they publish no data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The allocator's overhead for an allocation: its header, and the mean loss by rounding its size
/// up.
pub(super) const ALLOCATION_BYTES: u64 = 16;

/// The bit of an account's state that is set while the account is open. The other bits are its
/// spending.
const OPEN: u64 = 1 << 63;

/// The number of shares. If there are more sources, several sources use one share.
const SHARE_COUNT: usize = 64;

/// The budget that all accounts of a process share.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    taken_bytes: AtomicU64,
    /// The bytes that the accounts of each share have taken.
    shares: [AtomicU64; SHARE_COUNT],
}

/// The source of a response. All accounts of one source together get only a part of the budget.
/// `None` stands for the only source, which gets the whole budget.
pub(super) type Share = Option<u16>;

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Arc<Self> {
        let shares = std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { bytes_max, taken_bytes: AtomicU64::new(0), shares })
    }

    /// The limit for all accounts together.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The number of bytes that are held or promised.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }

    /// The most bytes that one share gets, if no other share has taken any.
    pub(super) fn share_bytes_max(&self) -> u64 {
        self.bytes_max / 2
    }

    /// Opens an account with a promise, if the budget has room for the promise.
    pub(super) fn open(self: &Arc<Self>, promised_bytes: u64, share: Share) -> Option<Account> {
        let promised_bytes = promised_bytes.min(OPEN - 1);
        self.take(promised_bytes, self.bytes_max, share).then(|| {
            let state = AtomicU64::new(OPEN);
            Account(Arc::new(Ledger { budget: Arc::clone(self), promised_bytes, share, state }))
        })
    }

    fn share(&self, share: Share) -> Option<&AtomicU64> {
        self.shares.get(usize::from(share?) % SHARE_COUNT)
    }

    /// Takes `bytes` bytes. Returns false if the sum would exceed `bytes_max`, or the share's part.
    fn take(&self, bytes: u64, bytes_max: u64, share: Share) -> bool {
        if bytes == 0 {
            return true;
        }
        let raise_to =
            |max: u64| move |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        let left = self.bytes_max.saturating_sub(self.taken_bytes()).saturating_sub(bytes);
        let share = self.share(share);
        if let Some(share) = share
            && share.try_update(Relaxed, Relaxed, raise_to(left)).is_err()
        {
            return false;
        }
        let is_taken = self.taken_bytes.try_update(Relaxed, Relaxed, raise_to(bytes_max)).is_ok();
        if let Some(share) = share.filter(|_| !is_taken) {
            share.fetch_sub(bytes, Relaxed);
        }
        is_taken
    }

    fn give_back(&self, bytes: u64, share: Share) {
        let before = self.taken_bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "no more bytes are given back than were taken");
        if let Some(share) = self.share(share) {
            share.fetch_sub(bytes, Relaxed);
        }
    }
}

/// The promise and the spending of one growing record. Its charges share this ledger, and may
/// outlive the record.
#[derive(Debug)]
struct Ledger {
    budget: Arc<Budget>,
    promised_bytes: u64,
    share: Share,
    state: AtomicU64,
}

impl Ledger {
    fn covered(&self, state: u64) -> u64 {
        let spent = state & !OPEN;
        if state & OPEN == 0 { spent } else { spent.max(self.promised_bytes) }
    }

    /// Spends `bytes` bytes. Bytes beyond the promise are taken from the budget. Returns false if
    /// the budget's sum would then exceed `bytes_max`.
    fn spend(&self, bytes: u64, bytes_max: u64) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            let spent = (state & !OPEN).checked_add(bytes).filter(|&spent| spent < OPEN);
            let Some(spent) = spent else { return false };
            let raised = state & OPEN | spent;
            let more_bytes = self.covered(raised) - self.covered(state);
            if !self.budget.take(more_bytes, bytes_max, self.share) {
                return false;
            }
            match self.state.compare_exchange_weak(state, raised, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(changed) => state = changed,
            }
            self.budget.give_back(more_bytes, self.share);
        }
    }

    /// Lowers the state with `lower`, and gives the bytes that it no longer covers back to the
    /// budget.
    fn lower(&self, lower: impl Fn(u64) -> u64) {
        let before = self.state.update(Relaxed, Relaxed, &lower);
        let (covered, rest) = (self.covered(before), self.covered(lower(before)));
        debug_assert!(rest <= covered, "a lowered account covers no more bytes than before");
        self.budget.give_back(covered - rest, self.share);
    }
}

/// The account of one growing record, from which its bytes are charged. Dropping it closes the
/// account.
#[derive(Debug)]
pub(super) struct Account(Arc<Ledger>);

impl Account {
    /// Charges `bytes` bytes; `None` if the budget has no room.
    pub(super) fn charge(&self, bytes: u64) -> Option<Charge> {
        self.charge_within(bytes, self.0.budget.bytes_max)
    }

    /// Charges `bytes` bytes; `None` if the sum of all accounts would then exceed `bytes_max`.
    pub(super) fn charge_within(&self, bytes: u64, bytes_max: u64) -> Option<Charge> {
        let ledger = self.0.spend(bytes, bytes_max).then(|| Arc::clone(&self.0));
        ledger.map(|ledger| Charge { ledger: Some(ledger), bytes })
    }

    /// Gives back the unspent rest of the promise.
    pub(super) fn close(&self) {
        self.0.lower(|state| state & !OPEN);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes that are charged to an account. Dropping the charge gives them back.
#[derive(Debug)]
#[must_use]
pub(super) struct Charge {
    ledger: Option<Arc<Ledger>>,
    bytes: u64,
}

impl Charge {
    /// An empty charge, for the one append of a window that is published although the budget has no
    /// room.
    pub(super) fn unbilled() -> Self {
        Self { ledger: None, bytes: 0 }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.lower(|state| state - self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_never_exceeds_the_budget_and_comes_back() {
        let budget = Budget::new(100);
        let account = budget.open(0, None).unwrap();
        let first = account.charge(60);
        assert!(first.is_some());
        for (bytes, fits) in [(41, false), (40, true), (u64::MAX, false), (OPEN, false), (0, true)]
        {
            assert_eq!(account.charge(bytes).is_some(), fits, "{bytes} beside 60 of 100");
        }
        assert!(account.charge_within(10, 69).is_none() && account.charge_within(9, 69).is_some());
        drop(first);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_promise_is_kept_until_the_account_is_closed() {
        let budget = Budget::new(100);
        let (promised, other) = (budget.open(60, None).unwrap(), budget.open(0, None).unwrap());
        assert!(budget.open(41, None).is_none());
        let others = other.charge(40).unwrap();
        // Each case: the bytes of one charge, whether there is room for it, the bytes taken while
        // it is held.
        for (bytes, fits, taken) in [(30, true, 100), (60, true, 100), (61, false, 100)] {
            let charge = promised.charge(bytes);
            assert_eq!((charge.is_some(), budget.taken_bytes()), (fits, taken), "{bytes}");
        }
        drop(others);
        let beyond = promised.charge(70).unwrap();
        assert_eq!(budget.taken_bytes(), 70, "bytes beyond the promise are taken");
        drop(beyond);
        assert_eq!(budget.taken_bytes(), 60, "bytes beyond the promise were not given back");
        let held = promised.charge(20).unwrap();
        promised.close();
        assert_eq!(budget.taken_bytes(), 20, "held bytes outlive the promise");
        drop(promised);
        drop(held);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_share_takes_no_more_than_is_left_and_gives_it_back() {
        let budget = Budget::new(100);
        let (one, other) = (Some(1), Some(2));
        let first = budget.open(30, one).unwrap();
        assert!(budget.open(21, one).is_none());
        let charge = first.charge(50).unwrap();
        assert!(first.charge(1).is_none());
        assert!(budget.open(26, other).is_none());
        let second = budget.open(25, other).unwrap();
        assert!(budget.open(13, Some(3)).is_none());
        let third = budget.open(12, Some(3)).unwrap();
        drop((first, second, third));
        assert_eq!(budget.taken_bytes(), 50);
        assert!(budget.open(1, one).is_none(), "the charge still holds the share's bytes");
        drop(charge);
        assert!(budget.open(50, one).is_some());
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn threads_that_charge_and_give_back_never_exceed_the_budget() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for promised_bytes in [0, 50, 200] {
                let account = budget.open(promised_bytes, None).unwrap();
                let budget = &budget;
                scope.spawn(move || {
                    let (sender, receiver) = std::sync::mpsc::sync_channel::<Charge>(4);
                    scope.spawn(move || receiver.into_iter().for_each(drop));
                    for round in 0..5_000_u64 {
                        let charge = account.charge(round * 7 % 300);
                        assert!(charge.is_some() || promised_bytes < 300, "{round}");
                        assert!(budget.taken_bytes() <= 1000, "{round}");
                        charge.into_iter().for_each(|charge| sender.send(charge).unwrap());
                    }
                });
            }
        });
        assert_eq!(budget.taken_bytes(), 0);
    }
}
