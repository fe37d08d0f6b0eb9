//! Checks of the table of segments, and scans of their records.

use forebay_shm::{Listed, ParticipantStatus};

use super::checker::Checker;
use crate::segment::{RecordDamage, SegmentPhase, SegmentSnapshot, SegmentState, UNIT_BYTES};
use crate::store::layout::word;
use crate::tool::finding::{Finding, FindingKind};
use crate::tool::view::RegionAccess;

impl<R: RegionAccess> Checker<'_, R> {
    /// Checks one segment.
    pub(super) fn check_segment(&mut self, segment: u32) {
        if self
            .view
            .unpinned()
            .state(segment)
            .is_some_and(|state| state.phase == SegmentPhase::Free)
        {
            self.report.free_segment_count += 1;
        }
        if self.segment_fault(segment).is_some() {
            let fault = self.confirm(|checker| {
                checker.participants = checker.view.region.participants();
                checker.segment_fault(segment)
            });
            if let Some((kind, row)) = fault {
                self.add(kind, |finding| {
                    finding.segment = Some(segment);
                    finding.row = row;
                });
            }
        }
        self.check_walk(segment);
        self.check_live_bytes(segment);
    }

    /// Returns the first fault in the words that describe a segment. If the fault concerns the
    /// segment's owner, also returns the owner's row.
    fn segment_fault(&self, segment: u32) -> Option<(FindingKind, Option<u32>)> {
        if self.view.unpinned().state(segment).is_none() {
            return Some((
                FindingKind::SegmentState { found: self.view.state_word(segment) },
                None,
            ));
        }
        let described = self.view.unpinned().snapshot(segment)?;
        let SegmentSnapshot { state, order, filled_bytes, live_bytes, expires } = described;
        let segment_bytes = u64::from(self.view.geometry.segment_bytes());
        if filled_bytes > segment_bytes || !filled_bytes.is_multiple_of(u64::from(UNIT_BYTES)) {
            return Some((FindingKind::Filled { filled_bytes }, None));
        }
        let is_empty = (order, filled_bytes, live_bytes, expires) == (0, 0, 0, 0);
        match state.phase {
            SegmentPhase::Free => (!is_empty).then_some((FindingKind::FreeNotEmpty, None)),
            SegmentPhase::Open => self.owner_fault(state),
            SegmentPhase::Suspect if state.owner.is_none() => Some((FindingKind::Suspect, None)),
            SegmentPhase::Suspect => self.owner_fault(state),
            SegmentPhase::Draining => {
                self.is_drained(segment).then_some((FindingKind::Drained, None))
            }
            SegmentPhase::Sealed => None,
        }
    }

    /// Whether a segment is neither being drained nor pinned.
    fn is_drained(&self, segment: u32) -> bool {
        let rows = 0..self.view.region.participants_max();
        self.view.shared(word::DRAINING) != u64::from(segment) + 1
            && rows.map(|row| self.view.pin_count(row, segment)).all(|count| count == 0)
    }

    /// Checks that the owner of a segment is attached. A dead owner is reported once, by its row.
    fn owner_fault(&self, state: SegmentState) -> Option<(FindingKind, Option<u32>)> {
        let owner = state.owner?;
        let is_there = self.participants.iter().any(|listed| listed.id.row == owner);
        (!is_there).then_some((FindingKind::NoOwner, Some(owner)))
    }

    /// Checks that a scan meets valid records only.
    fn check_walk(&mut self, segment: u32) {
        let damage = self.confirm(|checker| {
            let walked = checker.view.unpinned().walk(segment)?;
            Some((walked.state.generation, walked.damage?))
        });
        let Some((_, RecordDamage { location, why })) = damage else {
            return;
        };
        self.add(FindingKind::Walk { why: why.text() }, |finding| {
            finding.segment = Some(segment);
            finding.location = Some(location.0);
        });
    }

    /// Checks that `live_bytes` is the sum of the bytes of the records that words name.
    fn check_live_bytes(&mut self, segment: u32) {
        if let Some(kind) = self.confirm(|checker| checker.drift(segment)) {
            self.add(kind, |finding| finding.segment = Some(segment));
        }
    }

    fn drift(&mut self, segment: u32) -> Option<FindingKind> {
        let view = self.view;
        let described = view.unpinned().snapshot(segment)?;
        // The count does not change during a drain; a participant that checks a dead owner's
        // segment corrects the count.
        let under_way = view.shared(word::DRAINING) == u64::from(segment) + 1;
        if under_way || matches!(described.state.phase, SegmentPhase::Free | SegmentPhase::Suspect)
        {
            return None;
        }
        let walked = view.unpinned().walk(segment)?;
        let (mut named, mut last_bytes) = (0, 0);
        for scanned in &walked.records {
            let is_same = || view.unpinned().state(segment) == Some(described.state);
            let found =
                view.unpinned().copy_header(scanned.location, false, &mut self.other_key, is_same);
            let header = found.ok()?.header;
            let is_named = view.is_named(view.hash(&self.other_key), scanned.location);
            let bytes = header.record_bytes();
            named += if is_named { bytes } else { 0 };
            // The owner of an open segment may be about to publish the last record.
            let is_open_end = described.state.phase == SegmentPhase::Open
                && self.end_bytes(scanned.location, &header) >= described.filled_bytes;
            last_bytes = if is_open_end && !is_named { bytes } else { 0 };
        }
        let counted = described.live_bytes;
        (counted != named && counted != named + last_bytes)
            .then_some(FindingKind::LiveBytes { counted, named })
    }

    /// Checks that each participant has at most one open segment in each queue.
    pub(super) fn check_owners(&mut self) {
        let outside = self.view.unpinned();
        let all = 0..self.view.geometry.segment_count();
        let open: Vec<(u32, SegmentState)> = all
            .filter_map(|segment| Some((segment, outside.state(segment)?)))
            .filter(|(_, state)| state.phase == SegmentPhase::Open)
            .collect();
        for (at, &(segment, state)) in open.iter().enumerate() {
            let earlier = open[..at]
                .iter()
                .find(|(_, other)| (other.owner, other.queue) == (state.owner, state.queue));
            if let Some(&(other_segment, other)) = earlier {
                self.check_open_twice((segment, state), (other_segment, other));
            }
        }
    }

    fn check_open_twice(&mut self, one: (u32, SegmentState), other: (u32, SegmentState)) {
        let twice = self.confirm(|checker| {
            let outside = checker.view.unpinned();
            let is_open = |(segment, state)| outside.state(segment) == Some(state);
            (is_open(one) && is_open(other)).then_some(())
        });
        if twice.is_some() {
            self.add(FindingKind::OpenTwice { other_segment: other.0 }, |finding: &mut Finding| {
                finding.segment = Some(one.0);
                finding.row = one.1.owner;
            });
        }
    }
}

/// Whether a participant has ended and its row is not cleaned up yet.
pub(super) fn is_dead(listed: &Listed) -> bool {
    matches!(listed.status, ParticipantStatus::Dead | ParticipantStatus::Sweeping)
}
