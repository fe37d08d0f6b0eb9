//! What can go wrong with a map.

use std::fmt;

use forebay_shm::LockError;

use crate::object::{KEY_BYTES_MAX, ObjectReadError, VALUE_BYTES_MAX};
use crate::region::AcquireError;
use crate::shard::ChangeError;

/// Why an operation on a map was not done. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// There is no memory for it, and nothing that could be evicted.
    Full,
    /// The key is longer than any can be.
    KeyTooLong,
    /// The value is longer than any can be.
    ValueTooLong,
    /// The participant has all its leases in use; each entry that is dropped frees one.
    TooManyLeases,
    /// Another owner of the map's lock did not end within
    /// [the time](crate::MapParticipant::set_wait_max).
    Busy,
    /// This is a child that was forked off from the process that takes part: it has to join itself.
    Forked,
    /// The region holds what can not be. The map is not to be used any more.
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// The lock of the shard was not taken.
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
            MapError::Full => out.write_str("there is no memory left for this map"),
            MapError::KeyTooLong => write!(out, "keys have at most {KEY_BYTES_MAX} bytes"),
            MapError::ValueTooLong => write!(out, "values have at most {VALUE_BYTES_MAX} bytes"),
            MapError::TooManyLeases => out.write_str("all leases of this participant are in use"),
            MapError::Busy => out.write_str("another owner of the map's lock did not end in time"),
            MapError::Forked => {
                out.write_str("the parent of this process takes part, and this process does not")
            }
            MapError::Damaged { what } => write!(out, "the region is damaged: {what}"),
            MapError::Lock(error) => write!(out, "the map cannot be locked: {error}"),
        }
    }
}

impl std::error::Error for MapError {}
