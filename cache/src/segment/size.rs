//! How memory is divided into segments, and what a place names.
//!
//! A place counts units of 64 bytes from the beginning of the data, so 32 bits reach 256 GiB.

use std::fmt;

/// A record begins on a multiple of this.
pub(crate) const UNIT_BYTES: u32 = 64;

/// Words of a unit.
pub(super) const UNIT_WORDS: usize = 8;

/// Below this a segment holds too few records to be worth a column of pins. A model needs none of
/// this size.
pub(crate) const SEGMENT_BYTES_MIN: u32 = if cfg!(loom) { UNIT_BYTES } else { 64 * 1024 };

/// Above this, what one slow client keeps from reuse is too much.
pub(crate) const SEGMENT_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// How far places reach.
pub(crate) const DATA_BYTES_MAX: u64 = UNIT_BYTES as u64 * (1 << 32);

/// So many segments each participant may have open, pinned or in reserve before the store feels it.
const SEGMENTS_EACH: u64 = 64;

/// With fewer, what is open and in reserve (two and two) leaves nothing for records to stay in.
const SEGMENTS_EACH_MIN: u64 = 8;

/// Where a record lies: units from the beginning of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location(pub(crate) u32);

/// How many segments there are, and how large each is. Both numbers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    segment_bytes: u32,
    segment_count: u32,
}

/// Memory cannot be divided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeError {
    /// Too little for so many participants.
    TooSmall {
        /// What is enough for them.
        minimum_bytes: u64,
    },
    /// More than places reach.
    TooLarge {
        /// What they reach.
        maximum_bytes: u64,
    },
    /// A segment's size is not a power of two between its limits, or there is no segment.
    Damaged,
}

impl fmt::Display for SizeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::TooSmall { minimum_bytes } => {
                write!(out, "segments need at least {minimum_bytes} bytes")
            }
            SizeError::TooLarge { maximum_bytes } => {
                write!(out, "segments can take at most {maximum_bytes} bytes")
            }
            SizeError::Damaged => out.write_str("the sizes of segments are damaged"),
        }
    }
}

impl std::error::Error for SizeError {}

impl Geometry {
    /// Divides up to `bytes` among so many participants.
    ///
    /// # Errors
    /// Too few bytes, with the least number that is enough, or too many.
    pub(crate) fn plan(bytes: u64, participants: u32) -> Result<Geometry, SizeError> {
        let minimum_bytes = Geometry::least_bytes(participants);
        if bytes < minimum_bytes {
            return Err(SizeError::TooSmall { minimum_bytes });
        }
        let participants = u64::from(participants.max(1));
        let share = bytes / (SEGMENTS_EACH * participants);
        let (least, most) = (u64::from(SEGMENT_BYTES_MIN), u64::from(SEGMENT_BYTES_MAX));
        let segment_bytes = 1 << share.clamp(least, most).ilog2();
        Geometry::of(segment_bytes, bytes / segment_bytes)
    }

    /// The least that can be divided among so many participants.
    pub(crate) fn least_bytes(participants: u32) -> u64 {
        u64::from(SEGMENT_BYTES_MIN) * SEGMENTS_EACH_MIN * u64::from(participants.max(1))
    }

    /// From two numbers that were written down, by another process perhaps.
    ///
    /// # Errors
    /// No segments can have these sizes.
    pub(crate) fn of(segment_bytes: u64, segment_count: u64) -> Result<Geometry, SizeError> {
        let limits = u64::from(SEGMENT_BYTES_MIN)..=u64::from(SEGMENT_BYTES_MAX);
        let is_size = segment_bytes.is_power_of_two() && limits.contains(&segment_bytes);
        if !is_size || segment_count == 0 {
            return Err(SizeError::Damaged);
        }
        if segment_count > DATA_BYTES_MAX / segment_bytes {
            return Err(SizeError::TooLarge { maximum_bytes: DATA_BYTES_MAX });
        }
        // Both fit: the size by its limits, the count as there are at most 2^32 units.
        let (segment_bytes, segment_count) = (segment_bytes as u32, segment_count as u32);
        Ok(Geometry { segment_bytes, segment_count })
    }

    /// Size of a segment: the longest record.
    pub(crate) fn segment_bytes(self) -> u32 {
        self.segment_bytes
    }

    /// How many segments there are.
    pub(crate) fn segment_count(self) -> u32 {
        self.segment_count
    }

    /// What all of them take.
    pub(crate) fn data_bytes(self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segment_count)
    }

    /// The segment that a place lies in; `None` if it lies in none, as one in a damaged word may.
    #[inline]
    pub(crate) fn segment_of(self, location: Location) -> Option<u32> {
        let segment = location.0 >> self.units().ilog2();
        (segment < self.segment_count).then_some(segment)
    }

    /// The place of an offset in a segment; whole units, inside.
    pub(super) fn location(self, segment: u32, offset_bytes: u32) -> Location {
        debug_assert!(segment < self.segment_count && offset_bytes < self.segment_bytes);
        Location(segment * self.units() + offset_bytes / UNIT_BYTES)
    }

    /// How many bytes there are from a place to the end of its segment; `None` as above.
    #[inline]
    pub(super) fn room_bytes(self, location: Location) -> Option<u32> {
        self.segment_of(location)?;
        Some(self.segment_bytes - location.0 % self.units() * UNIT_BYTES)
    }

    fn units(self) -> u32 {
        self.segment_bytes / UNIT_BYTES
    }
}
