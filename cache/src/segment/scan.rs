//! A walk over the records of a segment, in the order in which they were written.
//!
//! It reads words one by one, so it may meet anything: records, what a dead owner left half
//! written, damage. At the first header that cannot be it ends and says so; where the next record
//! begins is then unknown.

use std::fmt;

use super::data::{LoadWords, each_piece, load_header};
use super::header::{HeaderError, HeaderKind, RecordChecksum, RecordHeader};
use super::marks::RecordMarks;
use super::size::{Geometry, Location, UNIT_BYTES};

/// A record that a walk came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScannedRecord {
    pub(crate) location: Location,
    pub(crate) header: RecordHeader,
    pub(crate) marks: RecordMarks,
}

/// Something that is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordDamage {
    pub(crate) location: Location,
    pub(crate) why: HeaderError,
}

impl fmt::Display for RecordDamage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no record at unit {}: {}", self.location.0, self.why)
    }
}

impl std::error::Error for RecordDamage {}

/// The records of one segment; fillers are left out.
#[derive(Debug)]
pub(crate) struct SegmentScan<'a, L> {
    words: &'a L,
    geometry: Geometry,
    segment: u32,
    offset_bytes: u32,
    end_bytes: u32,
}

impl<'a, L: LoadWords> SegmentScan<'a, L> {
    /// Over the first `filled_bytes` of a segment, which anybody may have written: it walks over
    /// whole units that are in the segment. `words` has all of the geometry's.
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

    /// Goes on at an offset; beyond the end there is nothing.
    pub(super) fn from(self, offset_bytes: u64) -> SegmentScan<'a, L> {
        let units = offset_bytes.min(u64::from(self.end_bytes)) as u32 / UNIT_BYTES;
        SegmentScan { offset_bytes: units * UNIT_BYTES, ..self }
    }

    /// Where the walk is: after it has ended without damage, how far there are records.
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
                // It fits into the room, as a header that was decoded does.
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
    /// Appends the key to `out`. `words` are those of the walk.
    pub(super) fn copy_key(&self, words: &impl LoadWords, out: &mut Vec<u8>) {
        let byte_count = usize::from(self.header.key_bytes);
        each_piece(words, self.location, byte_count, |piece| out.extend_from_slice(piece));
    }

    /// Is the checksum right?
    pub(super) fn has_valid_checksum(&self, words: &impl LoadWords) -> bool {
        let mut checksum = RecordChecksum::of(&self.header);
        let byte_count = self.header.payload_bytes() as usize;
        each_piece(words, self.location, byte_count, |piece| checksum.add(piece));
        checksum.value() == self.header.checksum
    }
}
