//! The purge ring, which holds the recent purges. Each fill checks the ring before it makes a
//! response live, so that it stores no purged response.
//!
//! A purge walks over the stored records. It cannot find a response that was fetched before the
//! purge and is stored after the walk has passed, perhaps by another process. So every fill checks
//! the ring. `docs/format/store.md`, "Purges", describes the bytes.
//!
//! | actor | does |
//! |---|---|
//! | purger, under the purge lock | [`PurgeRing::announce`]: slot, `purge_seq`, fence |
//! | purger (without the lock if for many keys) | removes all matches, also unchecked words |
//! | | acknowledges the purge |
//! | fill | [`PurgeRing::noted`], then asks the origin |
//! | | publishes its word as unchecked, fence |
//! | | [`PurgeRing::check`]; then makes the word live, or withdraws it |
//! | follower | joins, unless [`PurgeRing::is_newer`] for the number that the leader noted |
//!
//! So either the purge's walk finds the fill's word, or the fill finds the purge.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `purge_seq` | holder of the purge lock | all |
//! | a slot | holder of the purge lock, before `purge_seq` | fills, repeaters of a purge |
//! | the last purge of a site | holder of the purge lock, before `purge_seq` | fills |
//!
//! A slot is reused by a later purge, whose number is higher by the number of slots. A fill that
//! reads the slot while it is overwritten may read any mixture of the two purges. So the fill loads
//! `purge_seq` again afterwards, which is raised before the slot is overwritten the next time. If
//! at least as many purges are newer than the noted one as the ring has slots, the fill cannot
//! check them all. Then its record counts as purged if the last purge of its site is newer than
//! the noted one. So the purges of one site do not keep the responses of others from being stored.
//!
//! A purger may die at any instruction; then it has not acknowledged its purge. If it held the
//! purge lock, the next owner reads the [last](PurgeRing::last) purge before it announces its own.
//! If that is a purge of one key, the next owner repeats its walk:
//!
//! | death of the purger of n + 1 | `purge_seq` | slot of n + 1 | the next owner |
//! |---|---|---|---|
//! | while it writes the slot | n | torn | repeats the walk for n; rewrites the slot |
//! | at `purge.written` | n | complete | the same: purge n + 1 never happened |
//! | at `purge.announced` | n + 1 | complete | walks for n + 1 |
//! | in its walk, or after it | n + 1 | complete | walks for n + 1 again |
//!
//! After the death of the purger of many keys, the records that its walk had not reached stay
//! stored until a later purge matches them.
//!
//! No fill relies on a torn slot. Before, the slot held the purge whose number is lower by the
//! number of slots. A fill that has to check that purge sees as many newer purges as the ring has
//! slots, so it does not rely on the slot.
//!
//! Invariants:
//! - A purge may remove more records than requested, but never fewer: damage counts as a purge of
//!   everything.
//! - No two purges get the same number if the first of them may have been seen.
//! - No function of this module waits, and no value of a shared word causes a panic.

mod predicate;
mod ring;
mod sites;
mod soft;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub(crate) use predicate::{OwnedPredicate, Predicate};
pub(crate) use ring::{PURGE_SEQ_WORD, PurgeRing, PurgeVerdict, slots_for, words_needed};
pub(crate) use soft::soften;
