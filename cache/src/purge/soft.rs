//! A soft purge marks what is stored and lets it stay. Who makes a new record from a stored one (a
//! new head for the same body) must not lose the mark:
//!
//! - Who purges: makes itself known, fence, marks the old one; if that is frozen, takes its word
//!   out.
//! - Who makes a new record: freezes the marks of the old one, fence, looks for newer purges; if
//!   there is none, swaps the word of the old one for its own.
//!
//! If the mark came first the purge is found. If the freeze came first, the purger takes the old
//! one out, and there is nothing to swap; or it finds the swap done, looks again, and marks the
//! new one.

use forebay_sync::Words;
use forebay_sync::atomic::acquire_fence;

use super::predicate::Predicate;
use super::ring::{PurgeRing, PurgeVerdict};
use crate::index::{IndexWord, WordState};
use crate::segment::MarksWord;

impl<W: Words> PurgeRing<W> {
    /// For who makes a new record from the one with these marks, before it swaps the word: is a
    /// purge about it that is newer than what was noted? The old one takes no marks from now on.
    pub(crate) fn freeze_and_check(
        &self,
        marks: MarksWord<'_>,
        noted: u64,
        matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> PurgeVerdict {
        let _ = marks.freeze();
        // ORDER: pairs with the fence "purge.walk" in `announce`. Who purges softly makes itself
        // known, then marks; we freeze, then look. If we froze behind the mark we see the purge.
        acquire_fence("purge.frozen");
        self.check(noted, matches)
    }
}

/// The walk of a soft purge is at a record: marks it, if it may stay. It has to go while somebody
/// makes another one from it, and while readers do not find it yet: who fetched it may have looked
/// for purges before this one.
pub(crate) fn soften(word: IndexWord, marks: MarksWord<'_>) -> bool {
    word.state() == WordState::Live && marks.mark_soft().is_ok()
}
