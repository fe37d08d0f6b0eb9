//! The purge ring: the recent purges, with which fills check that they store no purged response.
//!
//! A purge walks over the stored records. It cannot find a response that was fetched before it and
//! is stored behind its walk, perhaps by another process. So every fill checks the ring.
//! `docs/format/store.md`, "Purges", describes the bytes.
//!
//! | actor | does |
//! |---|---|
//! | purger, under the purge lock | [`PurgeRing::announce`]: slot, `purge_seq`, fence |
//! | purger; for many keys without the lock | walks and removes matches, unchecked words too |
//! | | acknowledges |
//! | fill | [`PurgeRing::noted`], then asks the origin |
//! | | publishes unchecked, fence |
//! | | [`PurgeRing::check`]: makes it live, or withdraws it |
//! | follower | joins, unless [`PurgeRing::is_newer`] by the number that the leader noted |
//!
//! So either the walk finds the word, or the fill finds the purge.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `purge_seq` | holder of the purge lock | all |
//! | a slot | holder of the purge lock, before `purge_seq` | fills, repeaters of a purge |
//!
//! The purge that comes one ring later overwrites a slot. A concurrent reader may read anything
//! from it. So a reader loads `purge_seq` again afterwards: if as many purges are newer than the
//! noted one as the ring holds, the record counts as purged. `purge_seq` is raised before the slot
//! is overwritten for the next time.
//!
//! A purger may die at any instruction; nothing that it did was acknowledged then. If it held the
//! purge lock, the next owner repeats the walk of the [last](PurgeRing::last) purge before its own,
//! if that was of one key, and finds:
//!
//! | death | `purge_seq` | slot of n + 1 | the next owner |
//! |---|---|---|---|
//! | while writing the slot | n | torn | repeats the walk of n; rewrites the slot |
//! | at `purge.written` | n | complete | the same: this purge never happened |
//! | at `purge.announced` | n + 1 | complete | walks for n + 1 in its place |
//! | in the walk, or after it | n + 1 | complete | walks for n + 1 again |
//!
//! The records that a purge of many keys had not reached stay until the next purge of them.
//!
//! No fill uses a torn slot. Before, the slot held the purge of one ring earlier. A fill for which
//! that purge is newer already sees as many newer purges as the ring holds, so its record counts as
//! purged.
//!
//! Invariants:
//! - A purge may remove more than was asked for, never less: damage counts as a purge of
//!   everything.
//! - No number is given to two purges if the first may have been seen.
//! - Nothing here waits, and no shared word can cause a panic.

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
