//! Checks of the words of the index, and of the records that they name.

use super::checker::Checker;
use crate::index::{BUCKET_WORDS, IndexWord, WordState, size_class};
use crate::segment::{
    CopyError, Location, SEQUENCE_MAX, ScannedRecord, SegmentPhase, SegmentSnapshot,
};
use crate::store::layout::word;
use crate::tool::finding::FindingKind;
use crate::tool::view::{ATTEMPTS_MAX, RegionAccess};

/// A word, its record, and the fault of the word or of the record, if there is one.
#[derive(Clone, Debug)]
pub(super) struct CheckedWord {
    pub(super) word: IndexWord,
    /// `None` if there is no record, or if its segment cannot be read.
    pub(super) scanned: Option<ScannedRecord>,
    fault: Option<FindingKind>,
}

impl<R: RegionAccess> Checker<'_, R> {
    /// Checks the word in a slot.
    pub(super) fn check_word(&mut self, slot: usize) {
        let Some(seen) = self.read_slot(slot) else {
            return;
        };
        self.report.word_count += 1;
        if seen.fault.is_some() {
            self.report_fault(slot, &seen);
            return;
        }
        let Some(scanned) = seen.scanned else {
            self.report.passed_over_count += 1;
            return;
        };
        self.report.record_bytes += scanned.header.record_bytes();
        if seen.word.state() != WordState::Live {
            self.report.unchecked_count += 1;
            return;
        }
        self.report.live_count += 1;
        self.check_related(slot, &seen.word, &scanned);
    }

    /// Reports the fault of a word if it persists.
    fn report_fault(&mut self, slot: usize, first: &CheckedWord) {
        let fault = self.confirm(|checker| {
            let seen = checker.read_slot(slot)?;
            (seen.word.is_same_record(first.word)).then_some(seen.fault?)
        });
        if let Some(kind) = fault {
            self.add_record(kind, slot, first.word);
        }
    }

    /// Reads a slot until its word stays the same. `None` if the word is empty or never stays the
    /// same. Leaves the key of the record in `key`, if there is a record.
    fn read_slot(&mut self, slot: usize) -> Option<CheckedWord> {
        for _ in 0..ATTEMPTS_MAX {
            let word = self.view.word(slot);
            if word.is_empty() {
                return None;
            }
            if let Some(seen) = self.read_word(slot, word) {
                return Some(seen);
            }
        }
        self.report.passed_over_count += 1;
        None
    }

    /// Reads the record of a word; `None` if the word has changed.
    fn read_word(&mut self, slot: usize, word: IndexWord) -> Option<CheckedWord> {
        self.key.clear();
        let (scanned, fault) = self.look_at(slot, word)?;
        let is_there = self.view.word(slot).is_same_record(word);
        is_there.then_some(CheckedWord { word, scanned, fault })
    }

    /// The record of a word, and the fault of the word or of the record; `None` if the word has to
    /// be read again.
    fn look_at(
        &mut self,
        slot: usize,
        word: IndexWord,
    ) -> Option<(Option<ScannedRecord>, Option<FindingKind>)> {
        if !word.is_in_memory() {
            return Some((None, Some(FindingKind::WordState)));
        }
        let Some(segment) = self.view.geometry.segment_of(Location(word.location())) else {
            return Some((None, Some(FindingKind::NoSegment)));
        };
        let Some(before) = self.view.unpinned().state(segment) else {
            // The segment has a fault, which `segments.rs` reports.
            return Some((None, None));
        };
        let mut key = std::mem::take(&mut self.key);
        let glimpsed = self.view.copy_header((slot, word), self.is_deep, &mut key);
        self.key = key;
        // The segment was free before the word was read and after it, with the same generation. So
        // the word named no record then: a participant that opens a segment and gives it back has
        // published nothing.
        let is_free = before.phase == SegmentPhase::Free
            && glimpsed != Err(CopyError::Gone)
            && self.view.unpinned().state(segment) == Some(before);
        if is_free {
            return Some((None, Some(FindingKind::FreeSegment)));
        }
        match glimpsed {
            Ok(scanned) => {
                let fault = self.fault_of(slot, word, &scanned, segment);
                Some((Some(scanned), fault))
            }
            Err(CopyError::Damaged(damage)) => {
                Some((None, Some(FindingKind::NoRecord { why: damage.why.text() })))
            }
            Err(CopyError::BadChecksum) => Some((None, Some(FindingKind::Checksum))),
            Err(CopyError::Gone) => None,
        }
    }

    /// The first fault of a word and its record, whose key is in `key`.
    fn fault_of(
        &mut self,
        slot: usize,
        word: IndexWord,
        scanned: &ScannedRecord,
        segment: u32,
    ) -> Option<FindingKind> {
        let hash = self.view.hash(&self.key);
        let buckets = hash.buckets(self.view.bucket_count);
        if !buckets.contains(&(slot / BUCKET_WORDS)) || hash.fingerprint() != word.fingerprint() {
            return Some(FindingKind::OtherKey);
        }
        let expected = size_class(scanned.header.record_bytes() as u32);
        if word.size_class() != expected {
            return Some(FindingKind::SizeClass { found: word.size_class(), expected });
        }
        if scanned.marks.is_damaged() {
            return Some(FindingKind::Marks);
        }
        // The counter is loaded after the record. It only grows, so the record's sequence cannot be
        // higher.
        let sequence = scanned.header.sequence;
        if sequence > self.view.shared(word::SEQUENCE).min(SEQUENCE_MAX) {
            return Some(FindingKind::Sequence { sequence });
        }
        if let Some(described) = self.view.unpinned().snapshot(segment)
            && let Some(fault) = self.fault_of_location(scanned, segment, &described)
        {
            return Some(fault);
        }
        match word.state() {
            WordState::Live => self.duplicate(slot, word, scanned),
            _ => self
                .is_published(scanned.location, &scanned.header)
                .then_some(FindingKind::Unchecked),
        }
    }

    /// Checks that a word may name a location in this segment.
    fn fault_of_location(
        &self,
        scanned: &ScannedRecord,
        segment: u32,
        described: &SegmentSnapshot,
    ) -> Option<FindingKind> {
        if described.state.phase == SegmentPhase::Draining {
            // A draining segment was drained, unless `DRAINING` names it. `filled_bytes` is cleared
            // before it is freed.
            let under_way = self.view.shared(word::DRAINING);
            return (under_way != u64::from(segment) + 1).then_some(FindingKind::DrainedSegment);
        }
        let end_bytes = self.end_bytes(scanned.location, &scanned.header);
        (described.filled_bytes < end_bytes).then_some(FindingKind::NotFilled)
    }

    /// Finds another live record of the same key in a later slot, if both publishers have moved on.
    fn duplicate(
        &mut self,
        slot: usize,
        word: IndexWord,
        scanned: &ScannedRecord,
    ) -> Option<FindingKind> {
        let hash = self.view.hash(&self.key);
        let mut other_key = std::mem::take(&mut self.other_key);
        let found = self.view.slots(hash).filter(|other| *other > slot).find_map(|other| {
            let other_word = self.view.word(other);
            if !other_word.is_live_of(word.fingerprint()) {
                return None;
            }
            let glimpsed =
                self.view.copy_header((other, other_word), false, &mut other_key).ok()?;
            let is_twice = other_key == self.key
                && self.is_published(scanned.location, &scanned.header)
                && self.is_published(glimpsed.location, &glimpsed.header)
                // Both words are loaded again afterwards: the other word here, the checked word by
                // the caller.
                && self.view.word(other).is_same_record(other_word);
            is_twice.then_some(FindingKind::Duplicate { other_location: other_word.location() })
        });
        self.other_key = other_key;
        found
    }
}
