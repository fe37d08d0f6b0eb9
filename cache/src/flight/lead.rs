//! The side of a flight that fetches, until it knows what becomes of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::body_writer::BodyWriter;
use super::flights::{FlightKey, Flights};
use super::fragment::{body_cost, fragment_cost, hold};
use super::growing_record::{End, Opening, Phase, VariantKey};
use super::shared::Flight;

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillRefused {
    /// Its body is longer than what is stored at most. It will be the next time, too.
    TooLarge,
    /// There is no room for it now.
    NoRoom,
}

/// What followers get of a stored record that turned out to be good.
#[derive(Clone, Debug)]
pub struct RenewedHead {
    /// The new head.
    pub head: Bytes,
    /// The sequence of the record that has this head; none if it is not stored.
    pub sequence: Option<u64>,
}

/// The duty to end a flight: dropped before it is settled, the fetch has failed.
pub(super) struct Duty {
    pub(super) flights: Arc<Flights>,
    pub(super) flight: Arc<Flight>,
    pub(super) settled: bool,
}

impl Drop for Duty {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.flights.unregister(&self.flight);
        self.flight.settle(Phase::Failed);
        self.flight.end(End::Aborted);
    }
}

/// Fetches for all followers of a key, in a task of its own. Dropping it without a word means that
/// the fetch has failed.
pub(crate) struct Lead {
    duty: Duty,
}

impl Lead {
    pub(super) fn new(flights: Arc<Flights>, flight: Arc<Flight>) -> Self {
        Self { duty: Duty { flights, flight, settled: false } }
    }

    /// What is to be fetched.
    pub(crate) fn key(&self) -> FlightKey<'_> {
        self.duty.flight.key()
    }

    /// The number that the gate gave when this lead was made.
    pub(crate) fn purge_noted(&self) -> u64 {
        self.duty.flight.purge_noted
    }

    /// The response is not storable: followers fetch for themselves, and for `declined_ms` from
    /// `now_ms` the key is not collapsed.
    pub(crate) fn decline(self, now_ms: u64) {
        // Out of the table first: nobody may join a flight that has its word already.
        self.duty.flights.decline(&self.duty.flight, now_ms);
        self.settle(Phase::Declined);
    }

    /// This response is not storable, but the next may be: followers fetch for themselves.
    pub(crate) fn decline_once(self) {
        self.duty.flights.unregister(&self.duty.flight);
        self.settle(Phase::Declined);
    }

    /// The fetch has failed, and so have the followers.
    pub(crate) fn fail(self) {
        self.duty.flights.unregister(&self.duty.flight);
        self.settle(Phase::Failed);
    }

    /// RFC 9111 §4.3.4: what is stored is good, with a new head. Call it after that head is
    /// stored; followers get it in any case.
    pub(crate) fn validated(self, renewed: RenewedHead) {
        self.duty.flights.unregister(&self.duty.flight);
        self.settle(Phase::Validated(renewed));
    }

    fn settle(mut self, phase: Phase) {
        self.duty.flight.settle(phase);
        self.duty.settled = true;
    }

    /// Begins a body that is to be stored. `base` if the response has variants, `body_bytes` if
    /// its length is known: then that much is promised to it.
    ///
    /// # Errors
    /// Why it cannot be stored, and the lead back: followers wait for its word.
    pub(crate) fn begin(
        self,
        head: &[u8],
        base: Option<VariantKey>,
        body_bytes: Option<u64>,
    ) -> Result<BodyWriter, (Self, FillRefused)> {
        let flights = &self.duty.flights;
        if body_bytes.is_some_and(|bytes| bytes > flights.config().object_bytes_max) {
            flights.events().refused_large.fetch_add(1, Relaxed);
            return Err((self, FillRefused::TooLarge));
        }
        let base_bytes = base.as_ref().map_or(0, |base| base.names.len() + base.variant.len());
        let opening_cost = fragment_cost((head.len() + base_bytes) as u64);
        let promised_bytes = opening_cost.saturating_add(body_bytes.map_or(0, body_cost));
        let opened = flights.budget().open(promised_bytes);
        let charged = opened.and_then(|account| Some((account.charge(opening_cost)?, account)));
        let Some((charge, account)) = charged else {
            flights.events().refused_no_room.fetch_add(1, Relaxed);
            return Err((self, FillRefused::NoRoom));
        };
        let opening = Arc::new(Opening { head: hold(&[], head, charge), base, body_bytes });
        self.duty.flight.settle(Phase::Growing(Arc::clone(&opening)));
        Ok(BodyWriter::new(self.duty, opening, account))
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("key", &self.key()).finish()
    }
}
