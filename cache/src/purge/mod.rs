//! The purge ring: what was purged lately, so that nobody stores what a purge did not find.
//!
//! A purge walks over what is stored. What was fetched before it and is stored behind its back, by
//! another process perhaps, it cannot find; so whoever stores looks here. `docs/format/store.md`,
//! "Purges", describes the bytes.
//!
//! | who | does |
//! |---|---|
//! | purge, under the purge lock | [`PurgeRing::announce`]: slot, `purge_seq`, fence |
//! | purge; of many keys without the lock | walks: takes out what matches, unchecked words too |
//! | | acknowledges |
//! | fill | [`PurgeRing::noted`], then asks the origin |
//! | | publishes unchecked, fence |
//! | | [`PurgeRing::check`]: makes it live, or withdraws it |
//! | follower | finds a flight: [`PurgeRing::is_newer`] than what its leader noted? |
//!
//! So either the walk finds the word, or the fill finds the purge.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `purge_seq` | who holds the purge lock | all |
//! | a slot | who holds the purge lock, before `purge_seq` | who checks, who repeats |
//!
//! A slot is written over by the purge that comes one ring later. Who reads it meanwhile reads
//! anything; so who has read looks at `purge_seq` again: if as many purges are newer than what it
//! noted as the ring holds, it counts as purged. That is raised before the slot is touched.
//!
//! A purger may die anywhere. Nothing that it did was acknowledged. If it had the purge lock, the
//! next owner repeats the walk of the [last](PurgeRing::last) purge before its own, if that was of
//! one key, and finds:
//!
//! | died | `purge_seq` | slot of n + 1 | what the next owner does |
//! |---|---|---|---|
//! | while it wrote the slot | n | torn | repeats the walk of n; writes the slot anew |
//! | at `purge.written` | n | whole | the same: this purge never was |
//! | at `purge.announced` | n + 1 | whole | walks for n + 1 in its place |
//! | in the walk, or after it | n + 1 | whole | walks for n + 1 again |
//!
//! What a purge of many keys had not reached stays stored until somebody purges again.
//!
//! A torn slot is read by nobody: it was that of a purge one ring back, and for whom that one would
//! be newer, as many are newer as the ring holds.
//!
//! Invariants:
//! - More may go than was purged, never less: what is damaged is a purge of everything.
//! - A number is never given twice to purges that somebody may have seen.
//! - Nothing here waits, and nothing that is read from shared words can cause a panic.

mod predicate;
mod ring;
mod soft;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub(crate) use predicate::Predicate;
pub(crate) use ring::{PURGE_SEQ_WORD, PurgeRing, PurgeVerdict, slots_for, words_needed};
pub(crate) use soft::soften;
