//! The parameters that sweeps vary.

use forebay_cache::policy::EvictionRules;

/// A form of the store.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) rules: EvictionRules,
    /// Of the whole budget.
    pub(crate) segments: u32,
    /// Each worker has an open segment in either queue.
    pub(crate) workers: u32,
    /// Segments that stay free, for each worker.
    pub(crate) reserve_each: u32,
    /// One ghost for so many bytes of budget.
    pub(crate) bytes_per_ghost: u64,
    /// A ghost counts until this share of all segments was drained out of small after it.
    pub(crate) ghosts_percent: u32,
    /// A fragment is at most one part of so many of a segment.
    pub(crate) fragment_part: u64,
    /// Whether a record that replaces another goes to main.
    pub(crate) inherits: bool,
}

/// How bodies are divided into records.
pub(crate) struct Division {
    /// Up to this a body lies in one record.
    pub(crate) whole_bytes_max: u32,
    pub(crate) fragment_bytes: u32,
}

impl Config {
    /// As the store is built, with one worker: 64 to 127 segments, less only if memory is below
    /// 4 MiB.
    pub(crate) const STORE: Self = Self {
        rules: EvictionRules::STORE,
        segments: 64,
        workers: 1,
        reserve_each: 2,
        bytes_per_ghost: 1024,
        ghosts_percent: 90,
        fragment_part: 8,
        inherits: true,
    };

    /// Segments that stay free.
    pub(crate) fn reserve(&self) -> u32 {
        (self.workers * self.reserve_each).min(self.segments / 4)
    }

    /// As the store divides bodies with segments of this size.
    pub(crate) fn division(&self, segment_bytes: u64) -> Division {
        let part = |of: u64, most: u64| (segment_bytes / of).min(most).max(1024) as u32;
        Division {
            whole_bytes_max: part(4, 64 * 1024),
            fragment_bytes: part(self.fragment_part, 256 * 1024),
        }
    }
}
