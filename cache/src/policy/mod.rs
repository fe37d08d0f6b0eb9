//! Eviction: the choice of the segment to reclaim next, and the fate of its records. The policy is
//! S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP '23), applied to whole
//! segments.
//!
//! This module only decides. It does not access the region: its callers load and swap the words.
//! `bench/policy` runs the same code over traces. docs/why/eviction.md gives the results and the
//! reasons for the rules.
//!
//! A segment belongs to one of two queues, small and main. Each queue is in the order in which its
//! segments were sealed. A new record goes to the small queue, or to main if its key is known to be
//! requested again ([`queue_for`]). [`choose_victim`] chooses the segment to drain. [`DrainPlan`]
//! decides for each of its records whether the record moves to main's open segment or is evicted,
//! with a ghost or without one ([`ghosts`]).
//!
//! Invariants:
//! - Draining gains memory after a bounded number of drains, so a thread that needs a free segment
//!   gets one, as long as the unused ends of segments are smaller than the gain. At most
//!   [`EvictionRules::keep_percent`] percent of a segment of the main queue stays, and less than
//!   100 − [`EvictionRules::dead_percent`] percent of the filled bytes of a segment that is drained
//!   early. A segment of the small queue may move to the main queue as a whole; but then the small
//!   queue is shorter, and soon a segment of the main queue is drained.
//! - A drain copies at most as many bytes as the segment held, so one free segment in reserve is
//!   enough for each draining thread.
//! - No record that is evicted from main was used more often than one that stays, by the use counts
//!   of the census. Hits after the census may change this.
//! - Each queue is drained in the order in which its segments were sealed, except for segments that
//!   are stale or mostly dead.

mod drain;
pub mod ghosts;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
mod victim;
mod word;

pub use drain::{DrainPlan, DrainRecord, RecordFate, UseCensus};
pub use victim::{DrainCause, SealedSegment, SegmentPool, Victim, choose_victim};

/// The highest use count. An index word has two bits for the use count.
pub const USES_MAX: u8 = 3;

/// The queue of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// New records, which are not known to be requested more than once.
    Small,
    /// Records that were used, or whose keys are known to be requested again.
    Main,
}

/// The history of a key at the time at which a record of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHistory {
    /// Nothing is known.
    Unknown,
    /// A record of the key was evicted from the small queue recently.
    Ghost,
    /// The record replaces another one.
    Replacement,
}

/// The queue of a new record: the main queue if its key is known to be requested more than once. A
/// record that is replaced was requested just now, so replacement counts as a use.
pub fn queue_for(known: KeyHistory) -> Queue {
    match known {
        KeyHistory::Unknown => Queue::Small,
        KeyHistory::Ghost | KeyHistory::Replacement => Queue::Main,
    }
}

/// The parameters of the policy. The store uses [`EvictionRules::STORE`]; simulators vary them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRules {
    /// The share of all segments that the small queue may have, in percent. Beyond it, the small
    /// queue is drained first.
    pub small_percent: u32,
    /// The least use count with which a record moves from the small queue to the main queue when
    /// its segment is drained.
    pub promote_uses: u8,
    /// At most this share of a segment of the main queue stays when the segment is drained, in
    /// percent. So at most `keep / (100 - keep)` bytes are copied within the main queue for each
    /// byte that is gained.
    pub keep_percent: u32,
    /// A segment is drained early if more than this share of its filled bytes is dead, in percent.
    /// With 100 no segment is drained early.
    pub dead_percent: u32,
}

impl EvictionRules {
    /// The values follow from the figures in docs/why/eviction.md.
    pub const STORE: Self =
        Self { small_percent: 10, promote_uses: 1, keep_percent: 80, dead_percent: 20 };
}

// No unused record moves from small to main, and the use count can reach the threshold.
const _: () = assert!(EvictionRules::STORE.promote_uses >= 1);
const _: () = assert!(EvictionRules::STORE.promote_uses <= USES_MAX);
// Each drain of a segment of main, and each early drain, gains memory.
const _: () = assert!(EvictionRules::STORE.keep_percent < 100);
const _: () = assert!(EvictionRules::STORE.dead_percent > 0);
