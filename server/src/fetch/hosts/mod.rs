//! The addresses of origins by name, in one table for all workers.
//!
//! `host.rs` keeps the addresses of one name and decides what to do next; `table.rs` shares them
//! among workers behind a reader-biased lock; `resolve.rs` asks the system and waits.
//!
//! Invariants:
//! - A name is resolved by one thread of the whole server at a time, and never on a worker's loop.
//! - The lock is never held across a wait, nor while a name is resolved.
//! - Stale addresses are used only after a failure or a wait (RFC 8767 §5).
//! - Every resolution that begins ends in the table, even if its task or its thread dies; until
//!   then the name stays in the table.
//! - A host that is an address never enters the table.

mod host;
mod resolve;
mod table;
#[cfg(test)]
mod tests;

pub use resolve::Resolver;
pub(super) use resolve::{addresses, note_all_failed, note_failed, note_worked};
pub(crate) use table::Hosts;
