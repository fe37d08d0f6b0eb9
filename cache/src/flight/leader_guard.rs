//! The leader's side of a flight, until the response's head arrives and its outcome is decided.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::body_writer::BodyWriter;
use super::budget::Share;
use super::declined::{DeclineReason, DeclinedUntil};
use super::flights::{FlightKey, Flights, JoinPolicy, JoinTerms};
use super::fragment::{body_cost, fragment_cost, hold};
use super::growing_record::{End, Opening, Phase, VariantKey};
use super::shared::Flight;
use super::watch::FollowerWatch;

/// A body of at most this many bytes is not large: the room that it takes costs less than fetching
/// it in parts would.
const LARGE_BYTES_MIN: u64 = 16 << 20;

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillRefused {
    /// The response's body is longer than the longest body that is stored. The next response for
    /// the key is expected to be too long as well.
    TooLarge,
    /// The budget for growing records has no room for the response now.
    NoRoom,
}

/// The head that followers get after a stored record was validated, or after the leader has stored
/// the head of a response of which only a part is arriving.
#[derive(Clone, Debug)]
pub struct RenewedHead {
    /// The new head.
    pub head: Bytes,
    /// The field names and the selector of the response, if it has variants and a follower's
    /// request may select another variant.
    pub base: Option<VariantKey>,
    /// The sequence of the stored record with this head; `None` if no stored record has it.
    pub sequence: Option<u64>,
}

/// The leader's guard, which has to end the flight. If it is dropped before the flight is settled,
/// the fetch fails for all followers, and the body is aborted.
pub(crate) struct LeaderGuard {
    pub(super) flights: Arc<Flights>,
    pub(super) flight: Arc<Flight>,
    /// Whether others can join the flight before its response arrives.
    policy: JoinPolicy,
    declined_ms: u64,
    share: Share,
    /// Whether the flight has ended, so that the drop has nothing to do.
    pub(super) is_settled: bool,
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        self.flights.unregister(&self.flight);
        self.flight.settle(Phase::Failed(None));
        self.flight.end(End::Aborted);
    }
}

impl LeaderGuard {
    pub(super) fn new(flights: Arc<Flights>, flight: Arc<Flight>, terms: JoinTerms) -> Self {
        let JoinTerms { policy, declined_ms, share, .. } = terms;
        Self { flights, flight, policy, declined_ms, share, is_settled: false }
    }

    /// The key that is fetched.
    pub(crate) fn key(&self) -> FlightKey<'_> {
        self.flight.key()
    }

    /// Returns a watch on the followers of this flight.
    pub(crate) fn watch_followers(&self) -> FollowerWatch {
        FollowerWatch::new(&self.flights, &self.flight)
    }

    /// The purge number that the gate returned when this flight began.
    pub(crate) fn purge_noted(&self) -> u64 {
        self.flight.purge_noted
    }

    /// Sets whether the leader waits for its turn to ask the origin. While it does, callers that
    /// may ask the origin without waiting do not follow it.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.flight.set_waits(waits);
    }

    /// Ends the flight of a response that is not storable. Followers fetch for themselves. Fetches
    /// of the key are not collapsed from `now_ms` on, for the `declined_ms` of the leader's terms.
    /// The response to a leader with [`JoinPolicy::Arrived`] says nothing about other callers, so
    /// for such a leader this does the same as [`LeaderGuard::decline_once`].
    pub(crate) fn decline(self, now_ms: u64, reason: DeclineReason) {
        if self.policy == JoinPolicy::Arrived {
            return self.decline_once(reason);
        }
        // The flight leaves the table first, because no caller may join a settled flight.
        self.unregister_declined(now_ms, reason);
        self.settle(Phase::Declined(Some(reason)));
    }

    /// Ends the flight of a response that is not storable, although the next response may be.
    /// Followers fetch for themselves, and later fetches of the key are collapsed.
    pub(crate) fn decline_once(self, reason: DeclineReason) {
        self.flights.unregister(&self.flight);
        self.settle(Phase::Declined(Some(reason)));
    }

    /// Fails the fetch for all followers, which get `code`: the caller's code for the reason.
    pub(crate) fn fail(self, code: u16) {
        self.flights.unregister(&self.flight);
        self.settle(Phase::Failed(Some(code)));
    }

    /// RFC 9111 §4.3.4: tells the followers that the origin has confirmed the stored record, with a
    /// new head. The caller stores that head before this call if it can. Followers get the head in
    /// any case.
    pub(crate) fn validated(self, renewed: RenewedHead) {
        self.flights.unregister(&self.flight);
        self.settle(Phase::Validated(renewed));
    }

    /// Whether a body of `bytes` bytes is never stored, because it exceeds the limit for bodies, or
    /// the most room that one share gets if no other share has taken any.
    pub(crate) fn is_too_large(&self, bytes: u64) -> bool {
        let config = self.flights.config();
        let is_beyond_share =
            self.share.is_some() && body_cost(bytes) > self.flights.budget().share_bytes_max();
        bytes > config.object_bytes_max || is_beyond_share
    }

    /// Whether a body of `bytes` bytes would take so much of the room for growing records, while it
    /// arrives, that others might not be stored.
    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        let quarter = self.flights.budget().bytes_max() / 4;
        bytes > quarter.max(LARGE_BYTES_MIN) || self.is_too_large(bytes)
    }

    pub(super) fn unregister_declined(&self, now_ms: u64, reason: DeclineReason) {
        let until_ms = now_ms.saturating_add(self.declined_ms);
        self.flights.decline(&self.flight, DeclinedUntil { reason, until_ms });
    }

    fn settle(mut self, phase: Phase) {
        self.flight.settle(phase);
        self.is_settled = true;
    }

    /// Begins a body that is to be stored. `base` is given if the response has variants, and
    /// `body_bytes` if the length of its body is known. In the latter case, room for the body is
    /// reserved, but at most `promise_bytes_max`.
    ///
    /// # Errors
    /// Returns the reason if the body cannot be stored, and the guard, whose followers still wait.
    pub(crate) fn begin(
        self,
        head: &[u8],
        base: Option<VariantKey>,
        body_bytes: Option<u64>,
    ) -> Result<BodyWriter, (Self, FillRefused)> {
        let flights = &self.flights;
        if body_bytes.is_some_and(|bytes| self.is_too_large(bytes)) {
            flights.events().refused_large.fetch_add(1, Relaxed);
            return Err((self, FillRefused::TooLarge));
        }
        let base_bytes = base.as_ref().map_or(0, |base| base.names.len() + base.variant.len());
        let opening_cost = fragment_cost((head.len() + base_bytes) as u64);
        // An origin that announces much and sends little must not keep others from storing.
        let body_cost = body_bytes.map_or(0, body_cost).min(flights.config().promise_bytes_max);
        let promised_bytes = opening_cost.saturating_add(body_cost);
        let opened = flights.budget().open(promised_bytes, self.share);
        let charged = opened.and_then(|account| Some((account.charge(opening_cost)?, account)));
        let Some((charge, account)) = charged else {
            flights.events().refused_no_room.fetch_add(1, Relaxed);
            return Err((self, FillRefused::NoRoom));
        };
        let opening = Arc::new(Opening { head: hold(&[], head, charge), base, body_bytes });
        self.flight.settle(Phase::Growing(Arc::clone(&opening)));
        if self.policy == JoinPolicy::Arrived {
            self.flights.register_arrived(&self.flight);
        }
        Ok(BodyWriter::new(self, opening, account))
    }
}

impl fmt::Debug for LeaderGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderGuard").field("key", &self.key()).finish()
    }
}
