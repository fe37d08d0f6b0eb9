//! The index of the store: which record is the one of a key.
//!
//! Buckets of words, as docs/format/store.md describes them. A key has two buckets and a
//! fingerprint; a record of it is found by a word with that fingerprint in one of them. What a word
//! names may be reclaimed at any time, so everybody pins before reading, and looks again:
//!
//! | reader | who swaps a word | reclaimer |
//! |---|---|---|
//! | loads a word (a hint) | the same | takes out every word of the segment |
//! | pins its segment, barrier | the same | barrier |
//! | loads again (acquire): the same? | the same | looks at the pins: none? |
//! | compares the key, reads | compares the key, swaps | uses the segment again |
//! | lowers the pin | the same | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | an empty word | who inserts | all |
//! | another word | who inserts, moves, replaces, removes, evicts; readers count uses in it | all |
//!
//! Every write is a compare-and-swap, under a pin on what the word names or by who has that
//! segment open.
//!
//! Invariants:
//! - A word never goes to another slot; a record is named by at most one word.
//! - Every word that is swapped for another is still what its owner compared: the pin keeps its
//!   segment from coming back with another record under the same word.
//! - Of two live records of a key one is taken out before the later insert returns, if neither
//!   inserter dies. Never both.
//! - What words, rows of pins and segments promise each other is the contract of [`Index::new`].
//! - Who takes a word out or swaps it, and fails, reads it again. So no remover passes over a
//!   record that moves, becomes live, or is counted as used.

#![allow(unsafe_code)] // What words and pins promise each other: the constructor's contract.

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
pub use key::{Key, KeyHash};
pub use records::{Hit, PinnedLocation, Records, RemovalReason};
pub use table::{BUCKET_WORDS, Index, IndexError, words_needed};
pub use word::{IndexWord, SIZE_CLASS_MAX, USE_MAX, WordState, size_class, size_class_bytes_min};
