//! The index of the store: it finds the record of a key.
//!
//! It consists of buckets of words, which docs/format/store.md describes. A key has two buckets and
//! a fingerprint; a word with that fingerprint in one of the buckets names its record. The record
//! of a word may be reclaimed at any time, so every thread pins the record's segment before it
//! reads, and loads the word again:
//!
//! | reader | thread that swaps a word | reclaimer |
//! |---|---|---|
//! | loads a word (a hint) | the same | removes every word of the segment |
//! | pins its segment, barrier | the same | barrier |
//! | loads again (acquire), compares | the same | checks that there are no pins |
//! | compares the key, reads | compares the key, swaps | reuses the segment |
//! | lowers the pin | the same | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | an empty word | inserters | all |
//! | another word | inserters, movers, removers, evicters; readers, to count uses | all |
//!
//! Every write is a compare-and-swap. The writer has the segment of the named record pinned, or
//! owns it open.
//!
//! Invariants:
//! - A word never moves to another slot; a record is named by at most one word.
//! - A word that is swapped still names the record that its thread compared: the pin prevents reuse
//!   of the segment, and so another record under an equal word.
//! - Of two live records of a key one is removed before the later insert returns, if neither
//!   inserter dies. Never both.
//! - The contract of [`Index::new`] says what words, rows of pins and segments guarantee each
//!   other.
//! - A thread whose removal or swap fails loads the word again. So no remover misses a record that
//!   moves, becomes live, or is counted as used.

#![allow(unsafe_code)] // The contract is that of the constructor.

mod change;
mod insert;
mod key;
mod lookup;
mod records;
mod table;
mod word;

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use insert::{InsertError, InsertRequest, UncheckedWord};
pub use key::{IndexKey, KeyHash};
pub use records::{IndexHit, PinnedLocation, Records, RemovalReason};
pub use table::{BUCKET_WORDS, Index, IndexError, words_needed};
pub use word::{IndexWord, SIZE_CLASS_MAX, USE_MAX, WordState, size_class, size_class_bytes_min};
