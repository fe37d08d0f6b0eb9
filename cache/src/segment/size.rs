//! The division of memory into segments, and locations in them.
//!
//! A location counts units of 64 bytes from the start of the data, so 32 bits reach 256 GiB.

use std::fmt;

/// The alignment of records, in bytes.
pub(crate) const UNIT_BYTES: u32 = 64;

/// The number of words in a unit.
pub(super) const UNIT_WORDS: usize = 8;

/// The smallest segment: a smaller one holds too few records to be worth a column of pins. In loom
/// models, a segment may be as small as a unit.
pub(crate) const SEGMENT_BYTES_MIN: u32 = if cfg!(loom) { UNIT_BYTES } else { 64 * 1024 };

/// The largest segment: with a larger one, one slow client keeps too much memory from reuse.
pub(crate) const SEGMENT_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The most bytes that locations can address.
pub(crate) const DATA_BYTES_MAX: u64 = UNIT_BYTES as u64 * (1 << 32);

/// The number of segments for each participant that a plan aims at. So the segments that a
/// participant has open, pinned or in reserve are a small part of the store.
const SEGMENTS_EACH: u64 = 64;

/// The smallest number of segments for each participant. With fewer, the open segments (two) and
/// the reserve (two) would be more than half of all segments.
const SEGMENTS_EACH_MIN: u64 = 8;

/// The location of a record: units from the start of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location(pub(crate) u32);

/// The number of segments and the size of each. Both are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    segment_bytes: u32,
    segment_count: u32,
}

/// Why memory cannot be divided into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeError {
    /// There are too few bytes for the participants.
    TooSmall {
        /// The smallest number of bytes that is enough.
        minimum_bytes: u64,
    },
    /// There are more bytes than locations can address.
    TooLarge {
        /// The most bytes that locations can address.
        maximum_bytes: u64,
    },
    /// The size of a segment is not a power of two within its limits, or there is no segment.
    Damaged,
}

impl fmt::Display for SizeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::TooSmall { minimum_bytes } => {
                write!(out, "the segments need at least {minimum_bytes} bytes in total")
            }
            SizeError::TooLarge { maximum_bytes } => {
                write!(out, "the segments can have at most {maximum_bytes} bytes in total")
            }
            SizeError::Damaged => out.write_str("the stored segment sizes are damaged"),
        }
    }
}

impl std::error::Error for SizeError {}

impl Geometry {
    /// Plans segments for this number of participants, in at most `bytes` bytes.
    ///
    /// # Errors
    /// There are too few bytes (the error carries the minimum) or too many.
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

    /// The smallest number of bytes that is enough for this number of participants.
    pub(crate) fn least_bytes(participants: u32) -> u64 {
        u64::from(SEGMENT_BYTES_MIN) * SEGMENTS_EACH_MIN * u64::from(participants.max(1))
    }

    /// Makes a geometry from two stored numbers, which another process may have written.
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
        // The casts lose nothing: the size has limits, and there are at most 2^32 units.
        let (segment_bytes, segment_count) = (segment_bytes as u32, segment_count as u32);
        Ok(Geometry { segment_bytes, segment_count })
    }

    /// The size of a segment in bytes, which is also the largest size of a record.
    pub(crate) fn segment_bytes(self) -> u32 {
        self.segment_bytes
    }

    /// The number of segments.
    pub(crate) fn segment_count(self) -> u32 {
        self.segment_count
    }

    /// The size of all segments together, in bytes.
    pub(crate) fn data_bytes(self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segment_count)
    }

    /// The segment of a location; `None` if the location is in no segment, because a damaged word
    /// named it.
    #[inline]
    pub(crate) fn segment_of(self, location: Location) -> Option<u32> {
        let segment = location.0 >> self.units().ilog2();
        (segment < self.segment_count).then_some(segment)
    }

    /// The location at an offset in a segment. The segment must exist; the offset must be inside
    /// it, and a multiple of a unit.
    pub(super) fn location(self, segment: u32, offset_bytes: u32) -> Location {
        debug_assert!(segment < self.segment_count && offset_bytes < self.segment_bytes);
        Location(segment * self.units() + offset_bytes / UNIT_BYTES)
    }

    /// The number of bytes from a location to the end of its segment; `None` if the location is in
    /// no segment.
    #[inline]
    pub(super) fn room_bytes(self, location: Location) -> Option<u32> {
        self.segment_of(location)?;
        Some(self.segment_bytes - location.0 % self.units() * UNIT_BYTES)
    }

    fn units(self) -> u32 {
        self.segment_bytes / UNIT_BYTES
    }
}
