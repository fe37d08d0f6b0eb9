//! An obvious store for tests: a map of records, and a list of all purges.
//!
//! It keeps the promises of the real store on which flights rely. A purge has a number from its
//! beginning, removes the records that it matches some time later, and is then over. A fetched
//! record is stored only if no purge after its noted number matches.

use std::collections::HashMap;

use forebay_sync::{LockClass, Mutex, MutexGuard};

use super::*;

/// The record that is stored under a key.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) sequence: u64,
    pub(super) head: Bytes,
    pub(super) body: Bytes,
}

#[derive(Default)]
struct State {
    kept: HashMap<Vec<u8>, Kept>,
    /// The keys that purges matched. The number of a purge is its position, counted from one.
    purges: Vec<Vec<u8>>,
    /// The number of the last purge that is over; all earlier purges are over, too.
    over: u64,
    sequence: u64,
    stored: u64,
}

impl State {
    fn is_purged(&self, primary: &[u8], purge_noted: u64) -> bool {
        self.purges[purge_noted as usize..].iter().any(|purged| purged == primary)
    }
}

pub(super) struct Shelf {
    state: Mutex<State>,
    /// Locked during a purge, since only one purge runs at a time.
    purging: Mutex<()>,
}

impl Shelf {
    pub(super) fn new() -> Self {
        let state = Mutex::new(LockClass::Test, State::default());
        Self { state, purging: Mutex::new(LockClass::Test, ()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn find(&self, primary: &[u8]) -> Option<Kept> {
        self.state().kept.get(primary).cloned()
    }

    /// The number of records that were ever stored.
    pub(super) fn stored(&self) -> u64 {
        self.state().stored
    }

    /// Stores a fetched record, unless a purge matched it during its fetch.
    pub(super) fn store(&self, primary: &[u8], purge_noted: u64, head: &[u8], body: &[u8]) -> bool {
        let mut state = self.state();
        if state.is_purged(primary, purge_noted) {
            return false;
        }
        state.sequence += 1;
        state.stored += 1;
        let (head, body) = (Bytes::copy_from_slice(head), Bytes::copy_from_slice(body));
        let kept = Kept { sequence: state.sequence, head, body };
        state.kept.insert(primary.to_vec(), kept);
        true
    }

    /// Gives a new sequence to the record that a request has found, if that record is still stored.
    /// Returns this sequence.
    pub(super) fn renew(&self, primary: &[u8], found: &Kept) -> Option<u64> {
        let mut state = self.state();
        let sequence = state.sequence + 1;
        let kept = state.kept.get_mut(primary).filter(|kept| kept.sequence == found.sequence)?;
        kept.sequence = sequence;
        state.sequence = sequence;
        Some(sequence)
    }

    /// Removes a record, as an eviction does.
    pub(super) fn evict(&self, primary: &[u8]) {
        self.state().kept.remove(primary);
    }

    /// Purges a key. The shelf is not locked while the purge is in progress.
    pub(super) fn purge(&self, primary: &[u8]) {
        let _one = self.purging.lock();
        self.begin_purge(primary);
        thread::yield_now();
        self.evict(primary);
        thread::yield_now();
        self.end_purge();
    }

    pub(super) fn begin_purge(&self, primary: &[u8]) {
        self.state().purges.push(primary.to_vec());
    }

    pub(super) fn end_purge(&self) {
        let mut state = self.state();
        state.over = state.purges.len() as u64;
    }

    /// The gate of a request that has found this record, or found none.
    pub(super) fn gate<'a>(&'a self, primary: &'a [u8], found: Option<&'a Kept>) -> ShelfGate<'a> {
        ShelfGate { shelf: self, primary, found }
    }
}

pub(super) struct ShelfGate<'a> {
    shelf: &'a Shelf,
    primary: &'a [u8],
    found: Option<&'a Kept>,
}

impl Gate for ShelfGate<'_> {
    fn note(&self) -> u64 {
        let state = self.shelf.state();
        if self.found.is_some() { state.over } else { state.purges.len() as u64 }
    }

    fn is_current(&self) -> bool {
        let sequence = self.shelf.state().kept.get(self.primary).map(|kept| kept.sequence);
        sequence == self.found.map(|found| found.sequence)
    }

    fn may_follow(&self, purge_noted: u64) -> bool {
        !self.shelf.state().is_purged(self.primary, purge_noted)
    }
}
