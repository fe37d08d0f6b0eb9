//! Ghosts of records that were evicted from the small queue unused. A ghost is a tag of the hash of
//! the key and the time of the eviction. A word holds two ghosts, so lookup, insertion and removal
//! each take one load and at most one store.
//!
//! Time is counted in segments that were drained from the small queue. A ghost lasts until as many
//! more segments were drained as the main queue holds. Without this limit, the size of the table
//! would decide how long ghosts last. That suits small records. With large records the table would
//! remember far too many keys, and the main queue would fill with records that are not requested.
//!
//! ```text
//!  63      48 47      32 31      16 15       0
//! |  time    |   tag    |  time    |   tag    |     a tag is never zero
//!        older                 newer
//! ```
//!
//! Concurrent writers may lose a ghost, which costs one hit. A lookup may also find a ghost of
//! another key with the same tag: at most about one lookup in 32,768.

/// The number of ghosts in a word.
pub const GHOSTS_PER_WORD: usize = 2;

const GHOST_BITS: u32 = 32;
const LEFT_BITS: u32 = 16;
/// A ghost lasts about this many steps of time at most. The time wraps around after 64 times as
/// many steps; a ghost that still exists then counts as young again.
const STEPS: u64 = 1 << 10;

/// The current time for ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostTime {
    step: u16,
    steps_max: u16,
}

impl GhostTime {
    /// Makes the time at which `evicted` segments in total have been drained from the small queue.
    /// A ghost lasts until `lasts` more segments were drained.
    pub fn new(evicted: u64, lasts: u64) -> Self {
        let unit = lasts.div_ceil(STEPS).max(1);
        Self { step: (evicted / unit) as u16, steps_max: (lasts / unit) as u16 }
    }
}

/// The word of a table that a key's ghost is in, and the tag of the ghost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostSlot {
    /// The index of the word.
    pub word: usize,
    tag: u16,
}

impl GhostSlot {
    /// The slot of the key with this hash, in a table of `words` words: a power of two up to 2^48.
    pub fn of(hash: u64, words: usize) -> Self {
        let word = hash as usize & (words - 1);
        // The tag is not made of the bits that choose the word; otherwise all tags in a word would
        // be equal.
        let tag = (hash >> 48).max(1) as u16;
        Self { word, tag }
    }

    /// Returns `word` with this ghost added as the newer one.
    #[must_use]
    pub fn noted(self, word: u64, time: GhostTime) -> u64 {
        let ghost = u64::from(time.step) << LEFT_BITS | u64::from(self.tag);
        let [newer, older] = halves(word);
        let second = if self.is(newer) { older } else { newer };
        second << GHOST_BITS | ghost
    }

    /// Returns `word` without this ghost; `None` if the ghost is absent or too old.
    pub fn taken(self, word: u64, time: GhostTime) -> Option<u64> {
        let [newer, older] = halves(word);
        let counts = |ghost| self.is(ghost) && is_young(ghost, time);
        if counts(newer) {
            Some(older)
        } else if counts(older) {
            Some(newer)
        } else {
            None
        }
    }

    fn is(self, ghost: u64) -> bool {
        ghost as u16 == self.tag
    }
}

fn halves(word: u64) -> [u64; 2] {
    [word & u64::from(u32::MAX), word >> GHOST_BITS]
}

fn is_young(ghost: u64, time: GhostTime) -> bool {
    let left = (ghost >> LEFT_BITS) as u16;
    time.step.wrapping_sub(left) <= time.steps_max
}
