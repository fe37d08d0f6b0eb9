//! How far the segment has come that is being drained, for who goes on after a death.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `segment` | reclaimer: begins and ends | the next one |
//! | `offset` | reclaimer: passes a record | the next one |
//! | `plan` | reclaimer; what it means is not known here | the next one |
//!
//! The reclaimer has the eviction lock, but it may die anywhere, and then nothing it did later is
//! there. So each word is released behind what it stands for, and acquired before that is used.

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, acquire_fence, release, release_fence};

/// How far a drain has come, in shared words.
#[derive(Clone, Debug)]
pub(crate) struct DrainProgress<W> {
    words: W,
    segment: usize,
    offset: usize,
    plan: usize,
}

impl<W: Words> DrainProgress<W> {
    /// In these of the words; all zero at first.
    pub(crate) fn new(words: W, [segment, offset, plan]: [usize; 3]) -> DrainProgress<W> {
        DrainProgress { words, segment, offset, plan }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        self.words.word(number)
    }

    /// The segment that is being drained, if there is one.
    pub(crate) fn segment(&self) -> Option<u32> {
        // ORDER: pairs with "drain.named": who has seen that a segment is draining sees that this
        // names it.
        acquire_fence("drain.look");
        // ORDER: pairs with "drain.begin" and "drain.end": its offset and its plan are there, or
        // its words are out.
        let number = self.word(self.segment).load(acquire("drain.segment"));
        u32::try_from(number.checked_sub(1)?).ok()
    }

    /// What is done with its records.
    pub(crate) fn plan(&self) -> u64 {
        // ORDER: pairs with the release in `set_plan`: the offset is this plan's.
        self.word(self.plan).load(acquire("drain.planned"))
    }

    /// Up to where it is done.
    pub(crate) fn offset_bytes(&self) -> u64 {
        // ORDER: pairs with the release in `pass`: the words of what lies before it are out.
        self.word(self.offset).load(acquire("drain.offset"))
    }

    /// Begins with a segment, before it is draining.
    pub(crate) fn begin(&self, segment: u32, plan: u64) {
        self.word(self.offset).store(0, Relaxed);
        self.word(self.plan).store(plan, Relaxed);
        // ORDER: pairs with the acquire in `segment`: who finds it finds offset and plan.
        self.word(self.segment).store(u64::from(segment) + 1, release("drain.begin"));
        // ORDER: pairs with the fence in `segment`: who finds it draining finds it named. Else it
        // would count as drained, and be freed.
        release_fence("drain.named");
    }

    /// Goes through it once more, from its beginning.
    pub(crate) fn restart(&self, plan: u64) {
        self.word(self.offset).store(0, Relaxed);
        self.set_plan(plan);
    }

    /// What is done from here on. What the plan says is done is done.
    pub(crate) fn set_plan(&self, plan: u64) {
        // ORDER: pairs with the acquire in `plan`: its records are gone through from the beginning,
        // and not from where another plan had come to.
        self.word(self.plan).store(plan, release("drain.plan"));
    }

    /// All before this offset is done.
    pub(crate) fn pass(&self, offset_bytes: u32) {
        // ORDER: pairs with the acquire in `offset_bytes`: no word names what lies before it.
        self.word(self.offset).store(u64::from(offset_bytes), release("drain.pass"));
    }

    /// No word names a record of the segment any more.
    pub(crate) fn end(&self) {
        // ORDER: pairs with the acquire in `segment`: who frees it sees that all words are out.
        self.word(self.segment).store(0, release("drain.end"));
    }
}
