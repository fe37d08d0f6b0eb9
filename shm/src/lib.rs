//! Memory that is mapped from files and shared by processes: counters, and regions.
//!
//! A [`CounterFile`] holds one slot of counters for each worker. Only the owner of a slot writes
//! it, with plain stores. Any process that may read the file can watch it with a [`CounterReader`].
//! `docs/format/counters.md` describes the bytes.
//!
//! A `Region` is a file that several processes map and write. Each thread that uses a region is a
//! `Participant`. A participant may die at any instruction: the other participants detect the
//! death, and a [`RobustLock`] that the dead one held can be taken again. `docs/format/region.md`
//! describes the bytes.
//!
//! A `ProfileFile` holds the lock profile of a program. `docs/format/locks.md` describes the bytes.
//!
//! A `DirGuard` reserves a directory for one server and its successors.
//!
//! Invariants:
//! - No two slots share a cache line, so counting never writes a line that another worker writes.
//! - Any process may be killed between any two instructions; the other processes continue.
//! - Nothing read from a file can cause a panic or a read outside the mapping.
//! - Unsafe code is in `map.rs` and nowhere else.
//! - This crate knows nothing of HTTP, of caches and of the meaning of counters.
//!
//! Under `--cfg loom`, the parts that need the system, such as regions, are not compiled; only the
//! protocols between threads are modelled.
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
pub use file::{check_private_dir, create_private_dir};
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
    fix_seed_of_thread,
};
#[cfg(not(loom))]
pub use robust_lock::SystemFutex;
pub use robust_lock::{Futex, Liveness, LockError, RobustGuard, RobustLock, SLEEP_MAX};
pub use value::{Bucket, CounterValue, HistogramValue};

#[cfg(test)]
mod tests;
