//! What is varied.

use forebay_cache::policy::Rules;

/// A form of the store.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) rules: Rules,
    /// Of the whole budget.
    pub(crate) segments: u32,
    /// Who each have an open segment in either queue.
    pub(crate) workers: u32,
    /// Segments that stay free.
    pub(crate) reserve: u32,
    /// One ghost for so many bytes of budget.
    pub(crate) bytes_per_ghost: u64,
    /// A ghost counts until this share of all segments was drained out of small after it.
    pub(crate) ghosts_percent: u32,
    /// A record takes at most one part of so many of a segment.
    pub(crate) fragment_part: u64,
    /// What replaces a record goes to main.
    pub(crate) inherits: bool,
}

/// Records are not longer than this where segments are large.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

impl Config {
    /// As the store is built, at its coarsest: one worker, and the 64 segments that it aims at. Less
    /// than 64 segments of 64 KiB are for memory of less than 4 MiB.
    pub(crate) const STORE: Self = Self {
        rules: Rules::STORE,
        segments: 64,
        workers: 1,
        reserve: 1,
        bytes_per_ghost: 1024,
        ghosts_percent: 90,
        fragment_part: 8,
        inherits: true,
    };

    /// What a record takes at most.
    pub(crate) fn record_bytes_max(&self, segment_bytes: u64) -> u32 {
        RECORD_BYTES_MAX.min(segment_bytes / self.fragment_part).max(1024) as u32
    }
}
