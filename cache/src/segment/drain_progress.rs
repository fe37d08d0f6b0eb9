//! The progress of the drain of a segment, so that another reclaimer can continue after a death.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `segment` | reclaimer, when a drain begins and ends | the next reclaimer |
//! | `offset` | reclaimer, after each record | the next reclaimer |
//! | `plan` | reclaimer; opaque here | the next reclaimer |
//!
//! The reclaimer holds the eviction lock, but it may die at any instruction, and then its later
//! writes are missing. So each word is released after the state that it describes, and acquired
//! before that state is used.

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, acquire_fence, release, release_fence};

/// The progress of a drain, in shared words.
#[derive(Clone, Debug)]
pub(crate) struct DrainProgress<W> {
    words: W,
    segment: usize,
    offset: usize,
    plan: usize,
}

impl<W: Words> DrainProgress<W> {
    /// Makes a view of the three words with these indexes. The three words must initially be zero.
    pub(crate) fn new(words: W, [segment, offset, plan]: [usize; 3]) -> DrainProgress<W> {
        DrainProgress { words, segment, offset, plan }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        self.words.word(number)
    }

    /// The segment that is being drained, if there is one.
    pub(crate) fn segment(&self) -> Option<u32> {
        // ORDER: pairs with "drain.named": a thread that has seen a segment draining sees it named
        // here.
        acquire_fence("drain.look");
        // ORDER: pairs with "drain.begin" and "drain.end": if a segment is named, its offset and
        // its plan are there; if none is, the words of the last segment are gone.
        let number = self.word(self.segment).load(acquire("drain.segment"));
        u32::try_from(number.checked_sub(1)?).ok()
    }

    /// The encoded plan for the records of the segment that is being drained.
    pub(crate) fn plan(&self) -> u64 {
        // ORDER: pairs with the release in `set_plan`: the offset is this plan's.
        self.word(self.plan).load(acquire("drain.planned"))
    }

    /// The offset in the segment up to which the drain is done.
    pub(crate) fn offset_bytes(&self) -> u64 {
        // ORDER: pairs with the release in `pass`: the words of all records before the offset are
        // gone.
        self.word(self.offset).load(acquire("drain.offset"))
    }

    /// Records which segment is drained next, before its drain starts.
    pub(crate) fn begin(&self, segment: u32, plan: u64) {
        self.word(self.offset).store(0, Relaxed);
        self.word(self.plan).store(plan, Relaxed);
        // ORDER: pairs with the acquire in `segment`: a thread that finds the segment named sees
        // offset and plan.
        self.word(self.segment).store(u64::from(segment) + 1, release("drain.begin"));
        // ORDER: pairs with the fence in `segment`: a thread that finds the segment draining finds
        // it named. Otherwise the segment would count as drained, and be freed.
        release_fence("drain.named");
    }

    /// Starts again from the beginning of the segment, with another plan.
    pub(crate) fn restart(&self, plan: u64) {
        self.word(self.offset).store(0, Relaxed);
        self.set_plan(plan);
    }

    /// Sets the plan. The caller has completed the previous plan.
    pub(crate) fn set_plan(&self, plan: u64) {
        // ORDER: pairs with the acquire in `plan`: this plan starts at the first record, not at the
        // offset that another plan had reached.
        self.word(self.plan).store(plan, release("drain.plan"));
    }

    /// Marks all records before this offset as done.
    pub(crate) fn pass(&self, offset_bytes: u32) {
        // ORDER: pairs with the acquire in `offset_bytes`: no word names a record before the
        // offset.
        self.word(self.offset).store(u64::from(offset_bytes), release("drain.pass"));
    }

    /// Ends the drain: no word names a record of the segment any more.
    pub(crate) fn end(&self) {
        // ORDER: pairs with the acquire in `segment`: the participant that frees the segment sees
        // that all words are gone.
        self.word(self.segment).store(0, release("drain.end"));
    }
}
