//! Ordered maps in shared memory: byte keys, and immutable values that every process reads in
//! place.
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
//! A process opens an [`OrdRegion`], and each thread joins it as a [`MapParticipant`]; a [`Map`] is
//! a named map of the region as one participant uses it. A map is a copy-on-write B+tree, or
//! several after a split, each with a range of keys. A single store publishes each change.
//! `docs/format/ordmap.md` describes the bytes.
//!
//! Invariants:
//! - Readers never wait. They write nothing that another thread writes, except for their own leases
//!   and, once a map with a budget is full, the use bit of entries that were not marked yet.
//! - Any process may be killed between any two instructions: other processes then find the map as
//!   it was before the change or as it is after the change, and no memory is lost.
//! - A stopped participant keeps only the memory that its leases name; a dead one keeps none.
//! - No access goes outside the region and no loop runs for ever, whatever bytes the region holds.
//!
//! Under `--cfg loom` only the protocols are compiled, without the code that maps files.
#![deny(missing_docs)]
#![cfg_attr(loom, allow(dead_code, unused_imports))] // Only code that maps files uses these items.

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
pub use map::{Cursor, Entry, ExpectedState, KeyValue, Map, MapStats, Range, Scan};
pub use object::KEY_BYTES_MAX;
#[cfg(not(loom))]
pub use region::{
    CheckReport, MapFinding, MapId, MapOptions, MapParticipant, MapsError, MemoryUsage, OrdConfig,
    OrdConfigError, OrdOpenError, OrdRegion,
};

/// Separates two stores that the successor of a dead process must see in this order. A compiler
/// fence keeps the order, and a test can kill the process at this point.
macro_rules! step {
    ($name:literal) => {
        // ORDER: pairs with nothing: the successor of a dead process sees its stores in the order
        // in which the machine executed them; only the compiler could change that order.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        forebay_shm::crash_point!($name);
    };
}
pub(crate) use step;
