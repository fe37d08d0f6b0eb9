//! A shard: a tree, its memory, and one writer at a time.
//!
//! Invariants:
//! - Only the owner of the shard's lock changes its tree, its chunks and its limbo.
//! - Between two changes the intent is idle, and every object that is taken is named by the tree or
//!   waits in limbo.

mod audit;
mod evict;
mod grow;
mod intent;
mod limbo;
mod moving;
mod shrink;
pub(crate) mod words;
mod writer;

#[cfg(all(test, loom))]
mod loom_tests;

pub(crate) use audit::{AuditReport, audit};
pub(crate) use intent::{ChangeError, is_idle, repair};
pub(crate) use limbo::Limbo;
#[cfg(test)]
pub(crate) use moving::MOVED_AT_ONCE;
pub(crate) use moving::{NeighbourShards, is_moving, settle_move, shown_len};
pub(crate) use words::{
    BUDGET, EPOCH, EPOCHS_MAX, EVICTED, HINT_BUCKETS, HINTS, IS_FULL, LEN, LIMBO_BATCH,
    LIMBO_COUNT, LIMBO_SPARE, LOCK, REPAIRED, ROOT, SEQUENCE, SPLIT_TO, ShardWords, WAITS,
    WAITS_SINCE, words_needed,
};
pub(crate) use writer::{KeyPosition, ShardWriter};
