//! Pins: a reader keeps memory from being reused, and writes no line that another one writes.
//!
//! A table of counts, a row for each reader and a column for each piece of memory (a segment). Only
//! a row's owner stores into it, with plain loads and stores. What a reader reads is named by a
//! word that others may take out:
//!
//! | reader | reclaimer |
//! |---|---|
//! | loads the word (a hint) | takes out every word that names the memory |
//! | raises its count | [`Pins::barrier`] |
//! | light barrier | looks at the column of all rows |
//! | loads the word again (acquire): still there? | all zero: publishes it anew (release) |
//! | reads the memory | |
//! | lowers its count (release) | |
//!
//! Either the reader sees that the word is gone, or the reclaimer sees the count. A word that comes
//! back with the same value is no harm: it names what was published with it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `pins[row][column]` | the row's owner; after its end, who clears the row | owner, reclaimer |
//!
//! The words that name memory are the caller's; that it loads them again with acquire, and
//! publishes them with release, is its part of the protocol.
//!
//! Invariants:
//! - A count is never lowered below zero and never wraps.
//! - Once the words are out and the barrier is done, a column seen empty stays empty for all who
//!   look the word up. So a later look needs no second barrier.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{NotPinned, PIN_COUNT_MAX, Pin, PinRow};
pub use table::Pins;
