//! The configuration of a region of maps.

use std::fmt;

use forebay_shm::PARTICIPANTS_MAX;

use crate::layout::{LEASES_MAX, MAPS_MAX, SPLITS_MAX};

/// Sizes of a region of maps, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrdConfig {
    /// Size of the region's file, which holds all maps and everything that belongs to them.
    pub bytes: u64,
    /// The largest number of maps.
    pub maps_max: u32,
    /// The largest number of participants (threads of all processes) at one time.
    pub participants_max: u32,
    /// The most entries that a participant can hold at one time. A cursor holds two entries while
    /// it moves: it releases the old one when it holds the next one.
    pub leases_max: u32,
    /// How many bytes of the file are reserved for the [hint tables](crate::MapOptions::hint_bytes)
    /// of all maps.
    pub hint_bytes: u64,
    /// How many [splits](crate::MapOptions::shards_max) all maps together can have; with 0, no map
    /// is split.
    pub splits_max: u32,
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrdConfigError {
    /// The areas do not fit into the size.
    TooSmall {
        /// The smallest value of `bytes` that is enough.
        minimum_bytes: u64,
    },
    /// `bytes` or `hint_bytes` exceeds the range of references.
    TooLarge,
    /// A number is below its minimum or above its maximum.
    OutOfRange {
        /// The name of the field.
        what: &'static str,
        /// The maximum of the field.
        max: u32,
    },
}

impl OrdConfig {
    /// A configuration of this size for at most 128 maps and 64 participants, with 16 leases for
    /// each participant, and without hint tables or splits.
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
            OrdConfigError::TooLarge => out.write_str(
                "the region is too large; data and hint tables are limited to 1 TiB each",
            ),
            OrdConfigError::OutOfRange { what, max } => {
                write!(out, "{what} is out of range; the maximum is {max}")
            }
        }
    }
}

impl std::error::Error for OrdConfigError {}
