//! Which segment is reclaimed next, and what becomes of its records: S3-FIFO ("FIFO queues are all
//! you need for cache eviction", SOSP '23) on whole segments.
//!
//! Decisions only. They know neither words nor bytes of a region; who calls them reads and swaps
//! the words. `bench/policy` runs the same code over traces, and docs/why/eviction.md says what
//! came out and why the rules are as they are.
//!
//! A segment belongs to one of two queues, each in the order in which its segments were sealed.
//! What is new goes to the small queue, what is known to be wanted ([`queue_for`]) to main.
//! [`choose_victim`] says which segment is drained, [`DrainPlan`] what becomes of each of its
//! records: it moves to main's open segment, or it leaves, with a ghost or without ([`ghosts`]).
//!
//! Invariants:
//! - Draining gains: of a segment of main never more is kept than [`EvictionRules::keep_percent`],
//!   and what moves before its turn is less than a hundred less [`EvictionRules::dead_percent`] of
//!   what was filled. So whoever needs a free segment gets one after a bounded number of drains, as
//!   long as the ends of segments where no record fitted any more are smaller than what is gained.
//! - What is copied of a segment is not more than it held, so one free segment in reserve is enough
//!   for each who drains.
//! - Of what is kept of a segment of main, nothing was used less than anything that leaves, by the
//!   counts of the census: hits that come in between may make it a little wrong, never more.
//! - Whatever the caller counts, each queue is drained in the order in which its segments were
//!   sealed, but for those that are stale or much of which is dead.

mod admission;
mod drain;
pub mod ghosts;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
mod victim;
mod word;

pub use admission::{KeyHistory, queue_for};
pub use drain::{DrainPlan, DrainRecord, RecordFate, UseCensus};
pub use victim::{DrainCause, SealedSegment, SegmentPool, Victim, choose_victim};

/// Uses are counted up to this: two bits of an index word.
pub const USES_MAX: u8 = 3;

/// Which queue a segment is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// What is new and has to show that it is wanted.
    Small,
    /// What was wanted.
    Main,
}

/// What may be varied. The store has [`EvictionRules::STORE`]; a simulator looks at others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRules {
    /// The small queue's share of all segments.
    pub small_percent: u32,
    /// So many uses move a record from small to main.
    pub promote_uses: u8,
    /// At most this share of a segment of main is kept when it is drained. So at most
    /// `keep / (100 - keep)` bytes are copied within main for each byte that is gained.
    pub keep_percent: u32,
    /// A segment of which more than this share is dead is drained before its turn. 100: none is.
    pub dead_percent: u32,
}

impl EvictionRules {
    /// Chosen by the figures of docs/why/eviction.md.
    pub const STORE: Self =
        Self { small_percent: 10, promote_uses: 1, keep_percent: 80, dead_percent: 20 };
}

// Nothing gets from small to main unused, and what can be counted is enough.
const _: () = assert!(EvictionRules::STORE.promote_uses >= 1);
const _: () = assert!(EvictionRules::STORE.promote_uses <= USES_MAX);
// Each drain gains something.
const _: () = assert!(EvictionRules::STORE.keep_percent < 100);
const _: () = assert!(EvictionRules::STORE.dead_percent > 0);
