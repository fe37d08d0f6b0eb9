//! Concurrent data structures that Forebay studied and does not use.
//!
//! A growing record and a send queue without locks ([`publish`]), with their free lists
//! ([`magazine`]), were built for the product. But the product guards its growing records with a
//! mutex (`docs/why/send-queue.md`). The structures are kept because a later decision can start
//! from their measurements, their models and their counter-example: see `studies/README.md`.
//!
//! Invariants:
//! - No crate of the product depends on this one.
//! - The tests and models of this crate run with those of the other crates (`cargo test
//!   --workspace`, `scripts/loom`, `scripts/tsan`), so that a structure still works if a later
//!   decision needs it.
#![deny(missing_docs)]

pub mod magazine;
pub mod publish;
mod waiters;
