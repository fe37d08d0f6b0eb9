//! What the store counts.

use std::sync::atomic::AtomicU64;

use crate::record::Record;

/// Sums and events of one shard; plain numbers, written under its lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) record_count: u64,
    pub(crate) body_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) inserted: u64,
    pub(crate) evicted: u64,
    pub(crate) ghost_hits: u64,
    pub(crate) declined: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &Record) {
        self.record_count += 1;
        self.body_bytes += record.body().cost();
        self.metadata_bytes += record.metadata_cost();
    }

    pub(crate) fn remove(&mut self, record: &Record) {
        self.record_count -= 1;
        self.body_bytes -= record.body().cost();
        self.metadata_bytes -= record.metadata_cost();
    }
}

/// Events that happen outside of any shard's lock.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) refused_large: AtomicU64,
    pub(crate) refused_no_room: AtomicU64,
    pub(crate) outgrown: AtomicU64,
    pub(crate) readers_cut: AtomicU64,
}

/// A picture of the store. The shards are read one after another, so while others work the sums
/// are off by what happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The limit for all that is held.
    pub budget_bytes: u64,
    /// All that is held.
    pub used_bytes: u64,
    /// The part of it that is fixed tables.
    pub fixed_bytes: u64,
    /// The part of it that is bodies of stored records.
    pub body_bytes: u64,
    /// The part of it that is heads, keys and bookkeeping of stored records.
    pub metadata_bytes: u64,
    /// The rest of it: growing records, and memory that has left the table while somebody still
    /// sends it.
    pub lent_bytes: u64,
    /// What growing records hold or have promised to hold.
    pub growing_bytes: u64,
    /// Stored records, variants included.
    pub record_count: u64,
    /// Keys with at least one record.
    pub resource_count: u64,
    /// Fetches that can be joined.
    pub flight_count: u64,
    /// Records stored so far, those that replaced one included.
    pub inserted: u64,
    /// Records that left for room.
    pub evicted: u64,
    /// Records that came back while their ghost was known.
    pub ghost_hits: u64,
    /// Fetches that turned out not storable.
    pub declined: u64,
    /// Fills refused because the body is known to be too long.
    pub refused_large: u64,
    /// Times that no room could be made.
    pub refused_no_room: u64,
    /// Fills that became a sliding window.
    pub outgrown: u64,
    /// Readers that a window left behind.
    pub readers_cut: u64,
}

impl Stats {
    /// Counts a shard in.
    pub(crate) fn add(&mut self, tally: &Tally) {
        self.record_count += tally.record_count;
        self.body_bytes += tally.body_bytes;
        self.metadata_bytes += tally.metadata_bytes;
        self.inserted += tally.inserted;
        self.evicted += tally.evicted;
        self.ghost_hits += tally.ghost_hits;
        self.declined += tally.declined;
    }
}
