//! The table of segments: which are free, whose is which, what may be reclaimed.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `state` | see below; compare-and-swap only | all |
//! | `order`, `expires`, `records_bytes` | owner, before sealing; who frees | reclaimer |
//! | `filled_bytes` | owner; who frees | who walks over the records |
//! | `live_bytes` | who publishes or takes out a word, reclaimer, who checks; a hint | reclaimer |
//!
//! | step | by | hands over |
//! |---|---|---|
//! | `claim`: free → open | whoever needs a segment | |
//! | `give_back`: open → free | owner, if nothing was put in | |
//! | `seal`: open or adopted → sealed | owner | its words, `order`, `expires`, `records_bytes` |
//! | `suspect`: open or adopted → suspect | who found the owner dead | the dead one's words |
//! | `adopt`: suspect → adopted (suspect, with an owner) | who is going to check it | |
//! | `drain`: sealed → draining | reclaimer | |
//! | `free`: draining → free, generation + 1 | reclaimer | what readers have read |
//!
//! Every step is one compare-and-swap of a word that only one segment has; so there is no line that
//! all participants write, and the chain of read-modify-writes that begins with `free` reaches each
//! later owner, also over one who gave the segment back.
//!
//! Invariants:
//! - A word that names a record names a segment that is not free.
//! - A generation is raised before the first byte is written over.

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Ordering, Relaxed, acquire, release, release_fence};

use super::data::{LoadWords, TooFewWords};
use super::size::Geometry;
use super::state::{ROWS_MAX, SEGMENT_WORDS, SegmentPhase, SegmentQueue, SegmentState, word};

/// The segment is not in the state that the step begins with; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateChanged;

/// The states of all segments, in shared words.
///
/// It is a view: to have it in several threads, make it over `Arc`s or areas, and clone it.
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
    /// How many words a table takes; all zero at first.
    pub(crate) fn words_needed(geometry: Geometry) -> usize {
        geometry.segment_count() as usize * SEGMENT_WORDS
    }

    /// The table that lies in `words`, from the first one on, for so many participants.
    pub(super) fn new(
        words: W,
        geometry: Geometry,
        rows: u32,
    ) -> Result<SegmentTable<W>, TooFewWords> {
        assert!(rows > 0 && rows <= ROWS_MAX, "{rows} rows of participants");
        if words.word_count() < SegmentTable::<W>::words_needed(geometry) {
            return Err(TooFewWords);
        }
        Ok(SegmentTable { words, geometry, row_count: rows })
    }

    /// How many segments there are.
    pub(crate) fn segment_count(&self) -> u32 {
        self.geometry.segment_count()
    }

    /// The state of a segment now; `None` if there is no such segment, or if its word is damaged.
    #[inline]
    pub(crate) fn state(&self, segment: u32) -> Option<SegmentState> {
        SegmentState::of(self.word(segment, word::STATE)?.load(Relaxed))
    }

    /// The segments whose state fits: a glance, as states change meanwhile.
    pub(crate) fn segments_where(
        &self,
        fits: impl Fn(SegmentState) -> bool,
    ) -> impl Iterator<Item = u32> {
        (0..self.segment_count()).filter(move |segment| self.state(*segment).is_some_and(&fits))
    }

    /// When it was sealed.
    pub(crate) fn order(&self, segment: u32) -> u64 {
        self.glance(segment, word::ORDER)
    }

    /// From when on all its records are stale, in Unix seconds.
    pub(crate) fn expires(&self, segment: u32) -> u64 {
        self.glance(segment, word::EXPIRES)
    }

    /// Bytes of all its records, without the filler behind them.
    pub(crate) fn records_bytes(&self, segment: u32) -> u64 {
        self.glance(segment, word::RECORDS_BYTES)
    }

    /// Bytes of records that were live when last counted.
    pub(crate) fn live_bytes(&self, segment: u32) -> u64 {
        self.glance(segment, word::LIVE_BYTES)
    }

    /// Says how many bytes of its records are live.
    pub(crate) fn set_live_bytes(&self, segment: u32, bytes: u64) {
        self.put(segment, word::LIVE_BYTES, bytes);
    }

    /// Counts bytes of a record that is about to be published.
    pub(crate) fn add_live_bytes(&self, segment: u32, bytes: u64) {
        if let Some(live) = self.word(segment, word::LIVE_BYTES) {
            live.fetch_add(bytes, Relaxed);
        }
    }

    /// Counts bytes of a record whose word was taken out. Never below zero: after a death the count
    /// may be too low.
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

    /// How far it has been written, as its owner says: all before it is there.
    #[inline]
    pub(crate) fn filled_bytes(&self, segment: u32) -> u64 {
        let Some(filled) = self.word(segment, word::FILLED_BYTES) else {
            return 0;
        };
        // ORDER: pairs with the release in `fill`.
        filled.load(acquire("segment.walk"))
    }

    /// Takes a free segment for the participant of a row; `None` if there is none.
    ///
    /// It looks behind `last`, which it had before, since what was claimed in a row is freed in a
    /// row; at first at a place of its own, so that no two begin at the same.
    pub(super) fn claim(
        &self,
        row: u32,
        queue: SegmentQueue,
        last: Option<u32>,
    ) -> Option<(u32, SegmentState)> {
        assert!(row < self.row_count, "row {row} of {}", self.row_count);
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
        // ORDER: pairs with the release in `free`: what was read there has been read before we
        // write over it.
        self.step(segment, free, own, acquire("segment.claim"))?;
        // ORDER: pairs with the fence behind the copy in `UnpinnedReader::copy`: who has copied a
        // word that we are going to write sees the new generation.
        release_fence("segment.overwrite");
        Ok(own)
    }

    /// Says that all before `filled_bytes` is written.
    pub(super) fn fill(&self, segment: u32, filled_bytes: u32) {
        if let Some(filled) = self.word(segment, word::FILLED_BYTES) {
            // ORDER: pairs with the acquire in `filled_bytes`: the records are there.
            filled.store(u64::from(filled_bytes), release("segment.fill"));
        }
    }

    /// Says how far the records go, before the segment is sealed.
    pub(super) fn end_records(&self, segment: u32, records_bytes: u32) {
        self.put(segment, word::RECORDS_BYTES, u64::from(records_bytes));
    }

    /// Only the owner. `expires`: the latest time from which a record of it is stale.
    pub(super) fn seal(
        &self,
        segment: u32,
        own: SegmentState,
        order: u64,
        expires: u64,
    ) -> Result<(), StateChanged> {
        self.put(segment, word::ORDER, order);
        self.put(segment, word::EXPIRES, expires);
        // ORDER: pairs with the acquire in `drain`: who reclaims it sees every word that names one
        // of its records, `order` and `expires`.
        self.step(segment, own, own.with(SegmentPhase::Sealed), release("segment.seal"))?;
        crash_point!("segment.sealed");
        Ok(())
    }

    /// Only the owner, if it has written nothing.
    pub(super) fn give_back(&self, segment: u32, own: SegmentState) -> Result<(), StateChanged> {
        // Relaxed: there is nothing of ours in it, and a read-modify-write carries on what `free`
        // has released.
        self.step(segment, own, own.with(SegmentPhase::Free), Relaxed)
    }

    /// Of a dead owner, or of one who died over the check.
    pub(super) fn suspect(&self, segment: u32, row: u32) -> Result<(), StateChanged> {
        let state = self.found(segment, |state| state.owner == Some(row))?;
        // ORDER: pairs with the acquire in `adopt`: the words that the dead one published, which we
        // saw when we saw its death.
        self.step(segment, state, state.with(SegmentPhase::Suspect), release("segment.suspect"))?;
        crash_point!("segment.suspect");
        Ok(())
    }

    /// Takes a suspect segment that nobody checks; the participant of this row is going to.
    pub(super) fn adopt(&self, segment: u32, row: u32) -> Result<SegmentState, StateChanged> {
        assert!(row < self.row_count, "row {row} of {}", self.row_count);
        let is_nobodys = |state: SegmentState| state.is_suspect() && state.owner.is_none();
        let state = self.found(segment, is_nobodys)?;
        let own = SegmentState { owner: Some(row), ..state };
        // ORDER: pairs with the release in `suspect`: we see what the dead one published.
        self.step(segment, state, own, acquire("segment.adopt"))?;
        crash_point!("segment.adopted");
        Ok(own)
    }

    /// Begins to reclaim a sealed segment. The caller holds the eviction lock.
    ///
    /// # Errors
    /// It is not sealed.
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
        // ORDER: pairs with the acquire in `open`: what we have read of it, and the readers whose
        // pins we saw lowered; and with the fence in `UnpinnedReader::begin`: of this generation
        // nothing is filled yet.
        self.step(segment, state, free, release("segment.free"))?;
        crash_point!("segment.freed");
        Ok(())
    }

    /// The state now, if a step can begin with it.
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
