//! The configuration of a region of maps.

use std::fmt;

use forebay_shm::PARTICIPANTS_MAX;

use crate::layout::{LEASES_MAX, MAPS_MAX, SPLITS_MAX};

/// Sizes of a region of maps, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrdConfig {
    /// Size of the file: all maps with everything that belongs to them.
    pub bytes: u64,
    /// The largest number of maps.
    pub maps_max: u32,
    /// The largest number of participants (threads of all processes) at one time.
    pub participants_max: u32,
    /// The most entries that a participant can hold at one time. A cursor needs two while it moves:
    /// it releases one when it has the next.
    pub leases_max: u32,
    /// How many of the bytes are for [hint tables](crate::MapOptions::hint_bytes) of maps.
    pub hint_bytes: u64,
    /// How many [splits](crate::MapOptions::shards_max) all maps together can have; with 0 none is
    /// split.
    pub splits_max: u32,
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrdConfigError {
    /// The areas do not fit into the size.
    TooSmall {
        /// The smallest size that is enough.
        minimum_bytes: u64,
    },
    /// The size exceeds the range of references.
    TooLarge,
    /// A number is zero or above its maximum.
    OutOfRange {
        /// The name of the number.
        what: &'static str,
        /// The maximum of the number.
        max: u32,
    },
}

impl OrdConfig {
    /// A configuration of this size, for up to 128 maps without splits, 64 participants, and 16
    /// leases for each.
    #[must_use]
    pub const fn with_bytes(bytes: u64) -> OrdConfig {
        let (maps_max, participants_max) = (128, 64);
        OrdConfig {
            bytes,
            maps_max,
            participants_max,
            leases_max: 16,
            hint_bytes: 0,
            splits_max: 0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), OrdConfigError> {
        let numbers = [
            ("maps_max", self.maps_max, 1, MAPS_MAX),
            ("participants_max", self.participants_max, 1, PARTICIPANTS_MAX),
            ("leases_max", self.leases_max, 1, LEASES_MAX),
            ("splits_max", self.splits_max, 0, SPLITS_MAX),
        ];
        let is_wrong = |number: u32, min: u32, max: u32| !(min..=max).contains(&number);
        let wrong = numbers.into_iter().find(|(_, number, min, max)| is_wrong(*number, *min, *max));
        match wrong {
            Some((what, _, _, max)) => Err(OrdConfigError::OutOfRange { what, max }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for OrdConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrdConfigError::TooSmall { minimum_bytes } => {
                write!(out, "the region is too small; it needs at least {minimum_bytes} bytes")
            }
            OrdConfigError::TooLarge => out.write_str("a region of maps cannot be this large"),
            OrdConfigError::OutOfRange { what, max } => {
                write!(out, "{what} is out of range; the maximum is {max}")
            }
        }
    }
}

impl std::error::Error for OrdConfigError {}
