//! Leases: a participant keeps single values from reclamation across calls.
//!
//! Leases lie in a table of slots, with a row for each participant. A slot in use holds a *place*:
//! a number that names the value for all participants (its offset in a region), never zero. Only
//! the owner of a row stores into it. Leases are hazard pointers (Michael, IEEE TPDS 2004) whose
//! slots have an owner, so that the slots of a dead owner can be cleared.
//!
//! | holder | reclaimer |
//! |---|---|
//! | finds the place (a hint) | unlinks the value |
//! | stores the place into a slot (release) | [`Leases::barrier`] |
//! | light barrier | reads all slots of all rows |
//! | checks that the value is still linked there | frees the value if no slot holds its place |
//! | reads the value, as long as it likes | |
//! | clears the slot (release) | |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `leases[row][slot]` | the row's owner; the thread that clears a dead row | owner, reclaimer |
//!
//! Compared with [pins](crate::pins): pins have a column for each piece of memory, so it is cheap
//! to check one piece, but each row needs a word for each piece. A row of leases has few slots,
//! each of which can name any place, and the reclaimer reads the slots of all rows. A participant
//! that is stopped, or that never responds, keeps at most the values that its slots name.
//!
//! **A pin may become a lease.** Nothing is reclaimed under a pin, so the owner of a pin takes a
//! lease without a check (`take(place, || true)`) and then unpins. A reclaimer of memory that both
//! pins and leases protect looks *at the pins first, then at the leases*. In the other order it
//! misses a value whose reader moves from the pin to the lease between the two looks.
//!
//! Invariants:
//! - A slot is zero, or names a place that its owner holds or is about to check.
//! - A lease that was turned into a number ([`LeaseId`]) ends once: a second release is an error.

mod row;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use row::{Lease, LeaseId, LeaseRow, NotLeased, UnknownLease};
pub use table::Leases;
