//! What is left of a segment when all its records were gone through: normally nothing. A key, a
//! length or a word that says how far a drain has come may be damaged, and then words still name
//! the segment. It is not freed before they are out: who reads under a pin relies on that.

#![allow(unsafe_code)]

use super::drain_state::DrainState;
use super::reclaim::Slice;
use super::stats::Events;
use super::worker::WorkerInner;
use crate::segment::Location;

/// Buckets that one slice looks at: some 30 µs, as long as nothing is found there.
const SLICE_BUCKETS: usize = 1024;

impl WorkerInner {
    /// Was everything gone through, and did everything leave that was counted? After a death the
    /// count may be off: then the index is looked through for nothing.
    pub(super) fn is_all_out(&self, segment: u32, offset_bytes: u32) -> bool {
        let table = self.shared.segments.table();
        u64::from(offset_bytes) == table.records_bytes(segment) && table.live_bytes(segment) == 0
    }

    /// Lets the next slices take out whatever still names the segment.
    pub(super) fn begin_take_out(&self) -> Slice {
        self.shared.drain.set_plan(DrainState::TAKE_OUT.encode());
        Slice::More
    }

    /// Takes out what names the segment, from a bucket on. The caller has the eviction lock, and
    /// the segment is draining.
    pub(super) fn take_out_left(&self, segment: u32, bucket: usize) -> Slice {
        let shared = &self.shared;
        let bucket_count = self.records.index.bucket_count();
        let end = (bucket + SLICE_BUCKETS).min(bucket_count);
        let geometry = shared.segments.geometry();
        let is_there = |location| geometry.segment_of(Location(location)) == Some(segment);
        self.records.index.remove_locations(bucket..end, is_there, |location| {
            Events::one(&shared.events.evicted);
            // SAFETY: the segment is draining, and we have the eviction lock.
            match unsafe { shared.segments.record(Location(location)) } {
                Ok(record) => self.records.access().note_orphans(&record),
                Err(_) => shared.leftovers.note(),
            }
        });
        self.demote_orphans();
        if end < bucket_count {
            shared.drain.set_plan(DrainState::TakeOut { bucket: end }.encode());
            return Slice::More;
        }
        self.end_draining(segment)
    }
}
