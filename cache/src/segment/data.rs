//! The bytes of all segments.
//!
//! The bytes are written and scanned as words. So a scan of a segment during an append finds old
//! words or new words, and there is no data race. Only
//! [`Segments::record`](super::Segments::record) borrows bytes, under a contract. Storing words
//! takes 1.7 µs longer for 64 KiB than copying bytes would.

use std::fmt;

#[cfg(not(loom))]
use forebay_shm::{Area, ReadOnlyArea};
use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;

use super::header::{HEADER_BYTES, HEADER_WORDS, HeaderError, RecordHeader};
use super::marks::{MarksWord, RecordMarks};
#[cfg(loom)]
use super::shadow::ByteShadow;
use super::size::{Geometry, Location, UNIT_WORDS};

// Bytes are borrowed from words that were stored as numbers, so both must have the same byte order.
const _: () = assert!(cfg!(target_endian = "little"));

const WORD_BYTES: usize = 8;

/// Words that can be loaded one by one.
pub(crate) trait LoadWords {
    /// The number of words.
    fn word_count(&self) -> usize;

    /// Loads one word, relaxed.
    ///
    /// # Panics
    /// If there is no such word.
    fn load(&self, index: usize) -> u64;
}

#[cfg(not(loom))]
impl LoadWords for ReadOnlyArea {
    fn word_count(&self) -> usize {
        ReadOnlyArea::word_count(self)
    }

    fn load(&self, index: usize) -> u64 {
        ReadOnlyArea::load(self, index)
    }
}

#[cfg(not(loom))]
impl LoadWords for Area {
    fn word_count(&self) -> usize {
        Words::word_count(self)
    }

    fn load(&self, index: usize) -> u64 {
        self.word(index).load(Relaxed)
    }
}

/// Why a view was not made: an area has fewer words than its segments need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFewWords;

impl fmt::Display for TooFewWords {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the area has fewer words than its segments need")
    }
}

impl std::error::Error for TooFewWords {}

/// The memory of all segments, and how it is divided.
#[derive(Clone, Debug)]
pub(crate) struct SegmentData<W> {
    memory: W,
    geometry: Geometry,
    #[cfg(loom)]
    shadow: std::sync::Arc<ByteShadow>,
}

impl<W: Words> LoadWords for SegmentData<W> {
    fn word_count(&self) -> usize {
        self.memory.word_count()
    }

    #[inline]
    fn load(&self, index: usize) -> u64 {
        self.memory.word(index).load(Relaxed)
    }
}

impl<W: Words> SegmentData<W> {
    pub(super) fn new(memory: W, geometry: Geometry) -> Result<SegmentData<W>, TooFewWords> {
        if !holds_segments(memory.word_count(), geometry) {
            return Err(TooFewWords);
        }
        Ok(SegmentData {
            #[cfg(loom)]
            shadow: std::sync::Arc::new(ByteShadow::new(memory.word_count())),
            memory,
            geometry,
        })
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The word of marks at a location; `None` if the location is in no segment.
    #[inline]
    pub(super) fn marks(&self, location: Location) -> Option<MarksWord<'_>> {
        self.geometry.segment_of(location)?;
        Some(MarksWord::new(self.memory.word(first_word(location))))
    }

    /// The bytes behind the header of the record at a location; `None` if they exceed its segment.
    ///
    /// # Safety
    /// No thread writes the bytes while they are borrowed: the record is complete, and its segment
    /// is pinned, is the caller's, or is draining while the caller holds the eviction lock.
    #[inline]
    pub(super) unsafe fn payload(&self, location: Location, byte_count: usize) -> Option<&[u8]> {
        let room_bytes = self.geometry.room_bytes(location)?.saturating_sub(HEADER_BYTES);
        if byte_count > room_bytes as usize {
            return None;
        }
        let first = first_word(location) + HEADER_WORDS;
        let words = self.memory.all().get(first..first + byte_count.div_ceil(WORD_BYTES))?;
        #[cfg(not(loom))]
        let start = words.as_ptr().cast::<u8>();
        #[cfg(loom)]
        let start = self.shadow.read(first, words.len());
        // SAFETY:
        // - The bytes lie in `words`, which are initialised and live as long as `self`.
        // - No thread writes them while they are borrowed (contract). No marks are among them:
        //   those of this record precede its header, and those of the next one are in the next
        //   unit.
        Some(unsafe { std::slice::from_raw_parts(start, byte_count) })
    }

    /// A writer of `byte_count` bytes at a location, a multiple of the size of a unit; `None` if
    /// they exceed the location's segment.
    ///
    /// # Safety
    /// No thread borrows these bytes while the writer is used, and later borrows are ordered after
    /// the writes.
    pub(super) unsafe fn writer(
        &self,
        location: Location,
        byte_count: u32,
    ) -> Option<RecordWriter<'_, W>> {
        if byte_count > self.geometry.room_bytes(location)? {
            return None;
        }
        let next = first_word(location);
        let end = next + byte_count as usize / WORD_BYTES;
        Some(RecordWriter { data: self, next, end, pending: [0; WORD_BYTES], pending_count: 0 })
    }
}

/// Writes bytes as words, one piece after another.
#[derive(Debug)]
pub(super) struct RecordWriter<'a, W> {
    data: &'a SegmentData<W>,
    next: usize,
    end: usize,
    /// The first bytes of the next word, which is written once it is complete.
    pending: [u8; WORD_BYTES],
    pending_count: usize,
}

impl<W: Words> RecordWriter<'_, W> {
    /// Appends bytes. Bytes beyond the end are dropped.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let wanted = (WORD_BYTES - self.pending_count) % WORD_BYTES;
        let (first, rest) = bytes.split_at(wanted.min(bytes.len()));
        self.pend(first);
        let (words, last) = rest.as_chunks();
        self.words(words);
        self.pend(last);
    }

    /// Fills the rest with zeros.
    pub(super) fn finish(mut self) {
        if self.pending_count > 0 {
            self.pend(&[0; WORD_BYTES][self.pending_count..]);
        }
        while self.next < self.end {
            self.words(&[[0; WORD_BYTES]]);
        }
    }

    /// Appends bytes to the pending word. The caller passes no more bytes than the word lacks.
    fn pend(&mut self, bytes: &[u8]) {
        self.pending[self.pending_count..][..bytes.len()].copy_from_slice(bytes);
        self.pending_count += bytes.len();
        if self.pending_count == WORD_BYTES {
            self.words(&[self.pending]);
            self.pending_count = 0;
        }
    }

    fn words(&mut self, words: &[[u8; WORD_BYTES]]) {
        let room = &self.data.memory.all()[self.next..self.end];
        #[cfg(loom)]
        self.data.shadow.write(self.next, &words[..words.len().min(room.len())]);
        for (word, bytes) in room.iter().zip(words) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        self.next += words.len().min(room.len());
    }
}

/// The index of the first word of the unit at a location.
#[inline]
pub(super) fn first_word(location: Location) -> usize {
    location.0 as usize * UNIT_WORDS
}

/// Whether there are enough words for all segments.
pub(super) fn holds_segments(word_count: usize, geometry: Geometry) -> bool {
    geometry.data_bytes() / WORD_BYTES as u64 <= word_count as u64
}

/// Loads marks and header at a location, whose unit must exist.
#[inline]
pub(super) fn load_header(
    words: &impl LoadWords,
    location: Location,
    room_bytes: u32,
) -> Result<(RecordMarks, RecordHeader), HeaderError> {
    let first = first_word(location);
    let header = std::array::from_fn(|index| words.load(first + 1 + index));
    Ok((RecordMarks::of(words.load(first)), RecordHeader::decode(header, room_bytes)?))
}

/// Calls `show` with the bytes behind the header of the record at a location, piece by piece. The
/// bytes must exist.
pub(super) fn each_piece(
    words: &impl LoadWords,
    location: Location,
    byte_count: usize,
    mut show: impl FnMut(&[u8]),
) {
    const PIECE_WORDS: usize = 64;
    let mut next = first_word(location) + HEADER_WORDS;
    let mut left = byte_count;
    while left > 0 {
        let mut piece = [[0; WORD_BYTES]; PIECE_WORDS];
        let count = left.div_ceil(WORD_BYTES).min(PIECE_WORDS);
        for (index, bytes) in piece[..count].iter_mut().enumerate() {
            *bytes = words.load(next + index).to_le_bytes();
        }
        let shown = left.min(count * WORD_BYTES);
        show(&piece.as_flattened()[..shown]);
        next += count;
        left -= shown;
    }
}
