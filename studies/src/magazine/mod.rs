//! Free lists for buffers and nodes: magazines and their depot (Bonwick and Adams, "Magazines and
//! Vmem", USENIX 2001).
//!
//! A worker has two *magazines* of up to M free items each. It takes and gives there, alone, and
//! goes to the depot only when both are empty or both are full, to exchange one whole magazine. The
//! second magazine makes that rare: after an exchange there are always M free items and M free
//! places, so between two exchanges lie at least M takes or gives.
//!
//! | what | limit |
//! |---|---|
//! | a worker's items | 2 M |
//! | the depot's items | M for each filled magazine, of which it keeps `filled_max` |
//!
//! Items beyond these limits are dropped, a magazine at a time, by the worker that gave them. Items
//! are moved and never inspected: a user that wants them clean cleans them.
//!
//! A thread that has no pair of its own (more threads than processors, a thread of a pool) uses
//! [`SharedMagazines`]: a few pairs behind a lock each, tried in turn.
//!
//! Invariants:
//! - An item is in one magazine, or was taken by one owner, or was dropped.
//! - The depot is locked for the exchange of a magazine, for the end of a worker, and for nothing
//!   else; no item is made or dropped, and no memory allocated or freed, under its lock.

mod counts;
mod depot;
mod shared;
mod worker;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use counts::MagazineCounts;
pub use depot::Depot;
pub use shared::SharedMagazines;
pub use worker::Magazines;
