//! The ring and the number of purges.

use std::fmt;

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{
    AtomicU64, Relaxed, acquire, acquire_fence, fence, release, release_fence,
};

use super::predicate::{OwnedPredicate, PREDICATE_BYTES_MAX, Predicate, PredicateBuffer};

/// The words of a slot. A model needs few.
pub(crate) const SLOT_WORDS: usize = if cfg!(loom) { 4 } else { 128 };

/// The word of the area `store` that holds `purge_seq`. It is on a line of its own, because every
/// fill reads it and other words are written all the time.
pub(crate) const PURGE_SEQ_WORD: usize = 16;

/// The smallest number of slots; they take 64 KiB.
pub(super) const SLOTS_MIN: usize = 64;

/// The largest number of slots: to check all of them, each with a key of maximum length, takes
/// about 70 µs.
pub(super) const SLOTS_MAX: usize = 1024;

/// The divisor of the region's size that bounds the ring.
pub(super) const REGION_SHARE: u64 = 256;

/// The number of slots for a region of `region_bytes`.
pub(crate) fn slots_for(region_bytes: u64) -> usize {
    let slot_bytes = (SLOT_WORDS * size_of::<u64>()) as u64;
    let share = region_bytes / REGION_SHARE / slot_bytes;
    let slots = share.clamp(SLOTS_MIN as u64, SLOTS_MAX as u64) as usize;
    1 << slots.ilog2()
}

/// Whether a fetched response may be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a purged record must not be found"]
pub(crate) enum PurgeVerdict {
    /// No newer purge matches it.
    Clear {
        /// The newest purge that was checked. It can replace the noted number in another check with
        /// the same matches, so a fill of many fragments reads each purge once.
        checked: u64,
    },
    /// A newer purge matches it, or may match it.
    Purged,
}

/// Why there is no ring in the given words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// The number of slots is not a power of two, or below two: the last purge must stay readable
    /// while the next one is written.
    Slots,
    /// The slots do not fit into the words.
    TooFewWords,
}

impl fmt::Display for RingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RingError::Slots => "the number of purge slots must be a power of two, at least two",
            RingError::TooFewWords => "the purge ring has fewer words than its slots need",
        })
    }
}

impl std::error::Error for RingError {}

/// The purges of a store. This is a view: to share it among threads, make it over `Arc`s or areas,
/// and clone it.
#[derive(Clone, Debug)]
pub(crate) struct PurgeRing<W> {
    store: W,
    sequence_word: usize,
    ring: W,
    slot_count: u64,
}

/// The words that `slot_count` slots take, all zero at first; `None` on overflow.
pub(crate) const fn words_needed(slot_count: usize) -> Option<usize> {
    slot_count.checked_mul(SLOT_WORDS)
}

impl<W: Words> PurgeRing<W> {
    /// Makes a view of the ring. The number of purges is a word of `store`; the slots are in
    /// `ring`, from its first word on. All users of these words have the same number of slots.
    ///
    /// # Errors
    /// The ring cannot be placed there: see [`RingError`].
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

    /// The number of purges so far. A fill notes it before it asks the origin, so the origin's
    /// answer is newer than the records that these purges removed.
    pub(crate) fn noted(&self) -> u64 {
        // ORDER: pairs with the release in `raise`: the origin is asked after the purge was
        // announced, not before.
        self.sequence().load(acquire("purge.note"))
    }

    /// Announces a purge and returns its number. The caller holds the purge lock. It then walks
    /// over the stored records, unchecked words included, and acknowledges only after that.
    ///
    /// A predicate that does not fit is widened: [`last`](PurgeRing::last) returns
    /// `predicate.fitted()`. The caller may remove the records that match this, or fewer, but at
    /// least those that match `predicate`.
    pub(crate) fn announce(&self, predicate: Predicate<'_>) -> u64 {
        let number = self.write(predicate);
        crash_point!("purge.written");
        self.raise(number);
        crash_point!("purge.announced");
        // ORDER: pairs with "index.unchecked". We announce, then the caller reads the words of the
        // index; a fill publishes its word, then reads the purges. One of us sees the other.
        fence("purge.walk");
        number
    }

    /// The last purge, for the next owner of the purge lock after a death: it repeats the walk, if
    /// the purge is of one key, before it announces its own. `None` if there was no purge.
    pub(crate) fn last(&self) -> Option<(u64, OwnedPredicate)> {
        // The purge lock orders us after the writes of its dead owner.
        let number = self.sequence().load(Relaxed);
        if number == 0 {
            return None;
        }
        // ORDER: pairs with "index.unchecked", as in `announce`: the dead owner may not have
        // reached its fence.
        fence("purge.repeat");
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        Some((number, self.read(number, &mut buffer).into()))
    }

    /// Checks the purges since `noted`, for a fill whose word is published but unchecked. `noted`
    /// is the number that the fill took before it asked the origin.
    pub(crate) fn check(
        &self,
        noted: u64,
        mut matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> PurgeVerdict {
        // ORDER: pairs with the release in `raise`: the predicates up to this one are there. The
        // two fences alone would do for one check, but not for `checked`, on which another check
        // relies.
        let newest = self.sequence().load(acquire("purge.check"));
        if self.is_too_old(noted, newest) {
            return PurgeVerdict::Purged;
        }
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        if (noted..newest).any(|before| matches(&self.read(before + 1, &mut buffer))) {
            return PurgeVerdict::Purged;
        }
        // ORDER: pairs with the release fence in `write`: if we have read a word of a purge one
        // ring later, we now see the number that precedes it.
        acquire_fence("purge.read");
        if self.is_too_old(noted, self.sequence().load(Relaxed)) {
            return PurgeVerdict::Purged;
        }
        PurgeVerdict::Clear { checked: newest }
    }

    /// Whether a matching purge is newer than `noted`. A follower calls this with the number that
    /// the leader noted, before it joins the fetch.
    pub(crate) fn is_newer(&self, noted: u64, matches: impl FnMut(&Predicate<'_>) -> bool) -> bool {
        self.check(noted, matches) == PurgeVerdict::Purged
    }

    /// The noted number of a record, from the low half in its header; for a record in memory that
    /// was found by its word. See [`widened`].
    pub(crate) fn widen(&self, noted_low: u32) -> u64 {
        // Relaxed: the publisher of the record had seen the number that it noted.
        widened(noted_low, self.sequence().load(Relaxed))
    }

    /// The first half of a purge. Until the second half the purge does not exist.
    pub(super) fn write(&self, predicate: Predicate<'_>) -> u64 {
        let number = self.sequence().load(Relaxed).wrapping_add(1);
        // ORDER: pairs with the acquire fence in `check`: a thread that reads a word that we are
        // going to write sees `purge_seq` at least as new as we see it.
        release_fence("purge.overwrite");
        let words = std::iter::once(number).chain(predicate.fitted().encode());
        for (offset, value) in words.enumerate() {
            self.word(number, offset).store(value, Relaxed);
        }
        number
    }

    /// The second half: every later check finds the purge.
    pub(super) fn raise(&self, number: u64) {
        // ORDER: pairs with the acquires in `check` (the predicate is there) and `noted` (the
        // origin has the new content).
        self.sequence().store(number, release("purge.announce"));
    }

    /// Whether the slot of a purge newer than `noted` may have been overwritten. Also true if no
    /// fill can have noted this number.
    fn is_too_old(&self, noted: u64, newest: u64) -> bool {
        newest.checked_sub(noted).is_none_or(|newer_count| newer_count >= self.slot_count)
    }

    /// The predicate of a purge. A slot of another purge, or a damaged one, counts as
    /// [`Predicate::All`].
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
/// A number that was noted 2^32 or more purges ago comes out too high, by a multiple of 2^32, so
/// the purges in between would be missed. In memory this does no harm: a live word was checked. A
/// store that keeps records longer, on disk, must keep the whole number as of the write beside
/// them, and pass that as `present`. A low half above all numbers up to `present` is damage: the
/// result is zero, so that every purge is newer.
pub(crate) fn widened(noted_low: u32, present: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let same_high = present & !LOW | u64::from(noted_low);
    if same_high <= present {
        return same_high;
    }
    same_high.saturating_sub(LOW + 1)
}
