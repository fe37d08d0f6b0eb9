//! The leader's side of a body while it arrives.
//!
//! While the body is to be stored, every append is charged before it is published. Once it is
//! certain that the body will not be stored, the body becomes a sliding window: see
//! [`window`](super::window).
//!
//! Two things are not charged. One is the head of a validated record, whose memory belongs to the
//! caller. The other is one append at a time to a window for which the budget has no room: the
//! leader holds these bytes in a buffer anyway.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::budget::{Account, Charge};
use super::declined::DeclineReason;
use super::flights::FlightKey;
use super::fragment::{fragment_cost, hold};
use super::growing_record::{End, Opening};
use super::leader_guard::LeaderGuard;
use super::window::Room;
use crate::store::LongBody;

/// The body will not be stored and has no readers: the fetch may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReaders;

/// The leader's handle on a growing record. Dropping it before [`finish`](BodyWriter::finish)
/// aborts the record, and its readers are told.
pub(crate) struct BodyWriter {
    guard: LeaderGuard,
    opening: Arc<Opening>,
    /// The number of bytes of the body that were appended.
    bytes: u64,
    account: Account,
    /// Whether only a sliding window of the body is kept, because it is certain that the body will
    /// not be stored.
    sliding: bool,
    /// The `now_ms` that the caller passed to the last `poll_room`, in monotonic milliseconds.
    now_ms: u64,
}

impl BodyWriter {
    pub(super) fn new(guard: LeaderGuard, opening: Arc<Opening>, account: Account) -> Self {
        Self { guard, opening, bytes: 0, account, sliding: false, now_ms: 0 }
    }

    /// The key that is fetched.
    pub(crate) fn key(&self) -> FlightKey<'_> {
        self.guard.flight.key()
    }

    /// The purge number that the gate returned when this flight began.
    pub(crate) fn purge_noted(&self) -> u64 {
        self.guard.flight.purge_noted
    }

    /// The head, the variant and the length that were known when the body began.
    pub(crate) fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The number of bytes of the body that were appended.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the body is still to be stored. False once the body is a window or the flight was
    /// detached.
    pub(crate) fn is_storing(&self) -> bool {
        !self.sliding && !self.guard.flight.is_detached()
    }

    /// Whether the body has its announced length; true if none was announced.
    pub(crate) fn is_complete(&self) -> bool {
        self.opening.body_bytes.is_none_or(|bytes| bytes == self.bytes)
    }

    /// The appended bytes of a part of the body. They are shared: each piece stays charged until
    /// its last clone is dropped. Empty once the body is a window. A flight that was detached still
    /// has all bytes until its body is a window.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<Bytes> {
        if self.sliding { Vec::new() } else { self.guard.flight.pieces(range) }
    }

    /// Polls for room to append. A body that is to be stored always has room. A window waits for
    /// its slowest reader. While other readers wait, the times for which the leader waits for one
    /// reader add up to at most `window_wait_ms_max`; then that reader is cut off. To enforce this
    /// limit, poll again after a fraction of `window_wait_ms_max`, even without a wakeup. `now_ms`
    /// is the caller's monotonic clock.
    pub(crate) fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        now_ms: u64,
    ) -> Poll<Result<(), NoReaders>> {
        self.now_ms = now_ms;
        if !self.sliding {
            return Poll::Ready(Ok(()));
        }
        let flights = &self.guard.flights;
        let wait_ms_max = flights.config().window_wait_ms_max;
        let (room, cut) = self.guard.flight.poll_room(cx, now_ms, wait_ms_max);
        flights.events().readers_cut.fetch_add(u64::from(cut), Relaxed);
        room.map(|room| match room {
            Room::Free => Ok(()),
            Room::NoReaders => Err(NoReaders),
        })
    }

    /// Cuts off the slowest reader.
    pub(crate) fn cut_slowest(&mut self) {
        if self.guard.flight.cut_slowest() {
            self.guard.flights.events().readers_cut.fetch_add(1, Relaxed);
        }
    }

    /// Publishes a copy of `bytes`. Call it after `poll_room`, with no more than one read of a
    /// socket.
    ///
    /// # Errors
    /// The body has no readers and will not be stored; the bytes are lost.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), NoReaders> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.slide_if_needed(bytes.len() as u64);
        let tail = self.guard.flight.tail(bytes.len());
        let repeated_bytes = tail.iter().map(Bytes::len).sum::<usize>() as u64;
        let charge = self.charge(fragment_cost(repeated_bytes + bytes.len() as u64));
        let fragment = hold(&tail, bytes, charge);
        drop(tail);
        debug_assert_eq!(fragment.len() as u64, repeated_bytes + bytes.len() as u64);
        self.bytes += bytes.len() as u64;
        match self.guard.flight.publish(fragment, repeated_bytes, self.now_ms) {
            true => Ok(()),
            false => Err(NoReaders),
        }
    }

    /// Makes the body a window if `more_bytes` make it too long to be stored, or if the flight was
    /// detached.
    fn slide_if_needed(&mut self, more_bytes: u64) {
        if self.guard.is_too_large(self.bytes.saturating_add(more_bytes)) {
            self.give_up_storing(self.now_ms);
        } else if !self.is_storing() {
            self.slide();
        }
    }

    /// Gives up storing the body because it is longer than the longest body that is stored. Readers
    /// get the rest through a sliding window. For a while from `now_ms`, fetches of the key are not
    /// collapsed.
    pub(crate) fn give_up_storing(&mut self, now_ms: u64) {
        if !self.sliding {
            self.guard.unregister_declined(now_ms, DeclineReason::TooLarge);
            self.slide();
        }
    }

    /// Gives up storing because a fragment cannot be stored. Readers get the rest through a sliding
    /// window.
    pub(crate) fn stop_storing(&mut self) {
        self.slide();
    }

    /// Turns the body into a sliding window. Later callers find no flight, and fetch for
    /// themselves.
    fn slide(&mut self) {
        if self.sliding {
            return;
        }
        self.sliding = true;
        let LeaderGuard { flights, flight, .. } = &self.guard;
        flights.events().outgrown.fetch_add(1, Relaxed);
        flights.unregister(flight);
        flight.slide(flights.config().window_bytes);
        self.account.close();
    }

    /// Charges a fragment. A window for which the budget has no room continues in steps: it waits
    /// until its readers have read everything, then it takes one append, which is not charged.
    fn charge(&mut self, cost: u64) -> Charge {
        if !self.sliding {
            if let Some(charge) = self.account.charge(cost) {
                return charge;
            }
            self.guard.flights.events().refused_no_room.fetch_add(1, Relaxed);
            self.slide();
        }
        let config = self.guard.flights.config();
        // Windows leave half of the budget to bodies that will be stored.
        let charge = self.account.charge_within(cost, config.growing_bytes_max / 2);
        self.guard.flight.set_window(if charge.is_some() { config.window_bytes } else { 1 });
        charge.unwrap_or_else(Charge::unbilled)
    }

    /// Ends the body. Call this after the record is stored, so that a caller that finds no flight
    /// finds the record. `stored` is the location of the body if it is stored in fragments. An
    /// incomplete body is aborted, and its readers are told.
    pub(crate) fn finish(mut self, stored: Option<LongBody>) {
        if !self.is_complete() {
            return;
        }
        debug_assert!(!self.guard.is_settled, "a body is finished only once");
        let LeaderGuard { flights, flight, .. } = &self.guard;
        flight.end(End::Done);
        flights.unregister(flight);
        if let Some(long) = stored {
            flight.stored(long);
        }
        // No reader joins any more, so bytes that all readers have read can be dropped.
        flight.slide(flights.config().window_bytes);
        self.guard.is_settled = true;
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, sliding) = (self.bytes, self.sliding);
        f.debug_struct("BodyWriter").field("bytes", &bytes).field("sliding", &sliding).finish()
    }
}
