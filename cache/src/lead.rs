//! The side of a flight that fetches, until it knows what becomes of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::filling::{Filling, Stake};
use crate::flight::Flight;
use crate::growing::{End, Opening, Phase};
use crate::record::{RECORD_OVERHEAD_BYTES, Record, hold};
use crate::resource::{Base, RESOURCE_OVERHEAD_BYTES, VARIANT_OVERHEAD_BYTES};
use crate::store::Store;

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its body is longer than `object_bytes_max`. It will be the next time, too.
    TooLarge,
    /// There is no room for it now.
    NoRoom,
}

/// A flight and the duty to end it: dropped before it is settled, the fetch has failed.
pub(crate) struct Lead {
    pub(crate) store: Arc<Store>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) settled: bool,
}

impl Drop for Lead {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.store.unregister(&self.flight, None);
        self.flight.settle(Phase::Failed);
        self.flight.end(End::Aborted);
    }
}

/// Fetches for all followers of a key, in a task of its own. Dropping it without a word means that
/// the fetch has failed.
pub struct Leader {
    lead: Lead,
    known: Option<Arc<Record>>,
}

impl Leader {
    pub(crate) fn new(store: Arc<Store>, flight: Arc<Flight>, known: Option<Arc<Record>>) -> Self {
        Self { lead: Lead { store, flight, settled: false }, known }
    }

    /// The response is not storable: followers fetch for themselves, and for `declined_ms` from
    /// `now_ms` the key is not collapsed.
    pub fn decline(self, now_ms: u64) {
        let until_ms = now_ms.saturating_add(self.lead.store.config().declined_ms);
        self.settle(Phase::Declined, Some(until_ms));
    }

    /// This response is not storable, but the next may be: followers fetch for themselves.
    pub fn decline_once(self) {
        self.settle(Phase::Declined, None);
    }

    /// The fetch has failed, and so have the followers.
    pub fn fail(self) {
        self.settle(Phase::Failed, None);
    }

    fn settle(mut self, phase: Phase, declined_until_ms: Option<u64>) {
        // Out of the table first: nobody may join a flight that has its word already.
        self.lead.store.unregister(&self.lead.flight, declined_until_ms);
        self.lead.flight.settle(phase);
        self.lead.settled = true;
    }

    /// RFC 9111 §4.3.4: the known record is good, with a new head. The new record shares its body
    /// and takes its place, if it is still stored and was not purged; followers get it in any
    /// case. Without a known record, the fetch has failed.
    pub fn validated(mut self, head: &[u8]) {
        let Some(known) = self.known.take() else {
            return;
        };
        let store = &self.lead.store;
        let variant_bytes = self.lead.flight.variant.as_ref().map(|variant| variant.len());
        let charges =
            store.make_room(head.len() as u64).zip(store.make_room(record_overhead(variant_bytes)));
        let storable = charges.is_some();
        let unbilled = || (store.budget().unbilled(), store.budget().unbilled());
        let (head_charge, record_charge) = charges.unwrap_or_else(unbilled);
        let head = hold(&[], head, head_charge);
        let new = Record::new(head, known.body().clone(), record_charge);
        if storable {
            store.replace(&self.lead.flight, &known, &new);
        } else {
            store.unregister(&self.lead.flight, None);
        }
        self.lead.flight.settle(Phase::Validated(new));
        self.lead.settled = true;
    }

    /// Begins to store a response. `base` if it has variants, `body_bytes` if its length is known.
    ///
    /// # Errors
    /// Why it cannot be stored, and the leader back: followers wait for its word.
    pub fn begin(
        self,
        head: &[u8],
        base: Option<Base>,
        body_bytes: Option<u64>,
    ) -> Result<Filling, (Self, Refused)> {
        let store = &self.lead.store;
        if body_bytes.is_some_and(|bytes| bytes > store.config().object_bytes_max) {
            store.events().refused_large.fetch_add(1, Relaxed);
            return Err((self, Refused::TooLarge));
        }
        let Some(stake) = self.stake(head, base.as_ref(), body_bytes.unwrap_or(0)) else {
            return Err((self, Refused::NoRoom));
        };
        let Some(charge) = store.make_room(head.len() as u64) else {
            return Err((self, Refused::NoRoom));
        };
        let opening = Arc::new(Opening { head: hold(&[], head, charge), base, body_bytes });
        self.lead.flight.settle(Phase::Growing(Arc::clone(&opening)));
        Ok(Filling::new(self.lead, opening, stake))
    }

    /// Room for all of a record but its head and body, and a share of what may grow.
    fn stake(&self, head: &[u8], base: Option<&Base>, body_bytes: u64) -> Option<Stake> {
        let store = &self.lead.store;
        let mut growing = store.budget().reservation();
        let promised = body_bytes + head.len() as u64;
        if !growing.resize(promised, store.config().growing_bytes_max) {
            store.events().refused_no_room.fetch_add(1, Relaxed);
            return None;
        }
        let key_bytes = self.lead.flight.primary.len() + base.map_or(0, |base| base.names.len());
        Some(Stake {
            record: store.make_room(record_overhead(base.map(|base| base.variant.len())))?,
            resource: store.make_room(RESOURCE_OVERHEAD_BYTES + key_bytes as u64)?,
            growing,
        })
    }
}

/// What a record costs beside its head and body.
fn record_overhead(variant_bytes: Option<usize>) -> u64 {
    let variant = variant_bytes.map_or(0, |bytes| VARIANT_OVERHEAD_BYTES + bytes as u64);
    RECORD_OVERHEAD_BYTES + variant
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").field("validates", &self.known.is_some()).finish()
    }
}
