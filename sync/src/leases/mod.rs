//! Leases: a participant keeps single values from reclamation across calls.
//!
//! Leases lie in a table of slots, with a row for each participant. A slot in use holds a *place*:
//! a number that names the value for all participants (its offset in a region), never zero. Only a
//! row's owner stores into it. These are hazard pointers (Michael, IEEE TPDS 2004) whose slots have
//! an owner, so that the slots of a dead owner can be cleared.
//!
//! | holder | reclaimer |
//! |---|---|
//! | finds the place (a hint) | unlinks the value |
//! | stores it into a slot (release) | [`Leases::barrier`] |
//! | light barrier | reads all slots of all rows |
//! | checks that the value is still linked there | not among them: frees it |
//! | reads the value, as long as it likes | |
//! | clears the slot (release) | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `leases[row][slot]` | the row's owner; the thread that clears a dead row | owner, reclaimer |
//!
//! Compared with [pins](crate::pins): pins have a column for each piece of memory, so checking one
//! piece is cheap, but each row costs a word for each piece. A lease names any place, a row has
//! few slots, and the reclaimer reads all of them. A participant that is stopped, or that never
//! responds, keeps at most the values that its slots name.
//!
//! **A pin may become a lease**: nothing can be reclaimed under a pin, so the value needs no second
//! look: `take(place, || true)`, then unpin. A reclaimer of memory that both protect looks *at the
//! pins first, then at the leases*: in the other order it misses a value that moves from the pin to
//! the lease between its two looks.
//!
//! Invariants:
//! - A slot is zero, or names a place that its owner holds or is about to look at again.
//! - A lease that was turned into a number ([`LeaseId`]) ends once: a second release is an error.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{Lease, LeaseId, LeaseRow, NotLeased, UnknownLease};
pub use table::Leases;
