//! The first word of a record: the only one that changes while the record is there.
//!
//! A mark and a copy of the record may meet. So who copies freezes first, and who finds the marks
//! frozen takes the record out of the index instead of marking it: the copy then has no word to
//! take. Both are read-modify-writes of one word, so one of the two comes first and the other one
//! sees it; that alone needs no ordering. What is carried over is published with the copy.

use forebay_sync::atomic::{AtomicU64, Relaxed};

const STALE_FROM: u64 = (1 << 40) - 1;
const SOFT: u64 = 1 << 40;
const FROZEN: u64 = 1 << 41;

/// The marks of a record at one moment.
///
/// | bits | |
/// |---|---|
/// | 0–39 | stale from this Unix second on |
/// | 40 | softly purged: to be validated before use |
/// | 41 | frozen: being copied |
/// | 42–63 | zero |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordMarks(u64);

/// Marks that nobody changes any more: to be carried over into a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the record takes no further marks"]
pub(crate) struct FrozenMarks(RecordMarks);

/// Somebody copies the record: it cannot be marked, so it has to be taken out of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlreadyFrozen;

impl RecordMarks {
    /// Of a new record. What lies beyond 40 bits is far enough away to be never.
    pub(crate) fn stale_from(seconds: u64) -> RecordMarks {
        RecordMarks(seconds.min(STALE_FROM))
    }

    pub(super) fn of(word: u64) -> RecordMarks {
        RecordMarks(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The Unix second from which on the record is stale.
    pub(crate) fn stale_from_seconds(self) -> u64 {
        self.0 & STALE_FROM
    }

    /// Was the record purged softly?
    pub(crate) fn is_soft(self) -> bool {
        self.0 & SOFT != 0
    }

    /// Is it being copied, or was it, by somebody who gave up?
    pub(crate) fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Are there bits that mean nothing?
    pub(crate) fn is_damaged(self) -> bool {
        self.0 & !(STALE_FROM | SOFT | FROZEN) != 0
    }
}

impl FrozenMarks {
    /// The marks of the copy.
    pub(crate) fn marks(self) -> RecordMarks {
        RecordMarks(self.0.0 & !FROZEN)
    }
}

/// The word itself. Who changes it has a pin on its segment, or the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarksWord<'a>(&'a AtomicU64);

impl<'a> MarksWord<'a> {
    pub(crate) fn new(word: &'a AtomicU64) -> MarksWord<'a> {
        MarksWord(word)
    }

    /// The marks as they are now.
    pub(crate) fn load(self) -> RecordMarks {
        RecordMarks(self.0.load(Relaxed))
    }

    /// Before copying, or before something else is made from the record. Two who copy the same
    /// record may both do so: the index takes one copy.
    pub(crate) fn freeze(self) -> FrozenMarks {
        FrozenMarks(RecordMarks(self.0.fetch_or(FROZEN, Relaxed)))
    }

    /// Marks the record as softly purged.
    ///
    /// # Errors
    /// It is being copied; nothing is changed.
    pub(crate) fn mark_soft(self) -> Result<(), AlreadyFrozen> {
        let mut marks = self.load();
        loop {
            if marks.is_frozen() {
                return Err(AlreadyFrozen);
            }
            match self.0.compare_exchange_weak(marks.0, marks.0 | SOFT, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => marks = RecordMarks(now),
            }
        }
    }
}
