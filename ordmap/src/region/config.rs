//! What a region of maps is to be.

use std::fmt;

use forebay_shm::PARTICIPANTS_MAX;

use crate::layout::{LEASES_MAX, MAPS_MAX, SPLITS_MAX};

/// Sizes of a region of maps, fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrdConfig {
    /// Size of the file: all maps with everything that belongs to them.
    pub bytes: u64,
    /// How many maps there can be.
    pub maps_max: u32,
    /// How many threads, of all processes, can take part at one time.
    pub participants_max: u32,
    /// How many entries a participant can hold at one time. A cursor needs two while it moves: it
    /// lets go of one when it has the next.
    pub leases_max: u32,
    /// How many of the bytes are for [hashes in front](crate::MapOptions::hint_bytes) of maps.
    pub hint_bytes: u64,
    /// How often maps can be [split](crate::MapOptions::shards_max), all together; 0: never.
    pub splits_max: u32,
}

/// Why there can be no such region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrdConfigError {
    /// Its parts do not fit into its size.
    TooSmall {
        /// What would be enough.
        minimum_bytes: u64,
    },
    /// References do not reach so far.
    TooLarge,
    /// A number is zero, or higher than it can be.
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// The highest that it can be.
        max: u32,
    },
}

impl OrdConfig {
    /// Of this size, with room for 128 maps that are never split, 64 participants and 16 leases of
    /// each.
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
