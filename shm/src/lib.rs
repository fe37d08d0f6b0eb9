//! Memory that is mapped from files and shared by processes. For now: counters.
//!
//! A [`CounterFile`] holds one slot of counters for each worker. Its owner alone writes a slot,
//! with plain stores, and any process that may read the file can watch with a [`CounterReader`].
//! The bytes are described in `docs/format/counters.md`.
//!
//! Invariants:
//! - No two slots share a cache line, so counting never writes a line that another worker writes.
//! - Nothing that is read from a file can cause a panic or a read outside the mapping.
//! - Unsafe code is in `map.rs` and nowhere else.
//! - This crate knows nothing of HTTP, of caches and of what the counters mean.
#![deny(missing_docs, unsafe_code)]

mod counters;
mod definition;
mod error;
mod file;
mod layout;
mod map;
mod process;
mod reader;

pub use counters::{CounterFile, CounterSlot};
pub use definition::{CounterDef, CounterKind};
pub use error::{CounterError, CounterErrorKind};
pub use file::create_private_dir;
pub use layout::{COUNTERS_MAX, HELP_BYTES_MAX, NAME_BYTES_MAX, SLOTS_MAX};
pub use process::Writer;
pub use reader::CounterReader;

#[cfg(test)]
mod tests;
