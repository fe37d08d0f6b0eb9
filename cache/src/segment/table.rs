//! The table of segments: the state and the owner of each, and whether it may be reclaimed.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `state` | see below; compare-and-swap only | all |
//! | `order`, `expires`, `records_bytes` | owner, before sealing; `free` | reclaimer |
//! | `filled_bytes` | owner; `free` | scans |
//! | `live_bytes` | publishers, removers, reclaimer, checker; a hint | reclaimer |
//!
//! | step | by | hands over |
//! |---|---|---|
//! | `claim`: free → open | a participant that needs a segment | |
//! | `give_back`: open → free | owner of an empty segment | |
//! | `seal`: open or adopted → sealed | owner | index words, `order`, `expires`, `records_bytes` |
//! | `suspect`: open or adopted → suspect | finder of the owner's death | the dead owner's writes |
//! | `adopt`: suspect → adopted (suspect, with an owner) | next owner, to check it | |
//! | `drain`: sealed → draining | reclaimer | |
//! | `free`: draining → free, generation + 1 | reclaimer | the end of all reads |
//!
//! Every step is one compare-and-swap of a word of one segment. So there is no cache line that all
//! participants write. The chain of read-modify-writes that begins with `free` reaches each later
//! owner, even if another participant claimed the segment and gave it back before.
//!
//! Invariants:
//! - No index word names a record in a free segment.
//! - The generation is raised before the first byte is overwritten.

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Ordering, Relaxed, acquire, release, release_fence};

use super::data::{LoadWords, TooFewWords};
use super::size::Geometry;
use super::state::{ROWS_MAX, SEGMENT_WORDS, SegmentPhase, SegmentQueue, SegmentState, word};

/// The segment is not in the state from which the step starts. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateChanged;

/// The states of all segments, in shared words.
///
/// A `SegmentTable` is a view of the words: to share it among threads, make it over `Arc`s or
/// areas, and clone it.
#[derive(Clone, Debug)]
pub(crate) struct SegmentTable<W> {
    words: W,
    geometry: Geometry,
    row_count: u32,
}

impl<W: Words> LoadWords for SegmentTable<W> {
    fn word_count(&self) -> usize {
        self.words.word_count()
    }

    fn load(&self, index: usize) -> u64 {
        self.words.word(index).load(Relaxed)
    }
}

impl<W: Words> SegmentTable<W> {
    /// The number of words that a table needs. All words must initially be zero.
    pub(crate) fn words_needed(geometry: Geometry) -> usize {
        geometry.segment_count() as usize * SEGMENT_WORDS
    }

    /// Makes a view of the table in `words`, beginning at the first word, for `rows` participants.
    pub(super) fn new(
        words: W,
        geometry: Geometry,
        rows: u32,
    ) -> Result<SegmentTable<W>, TooFewWords> {
        assert!(
            rows > 0 && rows <= ROWS_MAX,
            "a segment table is for 1 to {ROWS_MAX} rows of participants, not for {rows}"
        );
        if words.word_count() < SegmentTable::<W>::words_needed(geometry) {
            return Err(TooFewWords);
        }
        Ok(SegmentTable { words, geometry, row_count: rows })
    }

    /// The number of segments.
    pub(crate) fn segment_count(&self) -> u32 {
        self.geometry.segment_count()
    }

    /// The current state of a segment; `None` if there is no such segment or its word is damaged.
    #[inline]
    pub(crate) fn state(&self, segment: u32) -> Option<SegmentState> {
        SegmentState::of(self.word(segment, word::STATE)?.load(Relaxed))
    }

    /// The segments for whose state `fits` returns true. A hint: states change while this runs.
    pub(crate) fn segments_where(
        &self,
        fits: impl Fn(SegmentState) -> bool,
    ) -> impl Iterator<Item = u32> {
        (0..self.segment_count()).filter(move |segment| self.state(*segment).is_some_and(&fits))
    }

    /// The number with which a segment was sealed. These numbers order segments by age.
    pub(crate) fn order(&self, segment: u32) -> u64 {
        self.glance(segment, word::ORDER)
    }

    /// The Unix second from which all records of a segment are stale.
    pub(crate) fn expires(&self, segment: u32) -> u64 {
        self.glance(segment, word::EXPIRES)
    }

    /// The bytes of all records of a segment, without the filler.
    pub(crate) fn records_bytes(&self, segment: u32) -> u64 {
        self.glance(segment, word::RECORDS_BYTES)
    }

    /// The bytes of the live records of a segment, as last counted.
    pub(crate) fn live_bytes(&self, segment: u32) -> u64 {
        self.glance(segment, word::LIVE_BYTES)
    }

    /// Sets the count of bytes of live records of a segment.
    pub(crate) fn set_live_bytes(&self, segment: u32, bytes: u64) {
        self.put(segment, word::LIVE_BYTES, bytes);
    }

    /// Adds the bytes of a record that is about to be published.
    pub(crate) fn add_live_bytes(&self, segment: u32, bytes: u64) {
        if let Some(live) = self.word(segment, word::LIVE_BYTES) {
            live.fetch_add(bytes, Relaxed);
        }
    }

    /// Subtracts the bytes of a record whose word was removed. The count never goes below zero,
    /// since it may be too low after a death.
    pub(crate) fn subtract_live_bytes(&self, segment: u32, bytes: u64) {
        let Some(live) = self.word(segment, word::LIVE_BYTES) else {
            return;
        };
        let mut now = live.load(Relaxed);
        while let Err(other) =
            live.compare_exchange_weak(now, now.saturating_sub(bytes), Relaxed, Relaxed)
        {
            now = other;
        }
    }

    /// The offset up to which a segment is filled with complete records.
    #[inline]
    pub(crate) fn filled_bytes(&self, segment: u32) -> u64 {
        let Some(filled) = self.word(segment, word::FILLED_BYTES) else {
            return 0;
        };
        // ORDER: pairs with the release in `fill`.
        filled.load(acquire("segment.walk"))
    }

    /// Claims a free segment for the participant of a row; `None` if there is none.
    ///
    /// The search starts behind `last`, the caller's previous segment, since segments that were
    /// claimed in sequence are freed in sequence. The first search starts at an offset that depends
    /// on the row, so that no two participants start at the same segment.
    pub(super) fn claim(
        &self,
        row: u32,
        queue: SegmentQueue,
        last: Option<u32>,
    ) -> Option<(u32, SegmentState)> {
        assert!(
            row < self.row_count,
            "the segment table has {} rows, so it has no row {row}",
            self.row_count
        );
        let count = self.segment_count();
        let home = u64::from(row) * u64::from(count) / u64::from(self.row_count);
        let start = last.map_or(home as u32, |last| last.wrapping_add(1)) % count;
        let all = (start..count).chain(0..start);
        let mut claimed =
            all.filter_map(|segment| Some((segment, self.open(segment, row, queue).ok()?)));
        let claimed = claimed.next()?;
        crash_point!("segment.claimed");
        Some(claimed)
    }

    fn open(
        &self,
        segment: u32,
        row: u32,
        queue: SegmentQueue,
    ) -> Result<SegmentState, StateChanged> {
        let free = self.found(segment, |state| state.phase == SegmentPhase::Free)?;
        let own = SegmentState { phase: SegmentPhase::Open, queue, owner: Some(row), ..free };
        // ORDER: pairs with the release in `free`: readers of the old bytes were done before we
        // overwrite them.
        self.step(segment, free, own, acquire("segment.claim"))?;
        // ORDER: pairs with the fence in `UnpinnedReader::is_same`, behind each copy: a reader that
        // has copied a word that we are going to write sees the new generation.
        release_fence("segment.overwrite");
        Ok(own)
    }

    /// Publishes that everything before `filled_bytes` is written.
    pub(super) fn fill(&self, segment: u32, filled_bytes: u32) {
        if let Some(filled) = self.word(segment, word::FILLED_BYTES) {
            // ORDER: pairs with the acquire in `filled_bytes`: the records are there.
            filled.store(u64::from(filled_bytes), release("segment.fill"));
        }
    }

    /// Records the end of the last record, before the segment is sealed.
    pub(super) fn end_records(&self, segment: u32, records_bytes: u32) {
        self.put(segment, word::RECORDS_BYTES, u64::from(records_bytes));
    }

    /// Seals the segment; only for its owner. `expires` is the latest time at which a record of it
    /// becomes stale.
    pub(super) fn seal(
        &self,
        segment: u32,
        own: SegmentState,
        order: u64,
        expires: u64,
    ) -> Result<(), StateChanged> {
        self.put(segment, word::ORDER, order);
        self.put(segment, word::EXPIRES, expires);
        // ORDER: pairs with the acquire in `drain`: the reclaimer sees every word that names one of
        // its records, `order` and `expires`.
        self.step(segment, own, own.with(SegmentPhase::Sealed), release("segment.seal"))?;
        crash_point!("segment.sealed");
        Ok(())
    }

    /// Frees the segment again; only for an owner that has written nothing.
    pub(super) fn give_back(&self, segment: u32, own: SegmentState) -> Result<(), StateChanged> {
        // Relaxed: nothing of ours is in the segment, and a read-modify-write continues the release
        // of `free`.
        self.step(segment, own, own.with(SegmentPhase::Free), Relaxed)
    }

    /// Marks a segment of a dead owner, or of a dead checker, suspect.
    pub(super) fn suspect(&self, segment: u32, row: u32) -> Result<(), StateChanged> {
        let state = self.found(segment, |state| state.owner == Some(row))?;
        // ORDER: pairs with the acquire in `adopt`: this publishes the index words of the dead
        // owner, which we have seen since we found it dead.
        self.step(segment, state, state.with(SegmentPhase::Suspect), release("segment.suspect"))?;
        crash_point!("segment.suspect");
        Ok(())
    }

    /// Takes a suspect segment without an owner, to be checked by the participant of this row.
    pub(super) fn adopt(&self, segment: u32, row: u32) -> Result<SegmentState, StateChanged> {
        assert!(
            row < self.row_count,
            "the segment table has {} rows, so it has no row {row}",
            self.row_count
        );
        let is_nobodys = |state: SegmentState| state.is_suspect() && state.owner.is_none();
        let state = self.found(segment, is_nobodys)?;
        let own = SegmentState { owner: Some(row), ..state };
        // ORDER: pairs with the release in `suspect`: we see what the dead owner published.
        self.step(segment, state, own, acquire("segment.adopt"))?;
        crash_point!("segment.adopted");
        Ok(own)
    }

    /// Begins to reclaim a sealed segment. The caller holds the eviction lock.
    ///
    /// # Errors
    /// The segment is not sealed.
    pub(crate) fn drain(&self, segment: u32) -> Result<SegmentState, StateChanged> {
        let state = self.found(segment, |state| state.phase == SegmentPhase::Sealed)?;
        let draining = state.with(SegmentPhase::Draining);
        // ORDER: pairs with the release in `seal`.
        self.step(segment, state, draining, acquire("segment.drain"))?;
        crash_point!("segment.draining");
        Ok(draining)
    }

    /// Frees a draining segment.
    pub(super) fn free(&self, segment: u32) -> Result<(), StateChanged> {
        let state = self.found(segment, |state| state.phase == SegmentPhase::Draining)?;
        (word::ORDER..=word::RECORDS_BYTES).for_each(|number| self.put(segment, number, 0));
        crash_point!("segment.emptied");
        let generation = state.generation.wrapping_add(1);
        let free = SegmentState { generation, ..state.with(SegmentPhase::Free) };
        // ORDER: pairs with the acquire in `open`: our reads of the segment, and those of readers
        // whose pins we saw lowered, come before the next owner's writes. Pairs with the fence in
        // `UnpinnedReader::begin`: nothing of this generation is filled yet.
        self.step(segment, state, free, release("segment.free"))?;
        crash_point!("segment.freed");
        Ok(())
    }

    /// The current state of a segment, if `fits` returns true for it.
    fn found(
        &self,
        segment: u32,
        fits: impl Fn(SegmentState) -> bool,
    ) -> Result<SegmentState, StateChanged> {
        self.state(segment).filter(|state| fits(*state)).ok_or(StateChanged)
    }

    fn step(
        &self,
        segment: u32,
        from: SegmentState,
        to: SegmentState,
        order: Ordering,
    ) -> Result<(), StateChanged> {
        let word = self.word(segment, word::STATE).ok_or(StateChanged)?;
        let swapped = word.compare_exchange(from.word(), to.word(), order, Relaxed);
        swapped.map(|_| ()).map_err(|_| StateChanged)
    }

    fn put(&self, segment: u32, number: usize, value: u64) {
        if let Some(word) = self.word(segment, number) {
            word.store(value, Relaxed);
        }
    }

    fn glance(&self, segment: u32, number: usize) -> u64 {
        self.word(segment, number).map_or(0, |word| word.load(Relaxed))
    }

    #[inline]
    fn word(&self, segment: u32, number: usize) -> Option<&AtomicU64> {
        if segment >= self.segment_count() {
            return None;
        }
        Some(self.words.word(segment as usize * SEGMENT_WORDS + number))
    }
}
