//! The words of a shard, and what may be said of it by who has not its lock.

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};

use crate::object::{LIST_WORDS, follow};

/// Read by every reader, and written seldom: a line.
pub(crate) const ROOT: usize = 0;
/// Rises every 2^20 changes, and far when a chunk is claimed.
pub(crate) const EPOCH: usize = 1;
/// Not zero, once the budget was full: readers mark what they use.
pub(crate) const IS_FULL: usize = 2;
/// Bytes that the map may take; 0: no limit.
pub(crate) const BUDGET: usize = 3;
/// Where the map's buckets begin among those of the region, and how many they are; fixed when the
/// map is made.
pub(crate) const HINTS: usize = 4;
pub(crate) const HINT_BUCKETS: usize = 5;

/// Odd while a change is being published, and another number after each: who finds the same even
/// number knows that all ways through the tree are what they were. Read with each step of a cursor.
pub(crate) const TURN: usize = 8;

/// Written with every change.
pub(crate) const LOCK: usize = 16;
pub(crate) const SEQUENCE: usize = 17;
pub(crate) const LEN: usize = 18;
pub(crate) const HAND: usize = 19;
pub(crate) const EVICTED: usize = 20;
pub(crate) const REPAIRED: usize = 21;
pub(crate) const LIMBO_COUNT: usize = 22;
pub(crate) const LIMBO_HINT: usize = 23;
/// How many leases held when limbo was last reclaimed.
pub(crate) const LIMBO_KEPT: usize = 24;
/// For how many changes somebody waited for the lock, since there were `WAITS_SINCE` of them.
pub(crate) const WAITS: usize = 25;
pub(crate) const WAITS_SINCE: usize = 26;
/// Into which of the map's shards entries are moved until both have as many; 0: none.
pub(crate) const SPLIT_TO: usize = 27;
/// Not zero while entries are moved from here or to here: twice the version in which the bound goes
/// over them, plus one in the upper shard of both.
pub(crate) const MOVING: usize = 28;
/// How many entries are here then.
pub(crate) const LEN_MOVED: usize = 29;

/// What is being changed.
pub(crate) const STATE: usize = 32;
pub(crate) const SLOT: usize = 33;
pub(crate) const NEW: usize = 35;
pub(crate) const OLD_ENTRY: usize = 36;
pub(crate) const LEN_AFTER: usize = 37;
pub(crate) const NEWS_COUNT: usize = 38;
pub(crate) const OLDS_COUNT: usize = 39;
pub(crate) const NEWS: usize = 40;
/// More than a change of the highest tree makes or frees.
pub(crate) const INTENT_MAX: usize = if cfg!(loom) { 4 } else { 96 };
pub(crate) const OLDS: usize = NEWS + INTENT_MAX;

pub(crate) const LISTS: usize = OLDS + INTENT_MAX + 8;
pub(crate) const LIMBO: usize = (LISTS + LIST_WORDS).next_multiple_of(16);

/// Entries that wait until one look at the leases serves them all.
pub(crate) const LIMBO_BATCH: usize = if cfg!(loom) { 1 } else { 64 };
/// Room in limbo beside what leases can hold.
pub(crate) const LIMBO_SPARE: usize = 2 * LIMBO_BATCH;

/// Changes in an epoch.
pub(crate) const EPOCH_CHANGES: u64 = 1 << 20;
/// A reader that sees more epochs pass begins again: before a generation comes round.
pub(crate) const EPOCHS_MAX: u64 = 32;

/// Words of a shard whose participants can hold so many leases together.
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

    /// The number of the turn.
    #[inline]
    pub(crate) fn turn(self) -> u64 {
        // ORDER: pairs with `ordmap.turn`: whose turn this is, that one's change is seen.
        self.0[TURN].load(acquire("ordmap.look"))
    }

    /// Says that something is about to be published.
    pub(crate) fn begin_turn(self) {
        // The release of the publication follows: who sees what is published sees this.
        let odd = self.load(TURN) | 1;
        // ORDER: pairs with `ordmap.look`, too: who sees that this turn has begun sees what the
        // turns before it have published.
        self.0[TURN].store(odd, release("ordmap.turning"));
    }

    /// Says that it is.
    pub(crate) fn end_turn(self) {
        let next = (self.load(TURN) | 1).wrapping_add(1);
        // ORDER: pairs with `ordmap.look`.
        self.0[TURN].store(next, release("ordmap.turn"));
    }

    /// Was nothing published since the turn had this number, until what was [followed] last?
    ///
    /// [followed]: crate::object::follow
    #[inline]
    pub(crate) fn is_turn(self, turn: u64) -> bool {
        turn.is_multiple_of(2) && self.load(TURN) == turn
    }

    /// Is the tree empty, and was it all the time since it was in the turn of this number? In one
    /// turn no more than one thing is published: so it was not filled and emptied again.
    #[inline]
    pub(crate) fn is_empty_since(self, turn: u64) -> bool {
        // Who sees an emptied tree sees that its turn had begun.
        follow(self.word(ROOT)).is_none() && self.load(TURN) == turn
    }

    pub(crate) fn lists(self) -> &'a [AtomicU64] {
        &self.0[LISTS..][..LIST_WORDS]
    }

    pub(crate) fn limbo(self) -> &'a [AtomicU64] {
        &self.0[LIMBO..]
    }
}
