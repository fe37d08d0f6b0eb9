//! Leases: a participant keeps single values from being reclaimed, across calls.
//!
//! A table of slots, a row for each participant. A slot in use holds a *place*: a number that names
//! the value for all participants (its offset in a region), never zero. Only a row's owner stores
//! into it. These are hazard pointers (Michael, IEEE TPDS 2004) whose slots have an owner, so that
//! those of a dead one can be cleared.
//!
//! | holder | reclaimer |
//! |---|---|
//! | finds the place (a hint) | unlinks the value |
//! | stores it into a slot (release) | [`Leases::barrier`] |
//! | light barrier | reads all slots of all rows |
//! | is the value linked there still? | not among them: frees it |
//! | reads the value, as long as it likes | |
//! | clears the slot (release) | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `leases[row][slot]` | the row's owner; after its end, who clears the row | owner, reclaimer |
//!
//! How they differ from [pins](crate::pins): a pin is a column for each piece of memory, so it
//! costs nothing to look at one piece and a word for each row and piece to have them; a lease names
//! any place, a row has few, and the reclaimer reads all of them. A participant that is stopped,
//! or that never answers, keeps at most the values that its slots name.
//!
//! **A pin may become a lease**: with a pin up nothing can be reclaimed, so the value needs no
//! second look, `take(place, || true)`; then the pin is lowered. A reclaimer of memory that both
//! protect looks *at the pins first, then at the leases*: the other way round it misses one that
//! moves from the pin to the lease between its two looks.
//!
//! Invariants:
//! - A slot is zero, or names a place that its owner holds or is about to look at again.
//! - A lease whose number was given away ([`LeaseId`]) ends once: a second release is an error.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{Lease, LeaseId, LeaseRow, NotLeased, UnknownLease};
pub use table::Leases;
