//! Soft purges. A soft purge marks records and leaves them stored. A thread that replaces a stored
//! record by one that is derived from it (with a new head for the same body) must not lose the
//! mark:
//!
//! - The purger announces the purge, executes a fence, and marks the old record. If the marks of
//!   that record are frozen, the purger removes the record's word instead.
//! - The replacing thread freezes the marks of the old record, executes a fence, and checks for
//!   newer purges. If there is none, it swaps the word of the old record for that of the new one.
//!
//! If the mark came first, the check finds the purge. If the freeze came first, there are two
//! cases: the purger removes the old word, and the swap fails; or the purger finds that the word
//! was swapped, loads the word again, and marks the new record.

use forebay_sync::Words;
use forebay_sync::atomic::acquire_fence;

use super::predicate::Predicate;
use super::ring::{PurgeRing, PurgeVerdict};
use crate::index::{IndexWord, WordState};
use crate::segment::MarksWord;

impl<W: Words> PurgeRing<W> {
    /// Freezes the marks of a record and checks for purges since `noted`, for a thread that is
    /// about to replace the record of this primary key or of a variant of it. From now on no purge
    /// can mark the record.
    pub(crate) fn freeze_and_check(
        &self,
        marks: MarksWord<'_>,
        noted: u64,
        primary: &[u8],
        matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> PurgeVerdict {
        let _ = marks.freeze();
        // ORDER: pairs with the fence "purge.walk" in `announce`. A soft purge announces itself,
        // then marks; we freeze, then check. If we froze after the mark, we see the purge.
        acquire_fence("purge.frozen");
        self.check(noted, primary, matches)
    }
}

/// Marks a record for a soft purge. Returns false if the caller has to remove the record instead.
/// The record cannot be marked while another record may be derived from it, or if it is not live,
/// since its fill may have checked for purges before this purge.
pub(crate) fn soften(word: IndexWord, marks: MarksWord<'_>) -> bool {
    word.state() == WordState::Live && marks.mark_soft().is_ok()
}
