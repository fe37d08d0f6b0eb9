//! A record while it grows: the leader's side.
//!
//! While it is to be stored it has a [`Stake`], and every append is charged before it is
//! published. Without one it is a sliding window: see [`window`](crate::window).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::budget::{Charge, Reservation};
use crate::growing::{End, Opening};
use crate::lead::Lead;
use crate::record::{Body, Fragment, Record, fragment_cost, hold};
use crate::shard::Insertion;
use crate::window::Room;

/// What a fill holds as long as it is to be stored.
pub(crate) struct Stake {
    pub(crate) record: Charge,
    pub(crate) resource: Charge,
    pub(crate) growing: Reservation,
}

/// The body will not be stored and nobody reads it: the fetch may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NobodyListens;

/// A growing record. Dropping it before [`finish`](Filling::finish) aborts it: nothing is stored,
/// and its readers are told.
pub struct Filling {
    lead: Lead,
    opening: Arc<Opening>,
    /// Bytes of the body that were appended.
    bytes: u64,
    /// None once it is certain that the record will not be stored.
    stake: Option<(Charge, Charge)>,
    growing: Reservation,
    /// The caller's clock when it last asked for room.
    now_ms: u64,
}

impl Filling {
    pub(crate) fn new(lead: Lead, opening: Arc<Opening>, stake: Stake) -> Self {
        let Stake { record, resource, growing } = stake;
        Self { lead, opening, bytes: 0, stake: Some((record, resource)), growing, now_ms: 0 }
    }

    /// Waits until more may be appended: at once while the record is to be stored. A window waits
    /// for its slowest reader, but in sum no longer than `window_wait_ms_max` while others wait:
    /// to enforce that, ask again after a part of that time, woken or not. `now_ms` is the
    /// caller's monotonic clock.
    pub fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        now_ms: u64,
    ) -> Poll<Result<(), NobodyListens>> {
        self.now_ms = now_ms;
        if self.stake.is_some() {
            return Poll::Ready(Ok(()));
        }
        let store = &self.lead.store;
        let wait_ms_max = store.config().window_wait_ms_max;
        let (room, cut) = self.lead.flight.poll_room(cx, now_ms, wait_ms_max);
        store.events().readers_cut.fetch_add(u64::from(cut), Relaxed);
        room.map(|room| match room {
            Room::Free => Ok(()),
            Room::Nobody => Err(NobodyListens),
        })
    }

    /// Publishes a copy of `bytes`; call it after `poll_room`, with at most what a socket gives at
    /// a time.
    ///
    /// # Errors
    /// If nobody listens; what was appended is then lost.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), NobodyListens> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.keep_stake(bytes.len() as u64);
        let tail = self.lead.flight.tail(bytes.len());
        let repeated_bytes = tail.iter().map(Bytes::len).sum::<usize>() as u64;
        let charge = self.charge(fragment_cost(repeated_bytes + bytes.len() as u64));
        let fragment = hold(&tail, bytes, charge);
        drop(tail);
        self.bytes += fragment.len() as u64 - repeated_bytes;
        if self.lead.flight.publish(fragment, repeated_bytes) { Ok(()) } else { Err(NobodyListens) }
    }

    /// Gives the stake up if the body may not grow by `more_bytes`.
    fn keep_stake(&mut self, more_bytes: u64) {
        if self.stake.is_none() {
            return;
        }
        let config = self.lead.store.config();
        let bytes = self.bytes.saturating_add(more_bytes);
        if bytes > config.object_bytes_max {
            let until_ms = self.now_ms.saturating_add(config.declined_ms);
            return self.slide(Some(until_ms));
        }
        let needed = bytes + self.opening.head.len() as u64;
        let promised = needed.max(self.growing.bytes());
        let fits = self.growing.resize(promised, config.growing_bytes_max);
        if !fits || self.lead.flight.is_detached() {
            self.slide(None);
        }
    }

    /// Turns into a sliding window: late comers find no flight and fetch for themselves.
    fn slide(&mut self, declined_until_ms: Option<u64>) {
        let store = &self.lead.store;
        store.events().outgrown.fetch_add(1, Relaxed);
        store.unregister(&self.lead.flight, declined_until_ms);
        self.lead.flight.slide(store.config().window_bytes);
        self.stake = None;
    }

    /// Room for a fragment. A window that gets none goes on in steps: it waits until all it holds
    /// is read before it takes the next append, which is not charged.
    fn charge(&mut self, cost: u64) -> Charge {
        if self.stake.is_some() {
            if let Some(charge) = self.lead.store.make_room(cost) {
                return charge;
            }
            self.slide(None);
        }
        let store = &self.lead.store;
        let config = store.config();
        let held_bytes = self.lead.flight.held_bytes() + cost;
        // All windows together leave half of what may grow to what will be stored.
        let charge = match self.growing.resize(held_bytes, config.growing_bytes_max / 2) {
            true => store.make_room(cost),
            false => None,
        };
        self.lead.flight.set_window(if charge.is_some() { config.window_bytes } else { 1 });
        charge.unwrap_or_else(|| store.budget().unbilled())
    }

    /// Ends the body. True if the record is stored: not if it became a window, was purged
    /// meanwhile, or is not as long as it was said to be; then its readers are told that it is
    /// broken.
    pub fn finish(mut self) -> bool {
        if self.opening.body_bytes.is_some_and(|bytes| bytes != self.bytes) {
            return false;
        }
        let stored = match self.stake.take() {
            Some((record, resource)) => self.store(record, resource),
            None => false,
        };
        // The record is stored already: who does not find the flight any more finds the record.
        self.lead.flight.end(End::Done);
        self.lead.settled = true;
        stored
    }

    fn store(&self, record: Charge, resource: Charge) -> bool {
        let base = self.opening.base.as_ref();
        let new = Insertion {
            hash: self.lead.flight.hash,
            primary: self.lead.flight.primary.clone(),
            base: base.map(|base| (Arc::from(&base.names[..]), Box::from(&base.variant[..]))),
            record: Record::new(self.opening.head.clone(), self.body(), record),
            charge: resource,
        };
        self.lead.store.insert(&self.lead.flight, new)
    }

    /// The complete body; a small one in one fragment, if there is room for the copy.
    fn body(&self) -> Body {
        let Lead { store, flight, .. } = &self.lead;
        let fragments = flight.fragments();
        if fragments.len() < 2 || self.bytes > store.config().contiguous_bytes_max {
            return Body::new(fragments);
        }
        let Some(charge) = store.make_room(fragment_cost(self.bytes)) else {
            return Body::new(fragments);
        };
        let parts: Vec<Bytes> = fragments.into_iter().map(|fragment| fragment.bytes).collect();
        Body::new(vec![Fragment { bytes: hold(&parts, &[], charge), end: self.bytes }])
    }

    /// The body turned out longer than its caller wants to store: it goes on to its readers as a
    /// sliding window, and for `declined_ms` from `now_ms` the key is not collapsed.
    pub fn give_up_storing(&mut self, now_ms: u64) {
        if self.stake.is_some() {
            let until_ms = now_ms.saturating_add(self.lead.store.config().declined_ms);
            self.slide(Some(until_ms));
        }
    }

    /// Bytes of the body that were appended.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, storing) = (self.bytes, self.stake.is_some());
        f.debug_struct("Filling").field("bytes", &bytes).field("storing", &storing).finish()
    }
}
