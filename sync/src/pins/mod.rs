//! Pins: a reader keeps memory from reuse and writes no line that another reader writes.
//!
//! Pins are a table of counts, with a row for each reader and a column for each piece of memory (a
//! segment). Only a row's owner stores into it, with plain loads and stores. A reader finds the
//! memory through a word that names it, which other threads may remove:
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
//! Either the reader sees that the word is gone, or the reclaimer sees the count. A word that
//! returns with the same value is harmless: it names the memory that was published with it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `pins[row][column]` | the row's owner; the thread that clears a dead row | owner, reclaimer |
//!
//! The words that name memory belong to the caller; loading them again with acquire and publishing
//! them with release is the caller's part of the protocol.
//!
//! Invariants:
//! - A count is never lowered below zero and never wraps.
//! - Once the words are removed and the barrier is done, a column that was seen empty stays empty
//!   for all readers that look the word up. So a later look needs no second barrier.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{NotPinned, PIN_COUNT_MAX, Pin, PinRow};
pub use table::Pins;
