//! The ring and the number of purges.

use std::fmt;

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{
    AtomicU64, Relaxed, acquire, acquire_fence, fence, release, release_fence,
};

use super::predicate::{OwnedPredicate, PREDICATE_BYTES_MAX, Predicate, PredicateBuffer};

/// Words of a slot. A model needs few.
pub(crate) const SLOT_WORDS: usize = if cfg!(loom) { 4 } else { 128 };

/// Which word of the area `store` is `purge_seq`: on a line of its own, since every fill reads it,
/// and what others write all the time lies elsewhere.
pub(crate) const PURGE_SEQ_WORD: usize = 16;

/// So few that they take 64 KiB.
pub(super) const SLOTS_MIN: usize = 64;

/// So many that a check of all of them, each a key as long as can be, takes about 70 µs.
pub(super) const SLOTS_MAX: usize = 1024;

/// Which part of a region its ring may be: one of so many.
pub(super) const REGION_SHARE: u64 = 256;

/// How many slots the ring of a region of so many bytes has.
pub(crate) fn slots_for(region_bytes: u64) -> usize {
    let slot_bytes = (SLOT_WORDS * size_of::<u64>()) as u64;
    let share = region_bytes / REGION_SHARE / slot_bytes;
    let slots = share.clamp(SLOTS_MIN as u64, SLOTS_MAX as u64) as usize;
    1 << slots.ilog2()
}

/// May what was fetched be found?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was purged must not be found"]
pub(crate) enum PurgeVerdict {
    /// No newer purge is about it.
    Clear {
        /// The newest purge that was looked at: as good as what was noted, for another check of
        /// what the same predicates match. So who stores many fragments reads each purge once.
        checked: u64,
    },
    /// A newer purge is about it, or may be.
    Purged,
}

/// Why there is no ring in the words that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// The number of slots is no power of two, or below two: the last purge must stay readable
    /// while the next one is written.
    Slots,
    /// The words are too few.
    TooFewWords,
}

impl fmt::Display for RingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RingError::Slots => "a ring has a power of two of slots, at least two",
            RingError::TooFewWords => "the words are too few for the ring",
        })
    }
}

impl std::error::Error for RingError {}

/// The purges of a store. It is a view: to have it in several threads, make it over `Arc`s or
/// areas, and clone it.
#[derive(Clone, Debug)]
pub(crate) struct PurgeRing<W> {
    store: W,
    sequence_word: usize,
    ring: W,
    slot_count: u64,
}

/// How many words so many slots take, all zero at first; `None` if no memory has so many.
pub(crate) const fn words_needed(slot_count: usize) -> Option<usize> {
    slot_count.checked_mul(SLOT_WORDS)
}

impl<W: Words> PurgeRing<W> {
    /// The purges whose number is a word of `store`, and whose ring lies in `ring`, from the first
    /// word on. All who use these words have the same number of slots.
    ///
    /// # Errors
    /// They cannot lie there.
    pub(crate) fn new(
        store: W,
        sequence_word: usize,
        ring: W,
        slot_count: usize,
    ) -> Result<PurgeRing<W>, RingError> {
        if !slot_count.is_power_of_two() || slot_count < 2 {
            return Err(RingError::Slots);
        }
        let needed = words_needed(slot_count).ok_or(RingError::TooFewWords)?;
        if ring.word_count() < needed || store.word_count() <= sequence_word {
            return Err(RingError::TooFewWords);
        }
        Ok(PurgeRing { store, sequence_word, ring, slot_count: slot_count as u64 })
    }

    /// How many purges there were: what a fill notes before it asks the origin. What the origin
    /// answers then is newer than what these purges are about.
    pub(crate) fn noted(&self) -> u64 {
        // ORDER: pairs with the release in `raise`: the origin is asked after the purge was
        // announced, not before.
        self.sequence().load(acquire("purge.note"))
    }

    /// Makes a purge known and returns its number. The caller holds the purge lock; it then walks,
    /// unchecked words included, and only after that acknowledges.
    ///
    /// What does not fit is shortened: the walk is about `predicate.fitted()`, as
    /// [`last`](PurgeRing::last) says, or about less, which must be no less than `predicate`.
    pub(crate) fn announce(&self, predicate: Predicate<'_>) -> u64 {
        let number = self.write(predicate);
        crash_point!("purge.written");
        self.raise(number);
        crash_point!("purge.announced");
        // ORDER: pairs with "index.unchecked". We are known, now the caller reads the words of the
        // index; a fill publishes its word, then reads which purges there are. One of us sees the
        // other.
        fence("purge.walk");
        number
    }

    /// The last purge, for the next owner of the purge lock after a death: it walks for this one,
    /// if it is of one key, before it announces its own. `None`: there was none.
    pub(crate) fn last(&self) -> Option<(u64, OwnedPredicate)> {
        // The purge lock brings us what the dead one wrote.
        let number = self.sequence().load(Relaxed);
        if number == 0 {
            return None;
        }
        // ORDER: pairs with "index.unchecked", as in `announce`: the dead one may not have come so
        // far.
        fence("purge.repeat");
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        Some((number, self.read(number, &mut buffer).into()))
    }

    /// For a fill whose word is published, but unchecked: is a purge about it that is newer than
    /// what it noted before it asked the origin?
    pub(crate) fn check(
        &self,
        noted: u64,
        mut matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> PurgeVerdict {
        // ORDER: pairs with the release in `raise`: the predicates are there up to this one. The
        // two fences alone would do for one check, but not for `checked`, on which another stands.
        let newest = self.sequence().load(acquire("purge.check"));
        if self.is_too_old(noted, newest) {
            return PurgeVerdict::Purged;
        }
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        if (noted..newest).any(|before| matches(&self.read(before + 1, &mut buffer))) {
            return PurgeVerdict::Purged;
        }
        // ORDER: pairs with the release fence in `write`: if we have read a word of a purge one
        // ring later, we see now that it was about to come.
        acquire_fence("purge.read");
        if self.is_too_old(noted, self.sequence().load(Relaxed)) {
            return PurgeVerdict::Purged;
        }
        PurgeVerdict::Clear { checked: newest }
    }

    /// Is a purge about it that is newer than what was noted? A follower asks before it joins a
    /// flight: with what the leader noted.
    pub(crate) fn is_newer(&self, noted: u64, matches: impl FnMut(&Predicate<'_>) -> bool) -> bool {
        self.check(noted, matches) == PurgeVerdict::Purged
    }

    /// What was noted, from its low half, which a record's header keeps; for a record of memory
    /// that was found by its word. See [`widened`].
    pub(crate) fn widen(&self, noted_low: u32) -> u64 {
        // Relaxed: who published the record had seen what it noted.
        widened(noted_low, self.sequence().load(Relaxed))
    }

    /// The first part of a purge; until the second one it never was.
    pub(super) fn write(&self, predicate: Predicate<'_>) -> u64 {
        let number = self.sequence().load(Relaxed).wrapping_add(1);
        // ORDER: pairs with the acquire fence in `check`: who reads a word that we are going to
        // write sees `purge_seq` at least where we see it.
        release_fence("purge.overwrite");
        let words = std::iter::once(number).chain(predicate.fitted().encode());
        for (offset, value) in words.enumerate() {
            self.word(number, offset).store(value, Relaxed);
        }
        number
    }

    /// The second part: whoever checks from now on finds it.
    pub(super) fn raise(&self, number: u64) {
        // ORDER: pairs with the acquires in `check` (the predicate is there) and `noted` (the
        // origin has what is new).
        self.sequence().store(number, release("purge.announce"));
    }

    /// Has a slot newer than `noted` been written over, or is about to be? Also if the number is
    /// one that nobody can have noted.
    fn is_too_old(&self, noted: u64, newest: u64) -> bool {
        newest.checked_sub(noted).is_none_or(|newer_count| newer_count >= self.slot_count)
    }

    /// The predicate of a purge; another slot than its own, or a damaged one, says all.
    fn read<'a>(&self, number: u64, buffer: &'a mut PredicateBuffer) -> Predicate<'a> {
        if self.word(number, 0).load(Relaxed) != number {
            return Predicate::All;
        }
        let words = (1..SLOT_WORDS).map(|offset| self.word(number, offset).load(Relaxed));
        Predicate::decode(words, buffer)
    }

    fn sequence(&self) -> &AtomicU64 {
        self.store.word(self.sequence_word)
    }

    fn word(&self, number: u64, offset: usize) -> &AtomicU64 {
        let slot = (number & (self.slot_count - 1)) as usize;
        self.ring.word(slot * SLOT_WORDS + offset)
    }
}

/// The highest number up to `present` that has this low half.
///
/// What was noted 2^32 purges ago or more comes out too high, by a multiple of 2^32, and purges
/// between would be passed over. In memory nobody relies on it: a word that is live was checked.
/// Who keeps records for longer, on disk, keeps the whole number beside them as it was when they
/// were written, and gives that for `present`. A low half that `present` has not reached is damage:
/// it comes out as zero, so that every purge is newer.
pub(crate) fn widened(noted_low: u32, present: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let same_high = present & !LOW | u64::from(noted_low);
    if same_high <= present {
        return same_high;
    }
    same_high.saturating_sub(LOW + 1)
}
