//! Concurrent data structures that Forebay studied and does not use.
//!
//! A growing record and a send queue without locks ([`publish`]) with their free lists
//! ([`magazine`]) were built for the product, which guards its growing records with a mutex
//! instead (`docs/why/send-queue.md`). They stay because their figures, models and counter-example
//! are what a later decision starts from: `studies/README.md`.
//!
//! Invariants:
//! - No crate of the product depends on this one.
//! - Its tests and models run with all others (`cargo test --workspace`, `scripts/loom`,
//!   `scripts/tsan`), so a structure that is taken up again still holds what it promises.
#![deny(missing_docs)]

pub mod magazine;
pub mod publish;
mod waiters;
