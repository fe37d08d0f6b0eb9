//! The end of a drain: words that still name the segment when all its records were walked.
//!
//! Normally there are none. A damaged key, length or progress word can leave some. The segment is
//! not freed before they are out: readers with a pin rely on that.

#![allow(unsafe_code)]

use super::drain::DrainSlice;
use super::drain_state::DrainState;
use super::reclaim::SliceOutcome;
use super::stats::Events;
use crate::segment::Location;

/// Buckets that one slice searches: some 30 µs while it finds nothing.
const SLICE_BUCKETS: usize = 1024;

impl DrainSlice<'_> {
    /// Whether every record was walked, and all that were counted are out. After a death the count
    /// may be off; then the index is searched for nothing.
    pub(super) fn is_all_out(&self, offset_bytes: u32) -> bool {
        let table = self.worker.shared.segments.table();
        u64::from(offset_bytes) == table.records_bytes(self.segment)
            && table.live_bytes(self.segment) == 0
    }

    /// Lets the next slices search the index for words that still name the segment.
    pub(super) fn begin_take_out(&self) -> SliceOutcome {
        self.worker.shared.drain.set_plan(DrainState::TAKE_OUT.encode());
        SliceOutcome::More
    }

    /// Removes the words that name the segment, from a bucket on.
    pub(super) fn take_out_left(&self, bucket: usize) -> SliceOutcome {
        let (shared, records) = (&self.worker.shared, &self.worker.records);
        let bucket_count = records.index.bucket_count();
        debug_assert!(bucket < bucket_count, "a decoded drain state names a bucket");
        let end = (bucket + SLICE_BUCKETS).min(bucket_count);
        let geometry = shared.segments.geometry();
        let is_there = |location| geometry.segment_of(Location(location)) == Some(self.segment);
        records.index.remove_locations(bucket..end, is_there, |location| {
            Events::one(&shared.events.evicted);
            // SAFETY: the segment is draining, and this thread has the eviction lock.
            match unsafe { shared.segments.record(Location(location)) } {
                Ok(record) => records.access().note_orphans(&record),
                Err(_) => shared.leftovers.note(),
            }
        });
        self.worker.clean_up_orphans();
        if end < bucket_count {
            shared.drain.set_plan(DrainState::TakeOut { bucket: end }.encode());
            return SliceOutcome::More;
        }
        self.end()
    }
}
