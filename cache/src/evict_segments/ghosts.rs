//! Traces of records that left the small queue unused: short tags of their keys' hashes, four to a
//! word, so that looking, noting and forgetting are each one load and one store.
//!
//! A word is a queue of its own: the lowest 16 bits are the newest tag, zero is none, and what is
//! pushed out at the top is forgotten. Writers that meet may lose a ghost, which costs a hit and
//! nothing else. A tag may also be that of another key: for one in 16,384 lookups.

/// Tags in a word.
pub const GHOSTS_PER_WORD: usize = 4;

const TAG_BITS: u32 = 16;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Where the ghost of a key is, in a table of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Which word.
    pub word: usize,
    tag: u64,
}

impl Trace {
    /// That of the key with this hash, whose lower bits also choose the bucket of the index; in a
    /// table of `words`, a power of two up to 2^48.
    pub fn of(hash: u64, words: usize) -> Self {
        let word = hash as usize & (words - 1);
        // The tag's bits are not those that choose the word, else all tags of a word were alike.
        let tag = (hash >> (64 - TAG_BITS)).max(1);
        Self { word, tag }
    }

    /// The word with this ghost as its newest; the oldest is forgotten.
    #[must_use]
    pub fn noted(self, word: u64) -> u64 {
        self.taken(word).unwrap_or(word) << TAG_BITS | self.tag
    }

    /// The word without this ghost; none if it is not there.
    pub fn taken(self, word: u64) -> Option<u64> {
        let tags = (0..GHOSTS_PER_WORD as u32).map(|place| place * TAG_BITS);
        let at = tags.into_iter().find(|at| word >> at & TAG_MASK == self.tag)?;
        let newer = word & ((1 << at) - 1);
        let older = (word >> at >> TAG_BITS) << at;
        Some(older | newer)
    }
}
