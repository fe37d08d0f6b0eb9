//! Ordered maps in memory that processes share: byte keys, immutable values that every process
//! reads where they lie.
//!
//! ```
//! use forebay_ordmap::{MapOptions, OrdConfig, OrdRegion};
//!
//! let region = OrdRegion::anonymous(&OrdConfig::with_bytes(8 << 20))?;
//! let participant = region.join()?;
//! let map = participant.map("towns", &MapOptions::default())?;
//! map.insert(b"lyon", b"Rhone")?;
//! map.insert(b"london", b"Thames")?;
//! let mut range = map.prefix(b"l"); // `map.scan_prefix` would copy and hold nothing
//! while let Some(entry) = range.next()? {
//!     println!("{:?} {:?}", entry.key(), entry.value());
//! }
//! assert_eq!(map.get(b"lyon")?.as_deref(), Some(&b"Rhone"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`OrdRegion`] is a process's, a [`MapParticipant`] a thread's; a [`Map`] is a name in the
//! region as a participant uses it. A map is a B+tree whose nodes are copied when they change, and
//! a change is published by one store; or several of them, if it was split, each with a range of
//! keys. Its bytes are described in `docs/format/ordmap.md`.
//!
//! Invariants:
//! - Readers never wait, and write nothing that another thread writes, but for leases of their own
//!   and, once a map with a budget is full, a bit of entries that had not been used.
//! - Any process may be killed between any two instructions: the others find the map before its
//!   change or after it, and nothing is lost.
//! - A participant that is stopped keeps what its leases name and nothing else; a dead one nothing.
//! - Whatever lies in a region, nothing outside of it is read, and nothing loops for ever.
//!
//! Under `--cfg loom` only the protocols are compiled, not what maps files.
#![deny(missing_docs)]
#![cfg_attr(loom, allow(dead_code, unused_imports))] // What maps files uses the rest.

#[cfg(not(loom))]
mod error;
mod hint_table;
pub mod key;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod map;
mod names;
mod object;
#[cfg(not(loom))]
mod region;
mod route;
mod shard;
mod tree;

#[cfg(not(loom))]
pub use error::MapError;
#[cfg(not(loom))]
pub use map::{Cursor, Entry, Expected, KeyValue, Map, MapStats, Range, Scan};
pub use object::KEY_BYTES_MAX;
#[cfg(not(loom))]
pub use region::{
    CheckReport, MapFinding, MapId, MapOptions, MapParticipant, MapsError, MemoryUsage, OrdConfig,
    OrdConfigError, OrdOpenError, OrdRegion,
};

/// A point between two stores that must be seen in this order after a death: the compiler keeps
/// it, and a test can end the process here.
macro_rules! step {
    ($name:literal) => {
        // ORDER: pairs with nothing: who comes after a death sees what the machine executed, in
        // the order in which it did; only the compiler could change that order.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        forebay_shm::crash_point!($name);
    };
}
pub(crate) use step;
