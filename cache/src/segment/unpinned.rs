//! Reads segments without a pin: for tools, which must not write, and for checks of all segments.
//!
//! The bytes may be reused at any moment. So they are copied as words, between two loads of the
//! segment's generation:
//!
//! | reader | reclaimer and next owner |
//! |---|---|
//! | loads the generation, fence (acquire) | removes the words |
//! | loads the word that names the record, fence (acquire) | raises the generation (release) |
//! | copies | claims, fence (release) |
//! | fence (acquire), compares the generation | writes other bytes |
//!
//! A generation repeats after the segment was freed 2^32 times, so [`UnpinnedReader::copy`] also
//! checks the checksum, and its callers compare the key.

use forebay_sync::atomic::acquire_fence;

use super::data::{LoadWords, TooFewWords, each_piece, holds_segments, load_header};
use super::header::{HeaderError, HeaderKind, RecordHeader};
use super::marks::RecordMarks;
use super::record::Record;
use super::scan::{RecordDamage, ScannedRecord, SegmentScan};
use super::size::{Geometry, Location};
use super::state::{SEGMENT_WORDS, SegmentState, word};

/// A view of all segments for a reader that cannot pin.
#[derive(Debug)]
pub(crate) struct UnpinnedReader<'a, S, D> {
    states: &'a S,
    data: &'a D,
    geometry: Geometry,
}

/// A copy of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordCopy {
    location: Location,
    header: RecordHeader,
    marks: RecordMarks,
    payload: Vec<u8>,
}

/// Why a record was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyError {
    /// The record was removed or replaced during the copy; look it up again.
    Gone,
    /// There is no valid record at the location.
    Damaged(RecordDamage),
    /// The record does not match its checksum.
    BadChecksum,
}

/// The words of a segment in the segment table, all read within one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSnapshot {
    pub(crate) state: SegmentState,
    pub(crate) order: u64,
    pub(crate) filled_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) expires: u64,
}

/// The result of a scan of a segment.
#[derive(Clone, Debug)]
pub(crate) struct ScanResult {
    /// The state of the segment when the scan began.
    pub(crate) state: SegmentState,
    pub(crate) records: Vec<ScannedRecord>,
    /// The damage at which the scan ended, if it met any.
    pub(crate) damage: Option<RecordDamage>,
}

impl RecordCopy {
    /// The copied record.
    pub(crate) fn record(&self) -> Record<'_> {
        Record::new(self.location, self.header, self.marks, &self.payload)
    }
}

impl<'a, S: LoadWords, D: LoadWords> UnpinnedReader<'a, S, D> {
    /// A view of the segments in these areas.
    ///
    /// # Errors
    /// The areas have too few words.
    pub(crate) fn new(
        states: &'a S,
        data: &'a D,
        geometry: Geometry,
    ) -> Result<UnpinnedReader<'a, S, D>, TooFewWords> {
        let state_words = geometry.segment_count() as usize * SEGMENT_WORDS;
        if states.word_count() < state_words || !holds_segments(data.word_count(), geometry) {
            return Err(TooFewWords);
        }
        Ok(UnpinnedReader::over(states, data, geometry))
    }

    pub(crate) fn over(states: &'a S, data: &'a D, geometry: Geometry) -> UnpinnedReader<'a, S, D> {
        UnpinnedReader { states, data, geometry }
    }

    /// The current state of a segment; `None` if there is no such segment or its word is damaged.
    pub(crate) fn state(&self, segment: u32) -> Option<SegmentState> {
        SegmentState::of(self.word(segment, word::STATE)?)
    }

    /// The words of a segment; `None` if its state is damaged or changed during the reads.
    pub(crate) fn snapshot(&self, segment: u32) -> Option<SegmentSnapshot> {
        let state = self.begin(segment)?;
        let filled_bytes = self.word(segment, word::FILLED_BYTES)?;
        // ORDER: pairs with the release in `SegmentTable::fill`: everything that the owner did
        // before it appended the last record is visible to reads after this.
        acquire_fence("segment.filled");
        let described = SegmentSnapshot {
            state,
            order: self.word(segment, word::ORDER)?,
            filled_bytes,
            live_bytes: self.word(segment, word::LIVE_BYTES)?,
            expires: self.word(segment, word::EXPIRES)?,
        };
        (self.is_same(segment, state) && self.state(segment) == Some(state)).then_some(described)
    }

    /// Copies the header of the record at a location, and its key into `key`, as
    /// [`copy`](UnpinnedReader::copy) does. Checks the checksum if `is_checked`.
    ///
    /// # Errors
    /// The record is gone or damaged.
    pub(crate) fn copy_header(
        &self,
        location: Location,
        is_checked: bool,
        key: &mut Vec<u8>,
        is_there: impl FnOnce() -> bool,
    ) -> Result<ScannedRecord, CopyError> {
        let (marks, header, is_whole) = self.read(location, is_there, |header| {
            let scanned =
                ScannedRecord { location, header: *header, marks: RecordMarks::stale_from(0) };
            key.clear();
            scanned.copy_key(self.data, key);
            !is_checked || scanned.has_valid_checksum(self.data)
        })?;
        if !is_whole {
            return Err(CopyError::BadChecksum);
        }
        Ok(ScannedRecord { location, header, marks })
    }

    /// Copies the record at a location, if `is_there` returns true: the closure loads the word that
    /// names the location once more, relaxed, and compares it.
    ///
    /// # Errors
    /// The record is gone or damaged.
    pub(crate) fn copy(
        &self,
        location: Location,
        is_there: impl FnOnce() -> bool,
    ) -> Result<RecordCopy, CopyError> {
        let copied = self.copy_unchecked(location, is_there)?;
        if !copied.record().has_valid_checksum() {
            return Err(CopyError::BadChecksum);
        }
        Ok(copied)
    }

    /// Does the same as [`copy`](UnpinnedReader::copy), but without the check of the checksum,
    /// which would hide torn copies from a model.
    pub(super) fn copy_unchecked(
        &self,
        location: Location,
        is_there: impl FnOnce() -> bool,
    ) -> Result<RecordCopy, CopyError> {
        let (marks, header, payload) = self.read(location, is_there, |header| {
            let byte_count = header.payload_bytes() as usize;
            let mut payload = Vec::with_capacity(byte_count);
            each_piece(self.data, location, byte_count, |piece| payload.extend_from_slice(piece));
            payload
        })?;
        Ok(RecordCopy { location, header, marks, payload })
    }

    /// Calls `take` on the header at a location, between two loads of the generation.
    fn read<T>(
        &self,
        location: Location,
        is_there: impl FnOnce() -> bool,
        take: impl FnOnce(&RecordHeader) -> T,
    ) -> Result<(RecordMarks, RecordHeader, T), CopyError> {
        let damage = |why| CopyError::Damaged(RecordDamage { location, why });
        let room_bytes = self.geometry.room_bytes(location).ok_or(damage(HeaderError::NoRoom))?;
        let segment = self.geometry.segment_of(location).ok_or(damage(HeaderError::NoRoom))?;
        let before = self.begin(segment).ok_or(CopyError::Gone)?;
        if !is_there() {
            return Err(CopyError::Gone);
        }
        // ORDER: pairs with the release that published the word: the record is complete.
        acquire_fence("segment.named");
        let loaded = load_header(self.data, location, room_bytes);
        let taken = loaded.map(|(marks, header)| (marks, header, take(&header)));
        if !self.is_same(segment, before) {
            return Err(CopyError::Gone);
        }
        let (marks, header, taken) = taken.map_err(damage)?;
        if header.kind == HeaderKind::Filler {
            return Err(damage(HeaderError::Kind));
        }
        Ok((marks, header, taken))
    }

    /// Scans a segment. `None` if it was freed during the scan, or if its state is damaged.
    pub(crate) fn walk(&self, segment: u32) -> Option<ScanResult> {
        let state = self.begin(segment)?;
        let filled_bytes = self.word(segment, word::FILLED_BYTES)?;
        // ORDER: pairs with the release in `SegmentTable::fill`: the records are complete.
        acquire_fence("segment.filled");
        let mut walked = ScanResult { state, records: Vec::new(), damage: None };
        for found in SegmentScan::new(self.data, self.geometry, segment, filled_bytes) {
            match found {
                Ok(record) => walked.records.push(record),
                Err(damage) => walked.damage = Some(damage),
            }
        }
        self.is_same(segment, state).then_some(walked)
    }

    fn begin(&self, segment: u32) -> Option<SegmentState> {
        let state = self.state(segment)?;
        // ORDER: pairs with the release in `SegmentTable::free`: if this generation is the new one,
        // the words that named the old records are gone.
        acquire_fence("segment.generation");
        Some(state)
    }

    /// Whether the segment still has the generation that `begin` returned, so that nothing was
    /// overwritten.
    fn is_same(&self, segment: u32, before: SegmentState) -> bool {
        // ORDER: pairs with the release fence in `SegmentTable::open`: if we have loaded a word of
        // the next owner, we see the new generation.
        acquire_fence("segment.copied");
        self.state(segment).is_some_and(|now| now.generation == before.generation)
    }

    fn word(&self, segment: u32, number: usize) -> Option<u64> {
        let is_there = segment < self.geometry.segment_count();
        is_there.then(|| self.states.load(segment as usize * SEGMENT_WORDS + number))
    }
}
