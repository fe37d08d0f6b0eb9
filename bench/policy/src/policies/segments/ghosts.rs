//! The table of ghosts.

use forebay_cache::policy::ghosts::{GHOSTS_PER_WORD, GhostSlot, GhostTime};

use super::Config;
use crate::simulate::mix;

pub(super) struct Ghosts {
    words: Vec<u64>,
    /// The number of segments that were ever drained from the small queue.
    pub(super) evicted: u64,
    /// The number of later drains that a ghost outlasts.
    lasts: u64,
}

impl Ghosts {
    pub(super) fn new(budget_bytes: u64, config: &Config) -> Self {
        let words = budget_bytes / config.bytes_per_ghost / GHOSTS_PER_WORD as u64;
        let lasts = u64::from(config.segments * config.ghosts_percent / 100);
        Self { words: vec![0; words.max(1).next_power_of_two() as usize], evicted: 0, lasts }
    }

    pub(super) fn note(&mut self, record: u32) {
        let trace = self.trace(record);
        self.words[trace.word] = trace.noted(self.words[trace.word], self.time());
    }

    pub(super) fn take(&mut self, record: u32) -> bool {
        let trace = self.trace(record);
        let Some(word) = trace.taken(self.words[trace.word], self.time()) else {
            return false;
        };
        self.words[trace.word] = word;
        true
    }

    fn time(&self) -> GhostTime {
        GhostTime::new(self.evicted, self.lasts)
    }

    fn trace(&self, record: u32) -> GhostSlot {
        GhostSlot::of(mix(u64::from(record)), self.words.len())
    }
}
