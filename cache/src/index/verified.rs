//! The progress of the check of records that were in the index before this process attached to it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `end` | the thread that verifies | lookups |
//!
//! Words keep their slots, so one slot describes the progress: the records of all slots below it
//! are verified.

use forebay_sync::atomic::{AtomicU64, acquire, release};

/// The slots whose records are verified, or were published by a live process: those below `end`.
#[derive(Debug)]
pub(crate) struct VerifiedSlots {
    end: AtomicU64,
}

impl VerifiedSlots {
    /// Returns the progress before the check: no slot is verified.
    pub(crate) fn none() -> VerifiedSlots {
        VerifiedSlots { end: AtomicU64::new(0) }
    }

    /// Returns the progress after the check: no slot needs to be verified any more.
    pub(crate) fn all() -> VerifiedSlots {
        VerifiedSlots { end: AtomicU64::new(u64::MAX) }
    }

    /// The end of the verified slots. A lookup loads this number before it loads a word. So a word
    /// that it finds in a verified slot is not the word of a damaged record.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // ORDER: pairs with the release in `set_end`: words that were removed before are gone.
        self.end.load(acquire("index.verified"))
    }

    /// Extends the verified slots, whose damaged records this thread has removed.
    pub(crate) fn set_end(&self, end: u64) {
        // ORDER: pairs with the acquire in `end`.
        self.end.store(end, release("index.verify"));
    }
}
