//! Access to the parts of a record in a segment.

use super::header::{RecordChecksum, RecordHeader};
use super::marks::RecordMarks;
use super::size::Location;

/// A record whose lengths are valid. [`Record::has_valid_checksum`] checks its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) location: Location,
    pub(crate) header: RecordHeader,
    /// The marks at the time at which the record was read.
    pub(crate) marks: RecordMarks,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Makes a record. `payload` must have as many bytes as the header says.
    #[inline]
    pub(super) fn new(
        location: Location,
        header: RecordHeader,
        marks: RecordMarks,
        payload: &'a [u8],
    ) -> Record<'a> {
        debug_assert_eq!(payload.len() as u64, header.payload_bytes());
        Record { location, header, marks, payload }
    }

    /// The key under which the record is stored.
    #[inline]
    pub(crate) fn key(&self) -> &'a [u8] {
        &self.payload[..usize::from(self.header.key_bytes)]
    }

    /// The tags by which the record can be purged.
    pub(crate) fn tags(&self) -> &'a [u8] {
        let start = usize::from(self.header.key_bytes);
        &self.payload[start..][..usize::from(self.header.tags_bytes)]
    }

    /// The head of the response.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        let start = usize::from(self.header.key_bytes) + usize::from(self.header.tags_bytes);
        &self.payload[start..][..usize::from(self.header.head_bytes)]
    }

    /// The body, or the bytes that are stored in its place.
    #[inline]
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.payload[self.payload.len() - self.header.body_bytes as usize..]
    }

    /// Key, tags, head and body, as they are stored.
    pub(super) fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether the header's checksum matches the header and the payload.
    #[must_use]
    pub(crate) fn has_valid_checksum(&self) -> bool {
        let mut checksum = RecordChecksum::of(&self.header);
        checksum.add(self.payload);
        checksum.value() == self.header.checksum
    }
}
