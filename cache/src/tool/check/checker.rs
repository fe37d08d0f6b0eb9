//! The state of a running check, and how it tells a fault from work in progress.

use std::collections::HashMap;
use std::thread;

use forebay_shm::Listed;

use super::CheckDepth;
use super::related::FragmentTotals;
use crate::segment::{Location, RecordHeader, SegmentPhase, UNIT_BYTES};
use crate::tool::finding::{Finding, FindingKind};
use crate::tool::report::StoreReport;
use crate::tool::view::{RegionAccess, RegionView};

/// The number of reads that must agree before a fault is reported.
const LOOKS: usize = 3;

/// The number of times that the checker yields its processor between two reads.
const YIELDS: usize = 4;

/// The state of a running check.
pub(super) struct Checker<'a, R: RegionAccess> {
    pub(super) view: &'a RegionView<R>,
    pub(super) is_deep: bool,
    pub(super) report: StoreReport,
    /// The fragments that the check has met, by the id of their body.
    pub(super) fragments: HashMap<u64, FragmentTotals>,
    /// The attached participants, as last read.
    pub(super) participants: Vec<Listed>,
    /// The key of the record that is being checked; empty if there is no valid record.
    pub(super) key: Vec<u8>,
    pub(super) other_key: Vec<u8>,
}

impl<'a, R: RegionAccess> Checker<'a, R> {
    pub(super) fn new(view: &'a RegionView<R>, depth: CheckDepth) -> Self {
        let is_deep = depth == CheckDepth::Checksums;
        let report = StoreReport {
            is_deep,
            bucket_count: view.bucket_count as u64,
            segment_count: u64::from(view.geometry.segment_count()),
            ..StoreReport::default()
        };
        Checker {
            view,
            is_deep,
            report,
            fragments: HashMap::new(),
            participants: view.region.participants(),
            key: Vec::new(),
            other_key: Vec::new(),
        }
    }

    /// Calls `look` several times. Returns the result if all calls return the same one.
    pub(super) fn confirm<T: PartialEq>(
        &mut self,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let first = look(self)?;
        for _ in 1..LOOKS {
            (0..YIELDS).for_each(|_| thread::yield_now());
            if look(self).as_ref() != Some(&first) {
                return None;
            }
        }
        Some(first)
    }

    pub(super) fn add(&mut self, kind: FindingKind, location: impl FnOnce(&mut Finding)) {
        let mut finding = Finding::of(kind);
        location(&mut finding);
        self.report.add(finding);
    }

    /// Whether the publisher of a record is done with the word that names the record. If so, a
    /// later read of the word sees its final state.
    pub(super) fn is_published(&self, location: Location, header: &RecordHeader) -> bool {
        let Some(segment) = self.view.geometry.segment_of(location) else {
            return false;
        };
        let Some(described) = self.view.unpinned().snapshot(segment) else {
            return false;
        };
        match described.state.phase {
            SegmentPhase::Sealed | SegmentPhase::Draining => true,
            SegmentPhase::Open => described.filled_bytes > self.end_bytes(location, header),
            SegmentPhase::Free | SegmentPhase::Suspect => false,
        }
    }

    /// The offset in its segment at which a record ends.
    pub(super) fn end_bytes(&self, location: Location, header: &RecordHeader) -> u64 {
        let segment_bytes = u64::from(self.view.geometry.segment_bytes());
        let start = u64::from(location.0) * u64::from(UNIT_BYTES) % segment_bytes;
        start + header.record_bytes()
    }
}
