//! What is varied.

use forebay_cache::evict_segments::Rules;
use forebay_cache::evict_segments::ghosts::GHOSTS_PER_WORD;

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
    /// A record's body is at most one part of so many of a segment.
    pub(crate) fragment_part: u64,
    /// What replaces a record goes to main.
    pub(crate) inherits: bool,
}

/// Longer bodies are fragments, if segments are large enough.
const FRAGMENT_BYTES_MAX: u64 = 64 * 1024;

impl Config {
    /// As the store is built, at its coarsest: one worker, as few segments as a budget is ever
    /// divided into.
    pub(crate) const STORE: Self = Self {
        rules: Rules::STORE,
        segments: 64,
        workers: 1,
        reserve: 1,
        bytes_per_ghost: 1024,
        fragment_part: 8,
        inherits: true,
    };

    pub(crate) fn fragment_bytes(&self, segment_bytes: u64) -> u32 {
        FRAGMENT_BYTES_MAX.min(segment_bytes / self.fragment_part).max(1024) as u32
    }
}

/// Words of the table of ghosts.
pub(crate) fn ghost_words(budget_bytes: u64, config: &Config) -> usize {
    let words = budget_bytes / config.bytes_per_ghost / GHOSTS_PER_WORD as u64;
    words.max(1).next_power_of_two() as usize
}
