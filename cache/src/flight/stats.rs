//! What flights count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Events so far. They only count, so they are `Relaxed`.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) refused_large: AtomicU64,
    pub(super) refused_no_room: AtomicU64,
    pub(super) outgrown: AtomicU64,
    pub(super) readers_cut: AtomicU64,
    pub(super) declined: AtomicU64,
}

/// A picture of all flights. The shards are read one after another, so while others work the
/// numbers are off by what happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlightStats {
    /// Fetches that can be joined.
    pub(crate) flight_count: u64,
    /// What flights hold or have promised to hold, and what is still being sent of them.
    pub(crate) growing_bytes: u64,
    /// Responses refused because their body is known to be too long.
    pub(crate) refused_large: u64,
    /// Times that there was no room for a response, or for more of it.
    pub(crate) refused_no_room: u64,
    /// Growing records that became a sliding window.
    pub(crate) outgrown: u64,
    /// Readers that a window left behind.
    pub(crate) readers_cut: u64,
    /// Fetches that turned out not storable.
    pub(crate) declined: u64,
}

impl Events {
    /// The picture, without what only tables and budget know.
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
