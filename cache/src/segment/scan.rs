//! A scan of the records of a segment, in the order in which they were written.
//!
//! The scan loads words one by one. It may meet records, a record that a dead owner wrote in part,
//! or damage. It ends at the first invalid header, and reports this header: the start of the next
//! record is then unknown.

use std::fmt;

use super::data::{LoadWords, each_piece, load_header};
use super::header::{HeaderError, HeaderKind, RecordChecksum, RecordHeader};
use super::marks::RecordMarks;
use super::size::{Geometry, Location, UNIT_BYTES};

/// A record that a scan has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScannedRecord {
    pub(crate) location: Location,
    pub(crate) header: RecordHeader,
    pub(crate) marks: RecordMarks,
}

/// A location without a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordDamage {
    pub(crate) location: Location,
    pub(crate) why: HeaderError,
}

impl fmt::Display for RecordDamage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "invalid record at unit {}: {}", self.location.0, self.why)
    }
}

impl std::error::Error for RecordDamage {}

/// An iterator over the records of one segment, without the filler.
#[derive(Debug)]
pub(crate) struct SegmentScan<'a, L> {
    words: &'a L,
    geometry: Geometry,
    segment: u32,
    offset_bytes: u32,
    end_bytes: u32,
}

impl<'a, L: LoadWords> SegmentScan<'a, L> {
    /// Scans the first `filled_bytes` of a segment. Any process may have written that number, so
    /// the scan is limited to whole units of the segment. `words` has all words of the geometry.
    pub(super) fn new(
        words: &'a L,
        geometry: Geometry,
        segment: u32,
        filled_bytes: u64,
    ) -> SegmentScan<'a, L> {
        let is_there = segment < geometry.segment_count();
        let end = filled_bytes.min(u64::from(geometry.segment_bytes())) as u32;
        let end_bytes = if is_there { end / UNIT_BYTES * UNIT_BYTES } else { 0 };
        SegmentScan { words, geometry, segment, offset_bytes: 0, end_bytes }
    }

    /// Continues from an offset. Beyond the end of the segment there are no records.
    pub(super) fn from(self, offset_bytes: u64) -> SegmentScan<'a, L> {
        let units = offset_bytes.min(u64::from(self.end_bytes)) as u32 / UNIT_BYTES;
        SegmentScan { offset_bytes: units * UNIT_BYTES, ..self }
    }

    /// The current offset. After a scan without damage, this is the end of the last record.
    pub(crate) fn offset_bytes(&self) -> u32 {
        self.offset_bytes
    }

    fn end(&mut self) {
        self.end_bytes = self.offset_bytes;
    }
}

impl<L: LoadWords> Iterator for SegmentScan<'_, L> {
    type Item = Result<ScannedRecord, RecordDamage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset_bytes >= self.end_bytes {
            return None;
        }
        let location = self.geometry.location(self.segment, self.offset_bytes);
        let room_bytes = self.end_bytes - self.offset_bytes;
        match load_header(self.words, location, room_bytes) {
            Ok((_, header)) if header.kind == HeaderKind::Filler => {
                self.end();
                None
            }
            Ok((marks, header)) => {
                // The cast loses nothing: a decoded header fits into its segment.
                self.offset_bytes += header.record_bytes() as u32;
                Some(Ok(ScannedRecord { location, header, marks }))
            }
            Err(why) => {
                self.end();
                Some(Err(RecordDamage { location, why }))
            }
        }
    }
}

impl ScannedRecord {
    /// Appends the key to `out`. `words` must be the words of the scan.
    pub(super) fn copy_key(&self, words: &impl LoadWords, out: &mut Vec<u8>) {
        let byte_count = usize::from(self.header.key_bytes);
        each_piece(words, self.location, byte_count, |piece| out.extend_from_slice(piece));
    }

    /// Whether the record matches its checksum.
    pub(super) fn has_valid_checksum(&self, words: &impl LoadWords) -> bool {
        let mut checksum = RecordChecksum::of(&self.header);
        let byte_count = self.header.payload_bytes() as usize;
        each_piece(words, self.location, byte_count, |piece| checksum.add(piece));
        checksum.value() == self.header.checksum
    }
}
