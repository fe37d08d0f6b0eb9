//! Ghosts of records that left the small queue unused: a tag of the hash of the key and the time of
//! the eviction, two ghosts per word. So lookup, insertion and removal are each one load and one
//! store.
//!
//! Time is counted in segments that were evicted from the small queue. A ghost lasts until as many
//! segments as main holds were evicted after it. Without this limit the size of the table would
//! decide how long a ghost lasts. That suits small records; with large ones the table would
//! remember far too many keys, and main would fill with records that are not requested.
//!
//! ```text
//!  63      48 47      32 31      16 15       0
//! |  left    |   tag    |  left    |   tag    |     a tag is never zero
//!        older                 newer
//! ```
//!
//! Racing writers may lose a ghost, which costs one hit. A tag may also be that of another key, in
//! one lookup of 32,768.

/// The ghosts in a word.
pub const GHOSTS_PER_WORD: usize = 2;

const GHOST_BITS: u32 = 32;
const LEFT_BITS: u32 = 16;
/// A ghost lasts at most about this many steps of time. The time wraps around after 64 times as
/// many; a ghost that is still there then counts as young again.
const STEPS: u64 = 1 << 10;

/// The current time for ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostTime {
    step: u16,
    steps_max: u16,
}

impl GhostTime {
    /// `evicted` is the number of segments that were ever drained from the small queue; a ghost
    /// lasts until `lasts` more were drained.
    pub fn new(evicted: u64, lasts: u64) -> Self {
        let unit = lasts.div_ceil(STEPS).max(1);
        Self { step: (evicted / unit) as u16, steps_max: (lasts / unit) as u16 }
    }
}

/// The slot of a key's ghost in a table of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostSlot {
    /// The index of the word.
    pub word: usize,
    tag: u16,
}

impl GhostSlot {
    /// The slot of the key with this hash, in a table of `words`, a power of two up to 2^48.
    pub fn of(hash: u64, words: usize) -> Self {
        let word = hash as usize & (words - 1);
        // Other bits than those that choose the word; else all tags of a word would be equal.
        let tag = (hash >> 48).max(1) as u16;
        Self { word, tag }
    }

    /// The word with this ghost added as the newer one.
    #[must_use]
    pub fn noted(self, word: u64, time: GhostTime) -> u64 {
        let ghost = u64::from(time.step) << LEFT_BITS | u64::from(self.tag);
        let [newer, older] = halves(word);
        let second = if self.is(newer) { older } else { newer };
        second << GHOST_BITS | ghost
    }

    /// The word without this ghost; `None` if it is absent or too old.
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
