//! The marks of a record: its first word, and the only one that changes after the record was
//! published.
//!
//! A mark and a copy of the record may race. So a copier freezes the marks first, and a purger that
//! finds them frozen removes the record from the index instead of marking it: then the copy has no
//! word to replace. Marking and freezing are read-modify-writes of one word, so the later of the
//! two sees the earlier one without any ordering. The copied marks are published with the copy.

use forebay_sync::atomic::{AtomicU64, Relaxed};

const STALE_FROM: u64 = (1 << 40) - 1;
const SOFT: u64 = 1 << 40;
const FROZEN: u64 = 1 << 41;

/// The marks of a record at one moment.
///
/// | bits | |
/// |---|---|
/// | 0–39 | the Unix second from which the record is stale |
/// | 40 | softly purged: to be validated before use |
/// | 41 | frozen: being copied |
/// | 42–63 | zero |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordMarks(u64);

/// Marks that cannot change any more, to be carried over into a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a record with frozen marks can no longer be marked"]
pub(crate) struct FrozenMarks(RecordMarks);

/// The record is being copied: it cannot be marked, so it has to be removed from the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlreadyFrozen;

impl RecordMarks {
    /// The marks of a new record. A time beyond 40 bits is so far away that it means never.
    pub(crate) fn stale_from(seconds: u64) -> RecordMarks {
        RecordMarks(seconds.min(STALE_FROM))
    }

    pub(super) fn of(word: u64) -> RecordMarks {
        RecordMarks(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The Unix second from which the record is stale.
    pub(crate) fn stale_from_seconds(self) -> u64 {
        self.0 & STALE_FROM
    }

    /// Whether the record was softly purged.
    pub(crate) fn is_soft(self) -> bool {
        self.0 & SOFT != 0
    }

    /// Whether the record is being copied, or a copy of it was given up.
    pub(crate) fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Whether unused bits are set.
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

/// The marks of a record in shared memory. A thread that changes them has the record's segment
/// pinned, owns the segment, or reclaims it.
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

    /// Freezes the marks before the record is copied or replaced by one that is derived from it.
    /// Two threads that copy the same record may both freeze its marks: the index accepts only one
    /// of the copies.
    pub(crate) fn freeze(self) -> FrozenMarks {
        FrozenMarks(RecordMarks(self.0.fetch_or(FROZEN, Relaxed)))
    }

    /// Marks the record as softly purged.
    ///
    /// # Errors
    /// The record is being copied. Nothing is changed.
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
