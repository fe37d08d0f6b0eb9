//! Memory that is mapped from files and shared by processes: counters, and regions.
//!
//! A [`CounterFile`] holds one slot of counters for each worker. Its owner alone writes a slot,
//! with plain stores, and any process that may read the file can watch with a [`CounterReader`].
//! The bytes are described in `docs/format/counters.md`.
//!
//! A `Region` is a file that several processes map and write. Each thread that takes part is a
//! `Participant`, whose death the others notice, whenever it comes; a [`RobustLock`] survives it.
//! The bytes are described in `docs/format/region.md`.
//!
//! A `ProfileFile` holds what happens at the locks of a program. The bytes are described in
//! `docs/format/locks.md`.
//!
//! A `DirGuard` keeps a directory for one server and its successors.
//!
//! Invariants:
//! - No two slots share a cache line, so counting never writes a line that another worker writes.
//! - Any process may be killed between any two instructions; the others go on.
//! - Nothing that is read from a file can cause a panic or a read outside the mapping.
//! - Unsafe code is in `map.rs` and nowhere else.
//! - This crate knows nothing of HTTP, of caches and of what the counters mean.
//!
//! Under `--cfg loom` only the protocols are compiled, not what maps files.
#![deny(missing_docs, unsafe_code)]

mod counters;
pub mod crash;
mod definition;
#[cfg(not(loom))]
mod dir_guard;
mod error;
mod file;
mod layout;
#[cfg(not(loom))]
mod lock_profile;
mod map;
#[cfg(not(loom))]
mod modules;
mod participant;
mod process;
mod reader;
#[cfg(not(loom))]
mod region;
mod robust_lock;
mod slots;
mod value;

pub use counters::{CounterFile, CounterSlot, UnnamedCounters};
pub use definition::{CounterDef, CounterKind, ReadDef, histogram_words};
#[cfg(not(loom))]
pub use dir_guard::{DirGuard, DirId, GuardError};
pub use error::{CounterError, CounterErrorKind};
pub use file::create_private_dir;
pub use layout::{BOUNDS_MAX, COUNTERS_MAX, HELP_BYTES_MAX, NAME_BYTES_MAX, SLOTS_MAX};
#[cfg(not(loom))]
pub use lock_profile::{ProfileFile, UnnamedProfile, is_alive};
pub use participant::{Dead, ParticipantId, RegionId};
#[cfg(not(loom))]
pub use participant::{Deputy, JoinError, Listed, Participant, ParticipantStatus};
pub use process::{Writer, process_id};
pub use reader::CounterReader;
#[cfg(not(loom))]
pub use region::{
    AREAS_MAX, Area, AreaSpec, BarrierWish, Opened, PARTICIPANTS_MAX, ReadOnlyArea, Region,
    RegionError, RegionErrorKind, RegionReader, RegionSpec, ReplacedWhy, UnnamedRegion,
};
#[cfg(not(loom))]
pub use robust_lock::SystemFutex;
pub use robust_lock::{Futex, Liveness, LockError, RobustGuard, RobustLock, SLEEP_MAX};
pub use value::{Bucket, CounterValue, HistogramValue};

#[cfg(test)]
mod tests;
