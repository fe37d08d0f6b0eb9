//! The words of a shard, and the checks that need no lock.

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};

use crate::object::{LIST_WORDS, follow};

/// The slot of the root, on a cache line that every reader reads and that is rarely written.
pub(crate) const ROOT: usize = 0;
/// The epoch: rises by one every 2^20 changes, and by more than [`EPOCHS_MAX`] when a chunk is
/// claimed.
pub(crate) const EPOCH: usize = 1;
/// Not zero once an eviction was necessary; from then on readers set use bits.
pub(crate) const IS_FULL: usize = 2;
/// The most bytes that the map may take; 0 if there is no limit.
pub(crate) const BUDGET: usize = 3;
/// The map's first bucket among the buckets of the region, and its number of buckets; fixed when
/// the map is created.
pub(crate) const HINTS: usize = 4;
pub(crate) const HINT_BUCKETS: usize = 5;

/// Odd while a change is being published, and a new number after each change: a reader that finds
/// the same even number twice knows that all paths through the tree are unchanged. A cursor reads
/// it at each step.
pub(crate) const TURN: usize = 8;

/// The lock, on a cache line that every change writes.
pub(crate) const LOCK: usize = 16;
pub(crate) const SEQUENCE: usize = 17;
pub(crate) const LEN: usize = 18;
pub(crate) const HAND: usize = 19;
pub(crate) const EVICTED: usize = 20;
pub(crate) const REPAIRED: usize = 21;
pub(crate) const LIMBO_COUNT: usize = 22;
pub(crate) const LIMBO_HINT: usize = 23;
/// The number of entries that leases held at the last reclaim.
pub(crate) const LIMBO_KEPT: usize = 24;
/// The number of changes for which writers waited for the lock, since `SEQUENCE` was `WAITS_SINCE`.
pub(crate) const WAITS: usize = 25;
pub(crate) const WAITS_SINCE: usize = 26;
/// The slot of the shard into which entries of this shard are moved until both have equally many; 0
/// if no split is in progress.
pub(crate) const SPLIT_TO: usize = 27;
/// Not zero while entries are moved from or to this shard: twice the version that moves the bound
/// over them, plus one in the upper of the two shards.
pub(crate) const MOVING: usize = 28;
/// The number of entries in this shard after the move.
pub(crate) const LEN_MOVED: usize = 29;

/// The state of the intent.
pub(crate) const STATE: usize = 32;
pub(crate) const SLOT: usize = 33;
pub(crate) const NEW: usize = 35;
pub(crate) const OLD_ENTRY: usize = 36;
pub(crate) const LEN_AFTER: usize = 37;
pub(crate) const NEWS_COUNT: usize = 38;
pub(crate) const OLDS_COUNT: usize = 39;
pub(crate) const NEWS: usize = 40;
/// The largest number of objects that a change may make, and that it may free. A change of the
/// highest tree needs fewer.
pub(crate) const INTENT_MAX: usize = if cfg!(loom) { 4 } else { 96 };
pub(crate) const OLDS: usize = NEWS + INTENT_MAX;

pub(crate) const LISTS: usize = OLDS + INTENT_MAX + 8;
pub(crate) const LIMBO: usize = (LISTS + LIST_WORDS).next_multiple_of(16);

/// The number of entries that are added to limbo before all leases are read for them.
pub(crate) const LIMBO_BATCH: usize = if cfg!(loom) { 1 } else { 64 };
/// The number of places in limbo beyond those for the entries that leases can hold.
pub(crate) const LIMBO_SPARE: usize = 2 * LIMBO_BATCH;

/// The number of changes after which the epoch rises.
pub(crate) const EPOCH_CHANGES: u64 = 1 << 20;
/// The most epochs that may pass during a read. After more epochs the reader starts again, before a
/// generation can wrap around.
pub(crate) const EPOCHS_MAX: u64 = 32;

/// The number of words of a shard whose participants can hold this many leases together.
pub(crate) const fn words_needed(leases: usize) -> usize {
    (LIMBO + leases + LIMBO_SPARE).next_multiple_of(16)
}

/// The words of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardWords<'a>(pub(crate) &'a [AtomicU64]);

impl<'a> ShardWords<'a> {
    #[inline]
    pub(crate) fn word(self, index: usize) -> &'a AtomicU64 {
        &self.0[index]
    }

    #[inline]
    pub(crate) fn load(self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    pub(crate) fn store(self, index: usize, value: u64) {
        self.0[index].store(value, Relaxed);
    }

    /// The current turn.
    #[inline]
    pub(crate) fn turn(self) -> u64 {
        // ORDER: pairs with `ordmap.turn`: in an even turn the change before it is visible.
        self.0[TURN].load(acquire("ordmap.look"))
    }

    /// Announces a publication.
    pub(crate) fn begin_turn(self) {
        // The publication that follows is a release store: a reader that sees it also sees the odd
        // turn.
        let odd = self.load(TURN) | 1;
        // ORDER: pairs with `ordmap.look`, too: a reader that sees this turn begin sees the
        // publications of the turns before it.
        self.0[TURN].store(odd, release("ordmap.turning"));
    }

    /// Ends the turn after the publication.
    pub(crate) fn end_turn(self) {
        let next = (self.load(TURN) | 1).wrapping_add(1);
        // ORDER: pairs with `ordmap.look`.
        self.0[TURN].store(next, release("ordmap.turn"));
    }

    /// Whether nothing was published from the load of this turn until the last slot that was
    /// [followed].
    ///
    /// [followed]: crate::object::follow
    #[inline]
    pub(crate) fn is_turn(self, turn: u64) -> bool {
        turn.is_multiple_of(2) && self.load(TURN) == turn
    }

    /// Whether the tree is empty, and was so ever since this turn was loaded. A turn publishes no
    /// more than one change, so the tree was not filled and emptied again.
    #[inline]
    pub(crate) fn is_empty_since(self, turn: u64) -> bool {
        // A reader that sees an emptied tree sees that its turn had begun.
        follow(self.word(ROOT)).is_none() && self.load(TURN) == turn
    }

    pub(crate) fn lists(self) -> &'a [AtomicU64] {
        &self.0[LISTS..][..LIST_WORDS]
    }

    pub(crate) fn limbo(self) -> &'a [AtomicU64] {
        &self.0[LIMBO..]
    }
}
