//! The header of a record: its fields, its words, and the checks of both.
//!
//! The first word of a record is its [marks](super::marks); the four after it are this header and
//! never change. Key, tags, head and body follow, in this order, without gaps; then zeros up to the
//! next unit.
//!
//! Invariants:
//! - The lengths of a header that was decoded, or checked for writing, fit into the room that was
//!   given to the check.

use std::fmt;

use super::size::UNIT_BYTES;

/// The size of marks and header, in bytes.
pub(crate) const HEADER_BYTES: u32 = 40;

/// The size of marks and header, in words.
pub(super) const HEADER_WORDS: usize = 5;

/// The highest sequence: 48 bits.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderKind {
    /// A whole response.
    Whole = 1,
    /// The head of a body that is stored in fragments.
    LongHead = 2,
    /// One fragment of a long body.
    Fragment = 3,
    /// A base record: the field names that select variants, and the ids of the variants.
    Base = 4,
    /// No record: the rest of the segment is empty.
    Filler = 5,
}

impl HeaderKind {
    fn of(number: u64) -> Option<HeaderKind> {
        match number {
            1 => Some(HeaderKind::Whole),
            2 => Some(HeaderKind::LongHead),
            3 => Some(HeaderKind::Fragment),
            4 => Some(HeaderKind::Base),
            5 => Some(HeaderKind::Filler),
            _ => None,
        }
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// The sequence of the record: of two records of a key, the record with the higher sequence
    /// counts.
    pub(crate) sequence: u64,
    pub(crate) kind: HeaderKind,
    pub(crate) key_bytes: u16,
    pub(crate) tags_bytes: u16,
    pub(crate) head_bytes: u16,
    pub(crate) body_bytes: u32,
    /// The low half of `purge_seq`, as noted before the origin was asked.
    pub(crate) purge_noted: u32,
    /// The time at which the response was received, in Unix seconds.
    pub(crate) response_time: u32,
    pub(crate) checksum: u32,
}

/// The reason why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The segment ends before the header does.
    NoRoom,
    /// The kind is unknown, or a filler is where a record is expected.
    Kind,
    /// Reserved bits of the header are set.
    Spare,
    /// The sequence is missing or has more than 48 bits, or a filler has one.
    Sequence,
    /// The key of a record is empty, or a filler has content.
    Length,
    /// Key, tags, head and body exceed the segment.
    TooLong,
}

impl HeaderError {
    /// A description for messages.
    pub(crate) fn text(self) -> &'static str {
        match self {
            HeaderError::NoRoom => "the segment ends before the header",
            HeaderError::Kind => "the kind is unknown, or is the kind of a filler",
            HeaderError::Spare => "reserved bits are set",
            HeaderError::Sequence => {
                "the sequence is missing or too high, or a filler has a sequence"
            }
            HeaderError::Length => "the key is empty, or a filler has content",
            HeaderError::TooLong => "the record exceeds its segment",
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl std::error::Error for HeaderError {}

impl RecordHeader {
    /// The header of a filler.
    pub(super) fn filler() -> RecordHeader {
        let mut header = RecordHeader {
            sequence: 0,
            kind: HeaderKind::Filler,
            key_bytes: 0,
            tags_bytes: 0,
            head_bytes: 0,
            body_bytes: 0,
            purge_noted: 0,
            response_time: 0,
            checksum: 0,
        };
        header.checksum = RecordChecksum::of(&header).value();
        header
    }

    /// The size of key, tags, head and body together, in bytes.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u64 {
        let short = [self.key_bytes, self.tags_bytes, self.head_bytes].map(u64::from);
        short.iter().sum::<u64>() + u64::from(self.body_bytes)
    }

    /// The size of the whole record in bytes, rounded up to whole units.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        (u64::from(HEADER_BYTES) + self.payload_bytes()).next_multiple_of(u64::from(UNIT_BYTES))
    }

    /// Checks that the header is valid, and that its record fits into `room_bytes`.
    pub(super) fn check(&self, room_bytes: u32) -> Result<(), HeaderError> {
        if room_bytes < HEADER_BYTES {
            return Err(HeaderError::NoRoom);
        }
        let is_filler = self.kind == HeaderKind::Filler;
        if self.sequence > SEQUENCE_MAX || (self.sequence == 0) != is_filler {
            return Err(HeaderError::Sequence);
        }
        let is_right = if is_filler { self.payload_bytes() == 0 } else { self.key_bytes > 0 };
        if !is_right {
            return Err(HeaderError::Length);
        }
        if self.record_bytes() > u64::from(room_bytes) {
            return Err(HeaderError::TooLong);
        }
        Ok(())
    }

    /// Encodes the words after the marks.
    pub(super) fn encode(&self) -> [u64; HEADER_WORDS - 1] {
        let lengths = u64::from(self.key_bytes) | u64::from(self.head_bytes) << 16;
        [
            self.sequence | (self.kind as u64) << 48,
            lengths | u64::from(self.body_bytes) << 32,
            u64::from(self.purge_noted) | u64::from(self.checksum) << 32,
            u64::from(self.response_time) | u64::from(self.tags_bytes) << 32,
        ]
    }

    /// Decodes the words after the marks, which any process may have written.
    #[inline]
    pub(super) fn decode(
        words: [u64; HEADER_WORDS - 1],
        room_bytes: u32,
    ) -> Result<RecordHeader, HeaderError> {
        let [first, lengths, noted, last] = words;
        let kind = HeaderKind::of(first >> 48 & 0xf).ok_or(HeaderError::Kind)?;
        if first >> 52 != 0 || last >> 48 != 0 {
            return Err(HeaderError::Spare);
        }
        let header = RecordHeader {
            sequence: first & SEQUENCE_MAX,
            kind,
            key_bytes: lengths as u16,
            head_bytes: (lengths >> 16) as u16,
            body_bytes: (lengths >> 32) as u32,
            tags_bytes: (last >> 32) as u16,
            purge_noted: noted as u32,
            response_time: last as u32,
            checksum: (noted >> 32) as u32,
        };
        header.check(room_bytes)?;
        Ok(header)
    }
}

/// The CRC-32C of a record: over its header, without marks and checksum, and then over the added
/// bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordChecksum(u32);

impl RecordChecksum {
    /// The checksum of the header alone.
    pub(super) fn of(header: &RecordHeader) -> RecordChecksum {
        let [first, lengths, noted, last] = header.encode().map(u64::to_le_bytes);
        // One call is cheaper than several calls for a few bytes each.
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&first);
        bytes[8..16].copy_from_slice(&lengths);
        bytes[16..20].copy_from_slice(&noted[..4]);
        bytes[20..].copy_from_slice(&last);
        RecordChecksum(crc32c::crc32c(&bytes))
    }

    /// Adds the bytes after the header, piece by piece.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    pub(super) fn value(self) -> u32 {
        self.0
    }
}
