//! Traces of records that left the small queue unused: tags of their keys' hashes with the time at
//! which they left, two to a word, so that looking, noting and forgetting are each one load and one
//! store.
//!
//! Time is how much was evicted from the small queue: a ghost counts as long as not more than main
//! holds went the same way after it. Without the time the table's size would decide, which is made
//! for small records: with large ones it would remember far too much, and main would fill with
//! what nobody wants.
//!
//! ```text
//!  63      48 47      32 31      16 15       0
//! |  left    |   tag    |  left    |   tag    |     a tag is never zero
//!        older                 newer
//! ```
//!
//! Writers that meet may lose a ghost, which costs a hit and nothing else. A tag may also be that
//! of another key: for one lookup in 32,768.

/// Ghosts in a word.
pub const GHOSTS_PER_WORD: usize = 2;

const GHOST_BITS: u32 = 32;
const LEFT_BITS: u32 = 16;
/// Ghosts count for about so many steps of time at most. After 64 times as many time comes round
/// again, and what nobody wrote over is taken for young once more.
const STEPS: u64 = 1 << 10;

/// What time it is for ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostTime {
    step: u16,
    steps_max: u16,
}

impl GhostTime {
    /// `evicted` is the number of segments that were ever drained out of the small queue; a ghost
    /// counts until `lasts` more of them were.
    pub fn new(evicted: u64, lasts: u64) -> Self {
        let unit = lasts.div_ceil(STEPS).max(1);
        Self { step: (evicted / unit) as u16, steps_max: (lasts / unit) as u16 }
    }
}

/// Where the ghost of a key is, in a table of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostSlot {
    /// Which word.
    pub word: usize,
    tag: u16,
}

impl GhostSlot {
    /// That of the key with this hash, in a table of `words`, a power of two up to 2^48.
    pub fn of(hash: u64, words: usize) -> Self {
        let word = hash as usize & (words - 1);
        // Not the bits that choose the word, else all tags of a word were alike.
        let tag = (hash >> 48).max(1) as u16;
        Self { word, tag }
    }

    /// The word with this ghost as its newer one.
    #[must_use]
    pub fn noted(self, word: u64, time: GhostTime) -> u64 {
        let ghost = u64::from(time.step) << LEFT_BITS | u64::from(self.tag);
        let [newer, older] = halves(word);
        let second = if self.is(newer) { older } else { newer };
        second << GHOST_BITS | ghost
    }

    /// The word without this ghost; none if it is not there or too old.
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
