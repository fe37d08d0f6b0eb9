//! Concurrent data structures that Forebay studied and does not use.
//!
//! A growing record and a send queue without locks ([`publish`]), with their free lists
//! ([`magazine`]), were built for the product. The product instead guards its growing records with
//! a mutex (`docs/why/send-queue.md`). These structures stay because a later decision can start
//! from their figures, their models and their counter-example: `studies/README.md`.
//!
//! Invariants:
//! - No crate of the product depends on this one.
//! - Its tests and models run with all others (`cargo test --workspace`, `scripts/loom`,
//!   `scripts/tsan`), so that a structure still works if it is taken up again.
#![deny(missing_docs)]

pub mod magazine;
pub mod publish;
mod waiters;
