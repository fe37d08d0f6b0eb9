//! Where origins are: their names with the addresses that these have, one table for all workers.
//!
//! `host.rs` decides what is known of a name and what to do next; `table.rs` keeps it for every
//! worker behind a reader-biased lock; `resolve.rs` asks the system and waits.
//!
//! Invariants:
//! - A name is resolved by one thread of the whole server at a time, and never on a worker's loop.
//! - The lock is held to look or to note, never across a wait or while a name is resolved.
//! - Stale addresses are used only after a failure or a wait (RFC 8767 §5).
//! - Who begins to resolve a name ends it in the table, also if its task or its thread dies;
//!   until then the name stays in the table.
//! - What is an address already never enters the table.

mod host;
mod resolve;
mod table;
#[cfg(test)]
mod tests;

pub use resolve::Resolver;
pub(super) use resolve::{addresses, note_all_failed, note_failed, note_worked};
pub(crate) use table::Hosts;
