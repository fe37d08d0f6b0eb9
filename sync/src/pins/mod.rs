//! Pins: a reader keeps memory from being reused, without writing to a cache line that another
//! reader writes.
//!
//! Pins are a table of counts, with a row for each reader and a column for each piece of memory (a
//! segment). Only the owner of a row changes its counts, so a load and a store suffice. A reader
//! finds the memory through a word that names it. Other threads may remove this word:
//!
//! | reader | reclaimer |
//! |---|---|
//! | loads the word (a hint) | removes every word that names the memory |
//! | raises its count | [`Pins::barrier`] |
//! | light barrier | reads the column of all rows |
//! | loads the word again (acquire) and compares | all zero: publishes the memory again (release) |
//! | reads the memory | |
//! | lowers its count (release) | |
//!
//! Either the reader sees that the word is gone, or the reclaimer sees the count. It does no harm
//! if the word is removed and then stored again with the same value: it names the memory that was
//! published with it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `pins[row][column]` | the row's owner; the thread that clears a dead row | owner, reclaimer |
//!
//! The words that name memory belong to the caller. The caller loads them again with acquire, and
//! publishes them with release.
//!
//! Invariants:
//! - A count is never lowered below zero and never wraps.
//! - Once the words are removed and the barrier has been executed, no new pin of the column
//!   succeeds. So a reclaimer that finds a column pinned may look again later without a second
//!   barrier.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{NotPinned, PIN_COUNT_MAX, Pin, PinRow};
pub use table::Pins;
