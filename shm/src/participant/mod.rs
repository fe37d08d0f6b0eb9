//! The participants of a region, and how the others detect a death.
//!
//! Each participant has a row, and holds a lock on one byte of the region's file. The kernel
//! releases the lock when the participant's process ends. `docs/format/region.md` has the row and
//! the steps of joining, leaving and sweeping.
//!
//! Invariants:
//! - No code here trusts a process number: only an unlocked byte proves a death.
//! - Each participant, and each sweep, locks through an open file description of its own, so that
//!   threads of one process exclude each other too, and closing one description does not release
//!   the lock of another.
//! - A lock is released explicitly, so copies of its descriptor in children keep nothing locked.

#[cfg(not(loom))]
mod byte_lock;
#[cfg(not(loom))]
mod handle;
#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
mod table;
mod token;

#[cfg(not(loom))]
pub(crate) use byte_lock::FileLocks;
#[cfg(not(loom))]
pub(crate) use handle::describe;
#[cfg(not(loom))]
pub use handle::{Deputy, JoinError, Listed, Participant, ParticipantStatus};
pub use table::ParticipantId;
#[cfg(all(test, loom))]
pub(crate) use table::{ByteLocks, Facts};
#[cfg(test)]
pub(crate) use table::{FREE, JOINED_WORD, PID_WORD, START_WORD, STATE_WORD, SWEPT, TAKEN};
#[cfg(any(test, not(loom)))]
pub(crate) use table::{ROW_WORDS, Table};
pub use token::{Dead, RegionId};
