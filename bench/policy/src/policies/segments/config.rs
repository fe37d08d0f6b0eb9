//! The parameters that sweeps vary.

use forebay_cache::policy::EvictionRules;

/// A configuration of the segments.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) rules: EvictionRules,
    /// The number of segments in the whole budget.
    pub(crate) segments: u32,
    /// The number of workers. Each has one open segment in each of the two queues.
    pub(crate) workers: u32,
    /// The number of segments that stay free for each worker.
    pub(crate) reserve_each: u32,
    /// The bytes of budget for each ghost.
    pub(crate) bytes_per_ghost: u64,
    /// The life of a ghost in drained segments of the small queue, as a percentage of all segments.
    pub(crate) ghosts_percent: u32,
    /// A fragment is at most a segment divided by this number.
    pub(crate) fragment_part: u64,
    /// Whether a record that replaces another goes to main.
    pub(crate) inherits: bool,
}

/// How bodies are divided into records.
pub(crate) struct Division {
    /// The largest body that is stored in one record.
    pub(crate) whole_bytes_max: u32,
    pub(crate) fragment_bytes: u32,
}

impl Config {
    /// The store's configuration for one worker: 64 to 127 segments, and fewer only below 4 MiB of
    /// memory.
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

    /// The number of segments that stay free.
    pub(crate) fn reserve(&self) -> u32 {
        (self.workers * self.reserve_each).min(self.segments / 4)
    }

    /// How the store divides bodies with segments of this size.
    pub(crate) fn division(&self, segment_bytes: u64) -> Division {
        let part = |of: u64, most: u64| (segment_bytes / of).min(most).max(1024) as u32;
        Division {
            whole_bytes_max: part(4, 64 * 1024),
            fragment_bytes: part(self.fragment_part, 256 * 1024),
        }
    }
}
