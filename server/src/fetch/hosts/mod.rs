//! The addresses of origins that are configured by name, in one table for all workers.
//!
//! `host.rs` has the addresses of one name, and decides the next step of a connection. `table.rs`
//! shares the names among workers, behind a reader-biased lock. `resolve.rs` calls the system's
//! resolver, and waits for it.
//!
//! Invariants:
//! - At most one thread of the server resolves a given name of the table at a time. This thread is
//!   never the event loop of a worker.
//! - The lock is never held across a wait, nor while a name is resolved.
//! - Stale addresses are used only after a failure or a wait (RFC 8767 §5).
//! - The end of every resolution is recorded in the table, even if its task or its thread dies.
//!   Until then the name stays in the table.
//! - Origins that are configured by IP address are not in the table.

mod host;
mod resolve;
mod table;
#[cfg(test)]
mod tests;

pub use resolve::Resolver;
pub(super) use resolve::{addresses, new_addresses, note_all_failed, note_failed, note_worked};
pub(crate) use table::Hosts;
