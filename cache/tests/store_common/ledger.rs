//! The versions of a record that may be found, shared by all actors.
//!
//! One actor at a time stores a key. So a completely stored version ends all older versions, and a
//! purge ends all versions whose fetch began before the purge. A version that has ended must not be
//! found.

use std::sync::atomic::Ordering::SeqCst;

use forebay_sync::Words;
use forebay_sync::atomic::AtomicU64;

/// The number of values of a key with variants. A key without variants has only the first value.
/// The last value belongs to a response that does not vary.
pub(crate) const VALUES: u32 = 4;

/// The value that stands for a response that does not vary, under a key that also has variants.
pub(crate) const PLAIN: u32 = VALUES - 1;

/// The ledger in shared words: two words for each value of a key.
#[derive(Clone)]
pub(crate) struct Ledger<W> {
    words: W,
    first: usize,
}

impl<W: Words> Ledger<W> {
    pub(crate) fn words_needed(keys: u32) -> usize {
        (keys * VALUES) as usize * 2
    }

    /// Makes a ledger in words that are initially zero, beginning at the word with index `first`.
    pub(crate) fn new(words: W, first: usize) -> Ledger<W> {
        Ledger { words, first }
    }

    fn word(&self, key: u32, value: u32, which: usize) -> &AtomicU64 {
        self.words.word(self.first + (key * VALUES + value) as usize * 2 + which)
    }

    /// The newest version whose fetch has begun.
    pub(crate) fn begun(&self, key: u32, value: u32) -> u32 {
        self.word(key, value, 0).load(SeqCst) as u32
    }

    /// Announces that a version is going to be stored. Called when the fetch of the version begins,
    /// so that a purge that has seen the version may end it.
    pub(crate) fn begin(&self, key: u32, value: u32, version: u32) {
        self.word(key, value, 0).store(version.into(), SeqCst);
    }

    /// The oldest version that may be found.
    pub(crate) fn oldest(&self, key: u32, value: u32) -> u32 {
        self.word(key, value, 1).load(SeqCst) as u32
    }

    /// Ends all older versions.
    pub(crate) fn end_before(&self, key: u32, value: u32, version: u32) {
        self.word(key, value, 1).fetch_max(version.into(), SeqCst);
    }
}
