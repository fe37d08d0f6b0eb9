//! Errors of operations on a map.

use std::fmt;

use forebay_shm::LockError;

use crate::object::{KEY_BYTES_MAX, ObjectReadError, VALUE_BYTES_MAX};
use crate::region::AcquireError;
use crate::shard::ChangeError;

/// Why an operation on a map failed. A failed operation has changed nothing, except where its
/// documentation says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The map has no memory left, and eviction cannot free any.
    Full,
    /// The key is longer than [`KEY_BYTES_MAX`].
    KeyTooLong,
    /// The value is longer than 1 MiB.
    ValueTooLong,
    /// All leases of the participant are in use; dropping an entry frees a lease.
    TooManyLeases,
    /// Another owner of the map's lock did not release it within [the
    /// limit](crate::MapParticipant::set_wait_max).
    Busy,
    /// This process is a forked child of the participant's process; the child must join the region
    /// itself.
    Forked,
    /// The region is corrupt. Stop using the map.
    Damaged {
        /// The damage that was found.
        what: &'static str,
    },
    /// The lock of the shard could not be taken.
    Lock(LockError),
}

impl From<ObjectReadError> for MapError {
    fn from(error: ObjectReadError) -> MapError {
        MapError::from(ChangeError::from(error))
    }
}

impl From<ChangeError> for MapError {
    fn from(error: ChangeError) -> MapError {
        match error {
            ChangeError::Full => MapError::Full,
            ChangeError::Damaged(what) => MapError::Damaged { what },
        }
    }
}

impl From<AcquireError> for MapError {
    fn from(not: AcquireError) -> MapError {
        match not {
            AcquireError::Forked => MapError::Forked,
            AcquireError::Lock(LockError::TimedOut) => MapError::Busy,
            AcquireError::Lock(error) => MapError::Lock(error),
        }
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Full => out
                .write_str("the map has no memory left; remove entries, or make the region larger"),
            MapError::KeyTooLong => write!(out, "the key is longer than {KEY_BYTES_MAX} bytes"),
            MapError::ValueTooLong => {
                write!(out, "the value is longer than {VALUE_BYTES_MAX} bytes")
            }
            MapError::TooManyLeases => {
                out.write_str("all leases of the participant are in use; drop an entry")
            }
            MapError::Busy => {
                out.write_str("timed out waiting for the map's lock; its owner may be stopped")
            }
            MapError::Forked => out.write_str(
                "the participant belongs to the parent process; join the region in this process",
            ),
            MapError::Damaged { what } => {
                write!(out, "the region is corrupt ({what}); stop using it")
            }
            MapError::Lock(error) => write!(out, "cannot lock the map: {error}"),
        }
    }
}

impl std::error::Error for MapError {}
