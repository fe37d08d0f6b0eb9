//! Ghosts in the region: traces of keys that were evicted from the small queue unused.
//!
//! A response whose key has a ghost enters the main queue. [`ghosts`](crate::policy::ghosts)
//! describes a word of the table. Concurrent writers may lose a ghost, which costs a hit.

use forebay_shm::Area;
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::layout::word;
use super::reclaim::EvictionGuard;
use crate::index::KeyHash;
use crate::policy::EvictionRules;
use crate::policy::ghosts::{GhostSlot, GhostTime};

/// The table of ghosts, and its clock.
#[derive(Clone, Debug)]
pub(crate) struct GhostTable {
    ghosts: Area,
    /// The number of words of the table, a power of two.
    word_count: usize,
    /// The area whose word `SMALL_DRAINED` is the clock.
    store: Area,
    /// The number of segments in the main queue. A ghost is valid until this many more segments
    /// were drained from the small queue.
    main_segment_count: u64,
}

impl GhostTable {
    pub(crate) fn new(
        ghosts: Area,
        word_count: usize,
        store: Area,
        segment_count: u32,
    ) -> GhostTable {
        assert!(word_count.is_power_of_two(), "the word count of a ghost table is a power of two");
        let main_percent = u64::from(100 - EvictionRules::STORE.small_percent);
        let main_segment_count = u64::from(segment_count) * main_percent / 100;
        GhostTable { ghosts, word_count, store, main_segment_count }
    }

    /// Adds the ghost of a key that is evicted from the small queue.
    pub(crate) fn note(&self, hash: KeyHash) {
        let slot = GhostSlot::of(hash.value(), self.word_count);
        let word = self.ghosts.word(slot.word);
        word.store(slot.noted(word.load(Relaxed), self.time()), Relaxed);
    }

    /// Removes the ghost of a key. Returns whether there was one that was still valid.
    pub(crate) fn take(&self, hash: KeyHash) -> bool {
        let slot = GhostSlot::of(hash.value(), self.word_count);
        let word = self.ghosts.word(slot.word);
        let Some(rest) = slot.taken(word.load(Relaxed), self.time()) else {
            return false;
        };
        word.store(rest, Relaxed);
        true
    }

    /// Advances the clock: a segment of the small queue is drained.
    pub(super) fn count_small_drained(&self, _: &EvictionGuard<'_>) {
        let drained = self.clock();
        drained.store(drained.load(Relaxed) + 1, Relaxed);
    }

    fn time(&self) -> GhostTime {
        GhostTime::new(self.clock().load(Relaxed), self.main_segment_count)
    }

    fn clock(&self) -> &AtomicU64 {
        self.store.word(word::SMALL_DRAINED)
    }
}
