//! Appending to a segment, by its owner.
//!
//! | step | a death after it leaves |
//! |---|---|
//! | bytes of the record | nothing: readers stop at `filled_bytes` |
//! | `filled_bytes` (release) | a record that no word names |
//! | the word that names it (release), by the caller | a record in the index |
//! | the next record, …, then the segment is sealed | |
//!
//! Invariants:
//! - Records are contiguous from the start of the segment. Sealing makes the rest of the segment a
//!   filler.
//! - Bytes before `filled_bytes`, except marks, are never rewritten within a generation.

use std::fmt;

use forebay_shm::crash_point;
use forebay_sync::Words;

use super::header::{HeaderError, HeaderKind, RecordChecksum, RecordHeader};
use super::marks::{FrozenMarks, RecordMarks};
use super::record::Record;
use super::segments::Segments;
use super::size::{Location, UNIT_BYTES};
use super::state::SegmentState;
use super::table::StateChanged;

/// The parts of a new record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    pub(crate) kind: HeaderKind,
    pub(crate) sequence: u64,
    pub(crate) purge_noted: u32,
    /// The time at which the response was received, in Unix seconds.
    pub(crate) response_time: u32,
    pub(crate) marks: RecordMarks,
    pub(crate) key: &'a [u8],
    pub(crate) tags: &'a [u8],
    pub(crate) head: &'a [u8],
    /// The body, in pieces as it arrived.
    pub(crate) body: &'a [&'a [u8]],
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendError {
    /// This segment has no room for the record; another one may have.
    Full,
    /// No segment can hold the record, or its header is invalid.
    Impossible(HeaderError),
}

impl fmt::Display for AppendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Full => out.write_str("the segment is full"),
            AppendError::Impossible(why) => write!(out, "invalid record: {why}"),
        }
    }
}

impl std::error::Error for AppendError {}

/// The owner's handle on an open segment, or the checker's handle on a suspect segment.
///
/// Dropping the handle does not change the segment, which stays open until a sweep finds that its
/// owner has ended.
#[derive(Debug)]
#[must_use = "a segment whose handle is dropped stays open"]
pub(crate) struct OpenSegment<W> {
    segments: Segments<W>,
    segment: u32,
    state: SegmentState,
    filled_bytes: u32,
    expires: u64,
}

impl<W: Words> OpenSegment<W> {
    pub(super) fn new(segments: Segments<W>, segment: u32, state: SegmentState) -> OpenSegment<W> {
        OpenSegment { segments, segment, state, filled_bytes: 0, expires: 0 }
    }

    /// Lets appending continue behind the records that the segment already has.
    pub(super) fn go_on(self, filled_bytes: u32, expires: u64) -> OpenSegment<W> {
        OpenSegment { filled_bytes, expires, ..self }
    }

    /// The index of the segment, which is also the index of its column of pins.
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// The state of the segment.
    #[cfg(test)]
    pub(crate) fn state(&self) -> SegmentState {
        self.state
    }

    /// The offset up to which the segment is filled.
    pub(crate) fn filled_bytes(&self) -> u32 {
        self.filled_bytes
    }

    /// The size of the longest record that still fits, header included.
    pub(crate) fn room_bytes(&self) -> u32 {
        self.segments.geometry().segment_bytes() - self.filled_bytes
    }

    /// Appends a record. It becomes visible when the caller publishes its location (release).
    ///
    /// # Errors
    /// The segment has no room, or the record is invalid. Nothing is written.
    pub(crate) fn append(&mut self, record: &NewRecord<'_>) -> Result<Location, AppendError> {
        let mut header = self.header_of(record).map_err(AppendError::Impossible)?;
        let mut checksum = RecordChecksum::of(&header);
        let before = [record.key, record.tags, record.head];
        let parts = || before.iter().chain(record.body).copied();
        parts().for_each(|part| checksum.add(part));
        header.checksum = checksum.value();
        self.write(record.marks, &header, parts())
    }

    /// Appends a copy of a record, with its sequence and checksum, and with its frozen marks.
    ///
    /// # Errors
    /// The segment has no room. Nothing is written.
    pub(crate) fn append_copy(
        &mut self,
        record: &Record<'_>,
        frozen: FrozenMarks,
    ) -> Result<Location, AppendError> {
        let segment_bytes = self.segments.geometry().segment_bytes();
        record.header.check(segment_bytes).map_err(AppendError::Impossible)?;
        self.write(frozen.marks(), &record.header, [record.payload()].into_iter())
    }

    /// Seals the segment and makes the rest of it a filler. `order` grows from seal to seal: it
    /// orders segments by age.
    ///
    /// # Errors
    /// The segment is no longer the caller's.
    ///
    /// # Safety
    /// The word of each record of this segment is live, or was removed and is not inserted again.
    pub(crate) unsafe fn seal(mut self, order: u64) -> Result<(), StateChanged> {
        self.segments.table().end_records(self.segment, self.filled_bytes);
        if self.room_bytes() > 0 {
            let location = self.segments.geometry().location(self.segment, self.filled_bytes);
            self.put(
                location,
                UNIT_BYTES,
                RecordMarks::stale_from(0),
                &RecordHeader::filler(),
                [].into_iter(),
            );
            self.filled_bytes = self.segments.geometry().segment_bytes();
            self.segments.table().fill(self.segment, self.filled_bytes);
        }
        self.segments.table().seal(self.segment, self.state, order, self.expires)
    }

    /// Gives the segment back if it is empty.
    ///
    /// # Errors
    /// The segment has records, or is no longer the caller's. The error returns the handle, to be
    /// sealed.
    pub(crate) fn give_back(self) -> Result<(), OpenSegment<W>> {
        let is_empty = self.filled_bytes == 0;
        if is_empty && self.segments.table().give_back(self.segment, self.state).is_ok() {
            return Ok(());
        }
        Err(self)
    }

    /// Makes the header of a record, without its checksum.
    fn header_of(&self, record: &NewRecord<'_>) -> Result<RecordHeader, HeaderError> {
        // A filler would end every scan before the records behind it.
        if record.kind == HeaderKind::Filler {
            return Err(HeaderError::Kind);
        }
        let short = |bytes: &[u8]| u16::try_from(bytes.len()).map_err(|_| HeaderError::TooLong);
        let body_bytes: usize = record.body.iter().map(|piece| piece.len()).sum();
        let header = RecordHeader {
            sequence: record.sequence,
            kind: record.kind,
            key_bytes: short(record.key)?,
            tags_bytes: short(record.tags)?,
            head_bytes: short(record.head)?,
            body_bytes: u32::try_from(body_bytes).map_err(|_| HeaderError::TooLong)?,
            purge_noted: record.purge_noted,
            response_time: record.response_time,
            checksum: 0,
        };
        header.check(self.segments.geometry().segment_bytes())?;
        Ok(header)
    }

    /// Writes a record, if it fits into the rest of this segment. The caller has checked the
    /// header.
    fn write<'a>(
        &mut self,
        marks: RecordMarks,
        header: &RecordHeader,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Location, AppendError> {
        let record_bytes = header.record_bytes();
        if record_bytes > u64::from(self.room_bytes()) {
            return Err(AppendError::Full);
        }
        let record_bytes = record_bytes as u32;
        let location = self.segments.geometry().location(self.segment, self.filled_bytes);
        self.put(location, record_bytes, marks, header, parts);
        crash_point!("segment.written");
        self.filled_bytes += record_bytes;
        self.expires = self.expires.max(marks.stale_from_seconds());
        self.segments.table().fill(self.segment, self.filled_bytes);
        crash_point!("segment.appended");
        Ok(location)
    }

    fn put<'a>(
        &self,
        location: Location,
        byte_count: u32,
        marks: RecordMarks,
        header: &RecordHeader,
        parts: impl Iterator<Item = &'a [u8]>,
    ) {
        // SAFETY: the segment is ours. Borrows of its old bytes had ended before it was freed, and
        // we claimed it after that. Borrows of records that we have appended end before these bytes
        // begin.
        let writer = unsafe { self.segments.data().writer(location, byte_count) };
        let mut writer = writer.expect("the record fits into its segment");
        writer.bytes(&marks.word().to_le_bytes());
        header.encode().iter().for_each(|word| writer.bytes(&word.to_le_bytes()));
        parts.for_each(|part| writer.bytes(part));
        writer.finish();
    }
}
