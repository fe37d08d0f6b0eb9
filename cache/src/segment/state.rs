//! The state of a segment at one moment: one word and its bits.

/// The number of words that a segment has in the segment table.
pub(crate) const SEGMENT_WORDS: usize = 8;

/// The indexes of a segment's words.
pub(super) mod word {
    pub(crate) const STATE: usize = 0;
    pub(crate) const ORDER: usize = 1;
    pub(crate) const FILLED_BYTES: usize = 2;
    pub(crate) const LIVE_BYTES: usize = 3;
    pub(crate) const EXPIRES: usize = 4;
    pub(crate) const RECORDS_BYTES: usize = 5;
}

/// The largest number of rows for participants: the state word has 16 bits for the owner's row, and
/// one value means that there is no owner.
pub(crate) const ROWS_MAX: u32 = u16::MAX as u32;

/// The phase of a segment's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPhase {
    /// The segment has no owner, and no word names a record in it.
    Free = 0,
    /// The owner of the segment appends records.
    Open = 1,
    /// The segment is complete, and no more records are appended.
    Sealed = 2,
    /// The words of the segment's records are being removed or have been removed; readers may still
    /// pin the segment.
    Draining = 3,
    /// The segment was open when its owner died, and must be checked. Its owner, if any, is the
    /// participant that checks it.
    Suspect = 4,
}

/// The eviction queue that a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentQueue {
    /// The queue of new records.
    Small = 0,
    /// The queue of records that were used, or that replace another record.
    Main = 1,
}

/// The state of a segment.
///
/// | bits | meaning |
/// |---|---|
/// | 0–2 | phase |
/// | 3 | queue; 0 while free |
/// | 8–23 | row + 1 of the owner that appends to it (open) or checks it (suspect); else 0 |
/// | 32–63 | generation: the number of times that the segment was freed, modulo 2^32 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentState {
    pub(crate) phase: SegmentPhase,
    pub(crate) queue: SegmentQueue,
    /// The row of the owner; only an open or suspect segment has one.
    pub(crate) owner: Option<u32>,
    pub(crate) generation: u32,
}

impl SegmentState {
    /// The same state in another phase, without an owner.
    pub(super) fn with(self, phase: SegmentPhase) -> SegmentState {
        let queue = if phase == SegmentPhase::Free { SegmentQueue::Small } else { self.queue };
        SegmentState { phase, queue, owner: None, ..self }
    }

    /// Whether the segment was open when its owner died, so that its records must be checked.
    pub(crate) fn is_suspect(self) -> bool {
        self.phase == SegmentPhase::Suspect
    }

    pub(super) fn word(self) -> u64 {
        let owner = self.owner.map_or(0, |row| u64::from(row) + 1);
        let low = self.phase as u64 | (self.queue as u64) << 3 | owner << 8;
        low | u64::from(self.generation) << 32
    }

    /// Decodes a word; `None` if it encodes no state.
    pub(super) fn of(word: u64) -> Option<SegmentState> {
        let phase = match word & 7 {
            0 => SegmentPhase::Free,
            1 => SegmentPhase::Open,
            2 => SegmentPhase::Sealed,
            3 => SegmentPhase::Draining,
            4 => SegmentPhase::Suspect,
            _ => return None,
        };
        let queue = if word & 8 == 0 { SegmentQueue::Small } else { SegmentQueue::Main };
        let owner = (word >> 8 & 0xffff) as u32;
        let state = SegmentState {
            phase,
            queue,
            owner: owner.checked_sub(1),
            generation: (word >> 32) as u32,
        };
        let is_whole = state.word() == word;
        let is_owned = match phase {
            SegmentPhase::Open => state.owner.is_some(),
            SegmentPhase::Suspect => true,
            SegmentPhase::Free | SegmentPhase::Sealed | SegmentPhase::Draining => {
                state.owner.is_none()
            }
        };
        let is_queued = phase != SegmentPhase::Free || queue == SegmentQueue::Small;
        (is_whole && is_owned && is_queued).then_some(state)
    }
}
