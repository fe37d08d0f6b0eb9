//! Inspection hooks for stress tests. They show the state behind the public API in one snapshot.

use super::reclaim::SliceOutcome;
use super::store::Store;
use super::worker::StoreWorker;
use crate::index::WordState;
use crate::segment::{HeaderKind, SegmentPhase, SegmentQueue};

/// The number of segments in each phase.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Segments without an owner, which a participant may claim.
    pub free: u32,
    /// Segments to which their owners append.
    pub open: u32,
    /// Segments that are sealed and not yet reclaimed.
    pub sealed: u32,
    /// Segments that are being drained, or drained and still pinned.
    pub draining: u32,
    /// Segments whose owner died, to be checked.
    pub suspect: u32,
}

/// A record that a word of the index names.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexedRecord {
    /// The record's key.
    pub key: Vec<u8>,
    /// The bytes that the record takes in its segment.
    pub record_bytes: u64,
    /// Whether the record is a fragment of a long body.
    pub is_fragment: bool,
    /// Whether lookups find the record.
    pub is_live: bool,
    /// Whether the record's checksum is correct.
    pub is_whole: bool,
}

impl Store {
    /// The number of segments in each phase.
    #[doc(hidden)]
    pub fn phases(&self) -> PhaseCounts {
        let mut phases = PhaseCounts::default();
        let table = self.shared.segments.table();
        for state in (0..table.segment_count()).filter_map(|segment| table.state(segment)) {
            let count = match state.phase {
                SegmentPhase::Free => &mut phases.free,
                SegmentPhase::Open => &mut phases.open,
                SegmentPhase::Sealed => &mut phases.sealed,
                SegmentPhase::Draining => &mut phases.draining,
                SegmentPhase::Suspect => &mut phases.suspect,
            };
            *count += 1;
        }
        phases
    }

    /// The number of pins of all participants.
    #[doc(hidden)]
    pub fn pin_count(&self) -> u64 {
        self.shared.pins.pinned_count() as u64
    }
}

impl StoreWorker {
    /// Seals the open segments of this thread, then reclaims all segments that are neither open nor
    /// pinned.
    #[doc(hidden)]
    pub fn empty(&self) {
        [SegmentQueue::Small, SegmentQueue::Main]
            .into_iter()
            .for_each(|queue| self.inner.appender.seal(queue));
        let segment_count = self.inner.shared.plan.geometry.segment_count();
        // At the largest time all records are stale.
        while self.inner.reclaim_towards(segment_count, u64::MAX) == SliceOutcome::More {}
    }

    /// All records that the index names.
    #[doc(hidden)]
    pub fn named(&self) -> Vec<IndexedRecord> {
        let index = &self.inner.records.index;
        let hits = index.hits(&self.inner.records.pins, 0..index.bucket_count());
        let named = hits.map(|hit| {
            let is_live = hit.word().state() == WordState::Live;
            match self.inner.records.access().record(hit.at()) {
                Some(record) => IndexedRecord {
                    key: record.key().to_vec(),
                    record_bytes: record.header.record_bytes(),
                    is_fragment: record.header.kind == HeaderKind::Fragment,
                    is_live,
                    is_whole: record.has_valid_checksum(),
                },
                None => IndexedRecord { is_live, ..IndexedRecord::default() },
            }
        });
        named.collect()
    }
}
