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

/// Table and bytes of all segments.
///
/// It is a view: to have it in several threads, make it over `Arc`s or areas, and clone it.
#[derive(Clone, Debug)]
pub(crate) struct Segments<W> {
    table: SegmentTable<W>,
    data: SegmentData<W>,
}

impl<W: Words> Segments<W> {
    /// The segments that lie in these words, for `rows` participants.
    ///
    /// # Errors
    /// The words are too few.
    ///
    /// # Safety
    /// The words are zero at first, nothing else writes them, and all `Segments` over them have the
    /// same geometry and rows.
    pub(crate) unsafe fn new(
        table: W,
        data: W,
        geometry: Geometry,
        rows: u32,
    ) -> Result<Segments<W>, TooFewWords> {
        let table = SegmentTable::new(table, geometry, rows)?;
        Ok(Segments { table, data: SegmentData::new(data, geometry)? })
    }

    /// How memory is divided.
    pub(crate) fn geometry(&self) -> Geometry {
        self.data.geometry()
    }

    /// The states.
    pub(crate) fn table(&self) -> &SegmentTable<W> {
        &self.table
    }

    pub(super) fn data(&self) -> &SegmentData<W> {
        &self.data
    }

    /// Takes a free segment; `None` if there is none. `last` is the one that the caller had before.
    ///
    /// # Safety
    /// `row` is the caller's row among the participants, for as long as it has the segment.
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

    /// The owner of an open segment has ended: the segment becomes suspect. Also that of one who
    /// was checking a suspect segment. [`SegmentTable::segments_where`] finds them.
    ///
    /// # Errors
    /// The segment has no owner of this row.
    ///
    /// # Safety
    /// The participant of this row has ended, this thread has seen that it has, and nobody has
    /// taken the row since.
    pub(crate) unsafe fn suspect(&self, segment: u32, row: u32) -> Result<(), StateChanged> {
        self.table.suspect(segment, row)
    }

    /// Takes a suspect segment to check it: each record that a word names has to be
    /// [whole](Segments::has_valid_checksum), or the word is taken out; then the segment is sealed.
    ///
    /// # Errors
    /// It is not suspect, or somebody is checking it.
    ///
    /// # Safety
    /// As for [`Segments::claim`].
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
                // Words may name what lies behind it: nothing there is written over.
                Err(_) => filled_bytes = Some(self.geometry().segment_bytes()),
            }
        }
        let filled_bytes = filled_bytes.unwrap_or(scan.offset_bytes());
        Ok(OpenSegment::new(self.clone(), segment, state).go_on(filled_bytes, expires))
    }

    /// Gives a draining segment back.
    ///
    /// # Errors
    /// It is not draining.
    ///
    /// # Safety
    /// - The caller holds the eviction lock.
    /// - No word names a record of this segment, and none will: each was taken out, or seen gone,
    ///   after [`SegmentTable::drain`].
    /// - After that and a [`Pins::barrier`](forebay_sync::pins::Pins::barrier) nobody was seen to
    ///   pin the segment, nor to lease a record of it.
    pub(crate) unsafe fn free(&self, segment: u32) -> Result<(), StateChanged> {
        self.table.free(segment)
    }

    /// The record at a place.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Safety
    /// As long as the result is used, one of these holds:
    /// - the segment is pinned, and a word that names the place was loaded (acquire) under the pin;
    /// - the segment is draining, and the caller holds the eviction lock;
    /// - the segment is the caller's [`OpenSegment`], which returned the place.
    #[inline]
    pub(crate) unsafe fn record(&self, location: Location) -> Result<Record<'_>, RecordDamage> {
        let damage = |why| RecordDamage { location, why };
        let room_bytes = self.geometry().room_bytes(location).ok_or(damage(HeaderError::NoRoom))?;
        let (marks, header) = load_header(&self.data, location, room_bytes).map_err(damage)?;
        if header.kind == HeaderKind::Filler {
            return Err(damage(HeaderError::Kind));
        }
        // SAFETY: as above (contract), so that nobody writes what lies before `filled_bytes`.
        let payload = unsafe { self.data.payload(location, header.payload_bytes() as usize) };
        let payload = payload.ok_or(damage(HeaderError::TooLong))?;
        Ok(Record::new(location, header, marks, payload))
    }

    /// The marks of the record at a place, to change them; `None` if there is no such place.
    ///
    /// # Safety
    /// As for [`Segments::record`], which has found a record there: elsewhere these could be bytes
    /// that somebody borrows.
    #[inline]
    pub(crate) unsafe fn marks(&self, location: Location) -> Option<MarksWord<'_>> {
        self.data.marks(location)
    }

    /// The records of a segment that cannot be freed meanwhile: the caller's own, a draining one of
    /// the eviction lock's holder, or one that is pinned. For all others there is
    /// [`Segments::unpinned`].
    ///
    /// If it ends with damage there may be records behind it. Who wants to free the segment then
    /// looks through the whole index for words that name it.
    pub(crate) fn scan(&self, segment: u32) -> SegmentScan<'_, SegmentData<W>> {
        let filled_bytes = self.table.filled_bytes(segment);
        SegmentScan::new(&self.data, self.geometry(), segment, filled_bytes)
    }

    /// The same from the record on that begins at an offset which a walk has come to.
    pub(crate) fn scan_from(
        &self,
        segment: u32,
        offset_bytes: u64,
    ) -> SegmentScan<'_, SegmentData<W>> {
        self.scan(segment).from(offset_bytes)
    }

    /// Appends the key of a record that a [scan](Segments::scan) came by to `out`.
    pub(crate) fn copy_key(&self, scanned: &ScannedRecord, out: &mut Vec<u8>) {
        scanned.copy_key(&self.data, out);
    }

    /// Is the checksum of a record right that a [scan](Segments::scan) came by?
    #[must_use]
    pub(crate) fn has_valid_checksum(&self, scanned: &ScannedRecord) -> bool {
        scanned.has_valid_checksum(&self.data)
    }

    /// All segments as somebody sees them who pins nothing.
    #[cfg(test)]
    pub(crate) fn unpinned(
        &self,
    ) -> super::unpinned::UnpinnedReader<'_, SegmentTable<W>, SegmentData<W>> {
        super::unpinned::UnpinnedReader::over(&self.table, &self.data, self.geometry())
    }
}
