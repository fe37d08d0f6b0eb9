//! A record while it grows: the leader's side.
//!
//! While it is to be stored, every append is charged before it is published. Later it is a sliding
//! window: see [`window`](super::window).
//!
//! Not charged are: the one append that a window without room takes at a time, which its leader
//! has in a buffer anyway, and a head that was validated, which belongs to who made it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::budget::{Account, Charge};
use super::flights::FlightKey;
use super::fragment::{fragment_cost, hold};
use super::growing_record::{End, Opening};
use super::lead::Duty;
use super::window::Room;
use crate::store::LongBody;

/// The body will not be stored and nobody reads it: the fetch may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReaders;

/// A growing record. Dropping it before [`finish`](BodyWriter::finish) aborts it, and its readers
/// are told.
pub(crate) struct BodyWriter {
    duty: Duty,
    opening: Arc<Opening>,
    /// Bytes of the body that were appended.
    bytes: u64,
    account: Account,
    /// The body slides, because it is certain that it will not be stored.
    sliding: bool,
    /// The caller's clock when it last asked for room.
    now_ms: u64,
}

impl BodyWriter {
    pub(super) fn new(duty: Duty, opening: Arc<Opening>, account: Account) -> Self {
        Self { duty, opening, bytes: 0, account, sliding: false, now_ms: 0 }
    }

    /// What is fetched.
    pub(crate) fn key(&self) -> FlightKey<'_> {
        self.duty.flight.key()
    }

    /// The number that the gate gave when this fetch began.
    pub(crate) fn purge_noted(&self) -> u64 {
        self.duty.flight.purge_noted
    }

    /// What was known when the body began.
    pub(crate) fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Bytes of the body that were appended.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True while the body is to be stored: not once it has become a window or was detached.
    pub(crate) fn is_storing(&self) -> bool {
        !self.sliding && !self.duty.flight.is_detached()
    }

    /// True if the body is as long as it was promised to be, or no length was.
    pub(crate) fn is_complete(&self) -> bool {
        self.opening.body_bytes.is_none_or(|bytes| bytes == self.bytes)
    }

    /// What was appended of a part of the body, shared: each piece stays charged until its last
    /// clone is dropped. Nothing once it is a window; who is detached still gets all.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<Bytes> {
        if self.sliding { Vec::new() } else { self.duty.flight.pieces(range) }
    }

    /// Waits until more may be appended: at once while the body is to be stored. A window waits
    /// for its slowest reader, but in sum no longer than `window_wait_ms_max` while others wait:
    /// to enforce that, ask again after a part of that time, woken or not. `now_ms` is the
    /// caller's monotonic clock.
    pub(crate) fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        now_ms: u64,
    ) -> Poll<Result<(), NoReaders>> {
        self.now_ms = now_ms;
        if !self.sliding {
            return Poll::Ready(Ok(()));
        }
        let flights = &self.duty.flights;
        let wait_ms_max = flights.config().window_wait_ms_max;
        let (room, cut) = self.duty.flight.poll_room(cx, now_ms, wait_ms_max);
        flights.events().readers_cut.fetch_add(u64::from(cut), Relaxed);
        room.map(|room| match room {
            Room::Free => Ok(()),
            Room::Nobody => Err(NoReaders),
        })
    }

    /// Leaves the slowest reader behind.
    pub(crate) fn cut_slowest(&mut self) {
        if self.duty.flight.cut_slowest() {
            self.duty.flights.events().readers_cut.fetch_add(1, Relaxed);
        }
    }

    /// Publishes a copy of `bytes`; call it after `poll_room`, with at most what a socket gives at
    /// a time.
    ///
    /// # Errors
    /// If nobody listens; what was appended is then lost.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), NoReaders> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.slide_if_needed(bytes.len() as u64);
        let tail = self.duty.flight.tail(bytes.len());
        let repeated_bytes = tail.iter().map(Bytes::len).sum::<usize>() as u64;
        let charge = self.charge(fragment_cost(repeated_bytes + bytes.len() as u64));
        let fragment = hold(&tail, bytes, charge);
        drop(tail);
        self.bytes += fragment.len() as u64 - repeated_bytes;
        if self.duty.flight.publish(fragment, repeated_bytes) { Ok(()) } else { Err(NoReaders) }
    }

    /// Gives up storing if the body grows too long with `more_bytes`, or was purged.
    fn slide_if_needed(&mut self, more_bytes: u64) {
        let object_bytes_max = self.duty.flights.config().object_bytes_max;
        if self.bytes.saturating_add(more_bytes) > object_bytes_max {
            self.give_up_storing(self.now_ms);
        } else if !self.is_storing() {
            self.slide();
        }
    }

    /// The body turned out longer than its caller wants to store: it goes on to its readers as a
    /// sliding window, and for `declined_ms` from `now_ms` the key is not collapsed.
    pub(crate) fn give_up_storing(&mut self, now_ms: u64) {
        if !self.sliding {
            self.duty.flights.decline(&self.duty.flight, now_ms);
            self.slide();
        }
    }

    /// There is no room to store it now: it goes on to its readers as a sliding window.
    pub(crate) fn stop_storing(&mut self) {
        self.slide();
    }

    /// Turns into a sliding window: late comers find no flight and fetch for themselves.
    fn slide(&mut self) {
        if self.sliding {
            return;
        }
        self.sliding = true;
        let Duty { flights, flight, .. } = &self.duty;
        flights.events().outgrown.fetch_add(1, Relaxed);
        flights.unregister(flight);
        flight.slide(flights.config().window_bytes);
        self.account.close();
    }

    /// Room for a fragment. A window that gets none goes on in steps: it waits until all it holds
    /// is read before it takes the next append, which is not charged.
    fn charge(&mut self, cost: u64) -> Charge {
        if !self.sliding {
            if let Some(charge) = self.account.charge(cost) {
                return charge;
            }
            self.duty.flights.events().refused_no_room.fetch_add(1, Relaxed);
            self.slide();
        }
        let config = self.duty.flights.config();
        // Windows leave half of what may grow to what will be stored.
        let charge = self.account.charge_within(cost, config.growing_bytes_max / 2);
        self.duty.flight.set_window(if charge.is_some() { config.window_bytes } else { 1 });
        charge.unwrap_or_else(Charge::unbilled)
    }

    /// Ends the body: call it after the record is stored, so that who finds no flight any more
    /// finds the record; `stored` if that is in fragments. A body that is not complete is broken,
    /// and its readers are told.
    pub(crate) fn finish(mut self, stored: Option<LongBody>) {
        if !self.is_complete() {
            return;
        }
        let Duty { flights, flight, .. } = &self.duty;
        flight.end(End::Done);
        flights.unregister(flight);
        if let Some(long) = stored {
            flight.stored(long);
        }
        // Nobody joins any more, so what all have read is needed no longer.
        flight.slide(flights.config().window_bytes);
        self.duty.settled = true;
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, sliding) = (self.bytes, self.sliding);
        f.debug_struct("BodyWriter").field("bytes", &bytes).field("sliding", &sliding).finish()
    }
}
