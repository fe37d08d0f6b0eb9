//! Counters of flights.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of events. They are `Relaxed`, since they publish no data.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) refused_large: AtomicU64,
    pub(super) refused_no_room: AtomicU64,
    pub(super) outgrown: AtomicU64,
    pub(super) readers_cut: AtomicU64,
    pub(super) declined: AtomicU64,
}

/// A snapshot of all flights. The shards are read one after another, so the numbers are inexact if
/// flights change between two reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlightStats {
    /// The number of fetches that requests can join.
    pub(crate) flight_count: u64,
    /// The bytes that flights hold or have reserved, including the bytes of ended flights that are
    /// still being sent.
    pub(crate) growing_bytes: u64,
    /// The number of responses that were refused because their announced body is too long.
    pub(crate) refused_large: u64,
    /// The number of times that there was no room for a response, or for its next bytes.
    pub(crate) refused_no_room: u64,
    /// The number of growing records that became a sliding window.
    pub(crate) outgrown: u64,
    /// The number of readers that a window cut off.
    pub(crate) readers_cut: u64,
    /// The number of fetches whose response was not storable, so that their key is declined for
    /// some time.
    pub(crate) declined: u64,
}

impl Events {
    /// A snapshot of these counters. The fields that [`Flights`](super::flights::Flights) counts
    /// elsewhere, `flight_count` and `growing_bytes`, are zero.
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
