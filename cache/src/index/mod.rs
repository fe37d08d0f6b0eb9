//! The index of the store: it finds the record of a key.
//!
//! It consists of buckets of words, which docs/format/store.md describes. A key has two buckets and
//! a fingerprint. A word with that fingerprint in one of these buckets may name the key's record; a
//! comparison of the whole key decides. The record of a word may be reclaimed at any time, so every
//! thread pins the record's segment and loads the word again before it reads the record:
//!
//! | reader | thread that swaps a word | reclaimer |
//! |---|---|---|
//! | loads a word (a hint) | loads a word (a hint) | removes every word of the segment |
//! | pins its segment, barrier | pins its segment, barrier | barrier |
//! | loads again (acquire), compares | loads again (acquire), compares | checks that no pin is up |
//! | compares the key, reads | compares the key, swaps | reuses the segment |
//! | lowers the pin | lowers the pin | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | a word that is empty | inserters | all threads |
//! | a word of a record | inserters, movers, removers, evicters; readers count uses | all threads |
//!
//! Every write is a compare-and-swap. The writer has the segment of the named record pinned, owns
//! it as an open segment, or is reclaiming it.
//!
//! Invariants:
//! - A word never moves to another slot; a record is named by at most one word.
//! - A word that a thread swaps still names the record that this thread compared. The pin prevents
//!   reuse of the segment, so an equal word cannot name another record.
//! - If two inserters make records of a key live, one of the records is removed before the later
//!   inserter returns, unless an inserter dies. The inserters never remove both.
//! - The contract of [`Index::new`] says what words, rows of pins and segments guarantee each
//!   other.
//! - A remover whose swap fails loads the word again. So it misses no record that moves, becomes
//!   live, or is counted as used.

#![allow(unsafe_code)] // `Index::new` is unsafe, and its contract covers all methods.

mod change;
mod insert;
mod key;
mod lookup;
mod records;
mod table;
mod verified;
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
#[cfg_attr(loom, allow(unused_imports))] // Its users are a model and the store.
pub(crate) use verified::VerifiedSlots;
pub use word::{IndexWord, SIZE_CLASS_MAX, USE_MAX, WordState, size_class, size_class_bytes_min};
