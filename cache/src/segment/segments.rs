//! All segments of a store: the table of their states and their bytes.

use forebay_sync::Words;

use super::append::OpenSegment;
use super::data::{SegmentData, TooFewWords, load_header};
use super::header::{HeaderError, HeaderKind};
use super::marks::MarksWord;
use super::record::Record;
use super::scan::{RecordDamage, ScannedRecord, SegmentScan};
use super::size::{Geometry, Location};
use super::state::SegmentQueue;
use super::table::{SegmentTable, StateChanged};

/// The table and the bytes of all segments.
///
/// `Segments` is a view of the words: to share it among threads, make it over `Arc`s or areas, and
/// clone it.
#[derive(Clone, Debug)]
pub(crate) struct Segments<W> {
    table: SegmentTable<W>,
    data: SegmentData<W>,
}

impl<W: Words> Segments<W> {
    /// Makes a view of the segments in these words, for `rows` participants.
    ///
    /// # Errors
    /// There are too few words.
    ///
    /// # Safety
    /// The words are initially zero, nothing else writes them, and all `Segments` over them have
    /// the same geometry and rows.
    pub(crate) unsafe fn new(
        table: W,
        data: W,
        geometry: Geometry,
        rows: u32,
    ) -> Result<Segments<W>, TooFewWords> {
        let table = SegmentTable::new(table, geometry, rows)?;
        Ok(Segments { table, data: SegmentData::new(data, geometry)? })
    }

    /// The number and the size of the segments.
    pub(crate) fn geometry(&self) -> Geometry {
        self.data.geometry()
    }

    /// The table of states.
    pub(crate) fn table(&self) -> &SegmentTable<W> {
        &self.table
    }

    pub(super) fn data(&self) -> &SegmentData<W> {
        &self.data
    }

    /// Claims a free segment; `None` if there is none. `last` is the segment that the caller
    /// claimed before; the search starts behind it.
    ///
    /// # Safety
    /// `row` is the caller's row among the participants as long as the caller owns the segment.
    pub(crate) unsafe fn claim(
        &self,
        row: u32,
        queue: SegmentQueue,
        last: Option<u32>,
    ) -> Option<OpenSegment<W>>
    where
        W: Clone,
    {
        let (segment, state) = self.table.claim(row, queue, last)?;
        Some(OpenSegment::new(self.clone(), segment, state))
    }

    /// Marks a segment suspect because its owner has ended. The owner may have appended to it, or
    /// have been checking it. [`SegmentTable::segments_where`] finds such segments.
    ///
    /// # Errors
    /// The segment is not owned by this row.
    ///
    /// # Safety
    /// The participant of this row has ended, this thread has seen that, and no participant has
    /// taken the row since.
    pub(crate) unsafe fn suspect(&self, segment: u32, row: u32) -> Result<(), StateChanged> {
        self.table.suspect(segment, row)
    }

    /// Takes a suspect segment to check it. The caller checks that each record that a word names
    /// has a [valid checksum](Segments::has_valid_checksum), or removes the word; then it seals the
    /// segment.
    ///
    /// # Errors
    /// The segment is not suspect, or another participant is checking it.
    ///
    /// # Safety
    /// The conditions of [`Segments::claim`] hold.
    pub(crate) unsafe fn adopt(
        &self,
        segment: u32,
        row: u32,
    ) -> Result<OpenSegment<W>, StateChanged>
    where
        W: Clone,
    {
        let state = self.table.adopt(segment, row)?;
        let mut expires = 0;
        let mut scan = self.scan(segment);
        let mut filled_bytes = None;
        for found in &mut scan {
            match found {
                Ok(record) => expires = expires.max(record.marks.stale_from_seconds()),
                // Words may name records behind the damage, so nothing there is overwritten.
                Err(_) => filled_bytes = Some(self.geometry().segment_bytes()),
            }
        }
        let filled_bytes = filled_bytes.unwrap_or(scan.offset_bytes());
        Ok(OpenSegment::new(self.clone(), segment, state).go_on(filled_bytes, expires))
    }

    /// Frees a draining segment.
    ///
    /// # Errors
    /// The segment is not draining.
    ///
    /// # Safety
    /// - The caller holds the eviction lock.
    /// - No word names a record of this segment, and none will: each was removed, or seen gone,
    ///   after [`SegmentTable::drain`].
    /// - After that, this thread executed [`Pins::barrier`](forebay_sync::pins::Pins::barrier), and
    ///   then found the segment without pins.
    pub(crate) unsafe fn free(&self, segment: u32) -> Result<(), StateChanged> {
        self.table.free(segment)
    }

    /// The record at a location.
    ///
    /// # Errors
    /// There is no valid record at the location.
    ///
    /// # Safety
    /// As long as the result is used, one of these holds:
    /// - the segment is pinned, and a word that names the location was loaded (acquire) under the
    ///   pin;
    /// - the segment is draining, and the caller holds the eviction lock;
    /// - the segment is the caller's [`OpenSegment`], which returned the location.
    #[inline]
    pub(crate) unsafe fn record(&self, location: Location) -> Result<Record<'_>, RecordDamage> {
        let damage = |why| RecordDamage { location, why };
        let room_bytes = self.geometry().room_bytes(location).ok_or(damage(HeaderError::NoRoom))?;
        let (marks, header) = load_header(&self.data, location, room_bytes).map_err(damage)?;
        if header.kind == HeaderKind::Filler {
            return Err(damage(HeaderError::Kind));
        }
        // SAFETY: as above (contract), so no thread writes the bytes before `filled_bytes`.
        let payload = unsafe { self.data.payload(location, header.payload_bytes() as usize) };
        let payload = payload.ok_or(damage(HeaderError::TooLong))?;
        Ok(Record::new(location, header, marks, payload))
    }

    /// The marks of the record at a location, to change them; `None` if the location is in no
    /// segment.
    ///
    /// # Safety
    /// The conditions of [`Segments::record`] hold, which has found a record there. Bytes that are
    /// not marks may be borrowed.
    #[inline]
    pub(crate) unsafe fn marks(&self, location: Location) -> Option<MarksWord<'_>> {
        self.data.marks(location)
    }

    /// The records of a segment that cannot be freed during the scan: a segment that the caller
    /// owns or pins, or a draining segment if the caller holds the eviction lock. Other segments
    /// are scanned by an [`UnpinnedReader`](super::unpinned::UnpinnedReader).
    ///
    /// If the scan ends with damage there may be records behind it. To free the segment, its
    /// reclaimer then searches the whole index for words that name it.
    pub(crate) fn scan(&self, segment: u32) -> SegmentScan<'_, SegmentData<W>> {
        let filled_bytes = self.table.filled_bytes(segment);
        SegmentScan::new(&self.data, self.geometry(), segment, filled_bytes)
    }

    /// Does the same as [`scan`](Segments::scan), from an offset at which an earlier scan found the
    /// start of a record.
    pub(crate) fn scan_from(
        &self,
        segment: u32,
        offset_bytes: u64,
    ) -> SegmentScan<'_, SegmentData<W>> {
        self.scan(segment).from(offset_bytes)
    }

    /// Appends the key of a [scanned](Segments::scan) record to `out`.
    pub(crate) fn copy_key(&self, scanned: &ScannedRecord, out: &mut Vec<u8>) {
        scanned.copy_key(&self.data, out);
    }

    /// Whether a [scanned](Segments::scan) record matches its checksum.
    #[must_use]
    pub(crate) fn has_valid_checksum(&self, scanned: &ScannedRecord) -> bool {
        scanned.has_valid_checksum(&self.data)
    }

    /// A view of the segments for a reader without pins.
    #[cfg(test)]
    pub(crate) fn unpinned(
        &self,
    ) -> super::unpinned::UnpinnedReader<'_, SegmentTable<W>, SegmentData<W>> {
        super::unpinned::UnpinnedReader::over(&self.table, &self.data, self.geometry())
    }
}
