//! Counters of flights.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Events so far. `Relaxed`: they publish no data.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) refused_large: AtomicU64,
    pub(super) refused_no_room: AtomicU64,
    pub(super) outgrown: AtomicU64,
    pub(super) readers_cut: AtomicU64,
    pub(super) declined: AtomicU64,
}

/// A snapshot of all flights. It reads one shard after another, so changes in between make
/// the numbers inexact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlightStats {
    /// Fetches that can be joined.
    pub(crate) flight_count: u64,
    /// Bytes that flights hold or have reserved, including bytes of ended flights that are still
    /// being sent.
    pub(crate) growing_bytes: u64,
    /// Responses that were refused because their announced body is too long.
    pub(crate) refused_large: u64,
    /// How often there was no room for a response, or for more of it.
    pub(crate) refused_no_room: u64,
    /// Growing records that became a sliding window.
    pub(crate) outgrown: u64,
    /// Readers that a window cut off.
    pub(crate) readers_cut: u64,
    /// Fetches whose response was not storable.
    pub(crate) declined: u64,
}

impl Events {
    /// The snapshot, without the numbers that the tables and the budget have.
    pub(super) fn stats(&self) -> FlightStats {
        FlightStats {
            refused_large: self.refused_large.load(Relaxed),
            refused_no_room: self.refused_no_room.load(Relaxed),
            outgrown: self.outgrown.load(Relaxed),
            readers_cut: self.readers_cut.load(Relaxed),
            declined: self.declined.load(Relaxed),
            ..FlightStats::default()
        }
    }
}
