//! Free lists for buffers and nodes: magazines and their depot (Bonwick and Adams, "Magazines and
//! Vmem", USENIX 2001).
//!
//! A worker has two *magazines* of up to M free items each. It takes items from its magazines and
//! gives items back to them without a lock. When both magazines are empty or both are full, the
//! worker exchanges one whole magazine at the depot. The second magazine makes exchanges rare:
//! after an exchange the worker has M free items and room for M more, so at least M takes or gives
//! lie between two exchanges.
//!
//! | free items | limit |
//! |---|---|
//! | a worker's items | 2 M |
//! | the depot's items | M for each filled magazine, of which it keeps `filled_max` |
//!
//! Items beyond these limits are dropped, a magazine at a time, by the worker that gave them. Items
//! are moved but never inspected or reset: a user that needs clean items must clean them.
//!
//! A thread without a pair of its own (because there are more threads than processors, or it
//! belongs to a pool) uses [`SharedMagazines`]: a few pairs, each behind a lock, that are tried in
//! turn.
//!
//! Invariants:
//! - An item is in one magazine, or belongs to the one owner that took it, or was dropped.
//! - The depot's lock is held only to exchange a magazine, to take over the magazines of a worker
//!   that ends, and to read counts. Under this lock no item is made or dropped, and no memory is
//!   allocated or freed.

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
