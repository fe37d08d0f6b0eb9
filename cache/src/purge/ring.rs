//! The ring of slots, and the number of purges.

use std::fmt;

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{
    AtomicU64, Relaxed, acquire, acquire_fence, fence, release, release_fence,
};

use super::predicate::{OwnedPredicate, PREDICATE_BYTES_MAX, Predicate, PredicateBuffer};
use super::sites::{SITE_WORDS, site_of, site_of_matches};

/// The number of words of a slot. In models it is small.
pub(crate) const SLOT_WORDS: usize = if cfg!(loom) { 4 } else { 128 };

/// The index of `purge_seq` in the words of the area `store`. It is on a cache line of its own,
/// because every fill reads it and other words of the area are written often.
pub(crate) const PURGE_SEQ_WORD: usize = 16;

/// The smallest number of slots. They take 64 KiB.
pub(super) const SLOTS_MIN: usize = 64;

/// The largest number of slots. To check all of them, each with a key of maximum length, takes
/// about 70 µs.
pub(super) const SLOTS_MAX: usize = 1024;

/// The ring takes at most the size of the region divided by this number, but has at least
/// [`SLOTS_MIN`] slots in any case.
pub(super) const REGION_SHARE: u64 = 256;

/// The number of slots for a region of `region_bytes`.
pub(crate) fn slots_for(region_bytes: u64) -> usize {
    let slot_bytes = (SLOT_WORDS * size_of::<u64>()) as u64;
    let share = region_bytes / REGION_SHARE / slot_bytes;
    let slots = share.clamp(SLOTS_MIN as u64, SLOTS_MAX as u64) as usize;
    1 << slots.ilog2()
}

/// The result of a check for newer purges, which decides whether a record may be made live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a purged record must not be found"]
pub(crate) enum PurgeVerdict {
    /// No newer purge matches the record.
    Clear {
        /// The number of the newest purge that was checked. It can replace the noted number in
        /// another check with the same matches, so that a fill of many fragments reads each purge
        /// only once.
        checked: u64,
    },
    /// A newer purge matches the record, or may match it.
    Purged,
}

/// Why the given words cannot hold a purge ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// The number of slots is not a power of two, or is less than two. With one slot, the next
    /// purge would overwrite the last purge, which must stay readable.
    Slots,
    /// There are fewer words than the slots or `purge_seq` need.
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

/// A view of the purges of a store. To share the ring among threads, make the view over `Arc`s or
/// areas, and clone it.
#[derive(Clone, Debug)]
pub(crate) struct PurgeRing<W> {
    store: W,
    sequence_word: usize,
    ring: W,
    slot_count: u64,
}

/// The number of words that `slot_count` slots and the last purges of sites take; `None` on
/// overflow. All of these words must initially be zero.
pub(crate) const fn words_needed(slot_count: usize) -> Option<usize> {
    match slot_count.checked_mul(SLOT_WORDS) {
        Some(slots) => slots.checked_add(SITE_WORDS),
        None => None,
    }
}

impl<W: Words> PurgeRing<W> {
    /// Makes a view of the ring. The word `sequence_word` of `store` is `purge_seq`; the slots
    /// begin with the first word of `ring`, and the last purges of sites follow them. All views of
    /// these words must be made with the same number of slots.
    ///
    /// # Errors
    /// The words cannot hold such a ring: see [`RingError`].
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

    /// The number of purges so far. A fill notes this number before it asks the origin. So these
    /// purges do not concern the response that the fill gets.
    pub(crate) fn noted(&self) -> u64 {
        // ORDER: pairs with the release in `raise`: the origin is asked after the purge was
        // announced, not before.
        self.sequence().load(acquire("purge.note"))
    }

    /// Announces a purge and returns its number. The caller holds the purge lock. After this call,
    /// the caller walks over the stored records, including unchecked words, and only then
    /// acknowledges the purge.
    ///
    /// A predicate that does not fit into a slot is widened: [`last`](PurgeRing::last) returns
    /// `predicate.fitted()`. The caller must remove the records that match `predicate`, and is
    /// allowed to remove all records that match the widened predicate.
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

    /// The last purge that was announced, and its number; `None` if there was no purge. After the
    /// death of an owner of the purge lock, the next owner calls this before it announces its own
    /// purge, and repeats the walk if the last purge is of one key.
    pub(crate) fn last(&self) -> Option<(u64, OwnedPredicate)> {
        // The purge lock orders this read after the writes of the dead owner.
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

    /// Checks the purges after `noted`, for a fill of a primary key whose word is published but
    /// unchecked. `noted` is the number that the fill noted before it asked the origin. `matches`
    /// is true for at least the purges that match the fill's record.
    pub(crate) fn check(
        &self,
        noted: u64,
        primary: &[u8],
        mut matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> PurgeVerdict {
        // ORDER: pairs with the release in `raise`: the predicates of all purges up to `newest` are
        // there. The two fences alone would do for one check, but not for `checked`, on which
        // another check relies.
        let newest = self.sequence().load(acquire("purge.check"));
        if self.is_too_old(noted, newest) {
            return self.check_site(noted, newest, primary);
        }
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        if (noted..newest).any(|before| matches(&self.read(before + 1, &mut buffer))) {
            return PurgeVerdict::Purged;
        }
        // ORDER: pairs with the release fence in `write`: if we have read a word of a later purge
        // that reuses the slot, we now see at least the number before that purge's.
        acquire_fence("purge.read");
        if self.is_too_old(noted, self.sequence().load(Relaxed)) {
            return self.check_site(noted, newest, primary);
        }
        PurgeVerdict::Clear { checked: newest }
    }

    /// Does the same as [`check`](PurgeRing::check) if the ring may no longer hold all purges after
    /// `noted`. The caller has seen `newest` in an acquiring load.
    fn check_site(&self, noted: u64, newest: u64, primary: &[u8]) -> PurgeVerdict {
        // The acquire "purge.check" makes the numbers of all purges up to `newest` visible here. A
        // number may be higher than `newest`: then a fill counts as purged although it is not.
        let last = self.site_word(site_of(primary)).load(Relaxed);
        if noted <= newest && last <= noted {
            return PurgeVerdict::Clear { checked: newest };
        }
        PurgeVerdict::Purged
    }

    /// Whether a matching purge is newer than `noted`. A follower calls this with the number that
    /// the leader noted, before it joins the leader's fetch.
    pub(crate) fn is_newer(
        &self,
        noted: u64,
        primary: &[u8],
        matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> bool {
        self.check(noted, primary, matches) == PurgeVerdict::Purged
    }

    /// Returns the newest purge for which `matches` returns true, and the number of later purges;
    /// `None` if the ring holds no such purge.
    pub(crate) fn find_last(
        &self,
        mut matches: impl FnMut(&Predicate<'_>) -> bool,
    ) -> Option<(OwnedPredicate, u64)> {
        let newest = self.noted();
        let mut buffer = [0; PREDICATE_BYTES_MAX];
        (0..newest.min(self.slot_count)).find_map(|later| {
            let number = newest - later;
            let predicate = self.read(number, &mut buffer);
            // ORDER: pairs with the release fence in `write`, as in `check`: a slot that is
            // overwritten now says nothing about this purge.
            acquire_fence("purge.read");
            let is_known = !self.is_too_old(number - 1, self.sequence().load(Relaxed));
            (is_known && matches(&predicate)).then(|| (predicate.into(), later))
        })
    }

    /// The number that was noted for a record, completed from the low half in its header. Only for
    /// a record in memory that was found through its index word: see [`widened`].
    pub(crate) fn widen(&self, noted_low: u32) -> u64 {
        // Relaxed is enough: the publisher of the record had seen the number that it noted.
        widened(noted_low, self.sequence().load(Relaxed))
    }

    /// Writes the slot of the next purge and the last purge of its site, and returns its number.
    /// The purge does not count before [`raise`](PurgeRing::raise).
    pub(super) fn write(&self, predicate: Predicate<'_>) -> u64 {
        let number = self.sequence().load(Relaxed).wrapping_add(1);
        // ORDER: pairs with the acquire fences in `check` and `find_last`: a thread that reads a
        // word that we are going to write sees `purge_seq` at least as new as we see it.
        release_fence("purge.overwrite");
        let predicate = predicate.fitted();
        let words = std::iter::once(number).chain(predicate.encode());
        for (offset, value) in words.enumerate() {
            self.word(number, offset).store(value, Relaxed);
        }
        let sites = site_of_matches(&predicate).map_or(0..SITE_WORDS, |site| site..site + 1);
        for site in sites {
            self.site_word(site).store(number, Relaxed);
        }
        number
    }

    /// Raises `purge_seq` to `number`. Every later check finds that purge.
    pub(super) fn raise(&self, number: u64) {
        // ORDER: pairs with the acquires in `check` (the predicate and the last purge of its site
        // are there) and `noted` (the origin has the new content).
        self.sequence().store(number, release("purge.announce"));
    }

    /// Whether the slot of a purge that is newer than `noted` may have been overwritten. Also true
    /// if `noted` is higher than `newest`, which no fill can have noted.
    fn is_too_old(&self, noted: u64, newest: u64) -> bool {
        newest.checked_sub(noted).is_none_or(|newer_count| newer_count >= self.slot_count)
    }

    /// Reads the predicate of a purge. If its slot holds another purge or is damaged, this is
    /// [`Predicate::All`].
    fn read<'a>(&self, number: u64, buffer: &'a mut PredicateBuffer) -> Predicate<'a> {
        if self.word(number, 0).load(Relaxed) != number {
            return Predicate::All;
        }
        let words = (1..SLOT_WORDS).map(|offset| self.word(number, offset).load(Relaxed));
        Predicate::decode(words, buffer)
    }

    fn site_word(&self, site: usize) -> &AtomicU64 {
        self.ring.word(self.slot_count as usize * SLOT_WORDS + site)
    }

    fn sequence(&self) -> &AtomicU64 {
        self.store.word(self.sequence_word)
    }

    fn word(&self, number: u64, offset: usize) -> &AtomicU64 {
        let slot = (number & (self.slot_count - 1)) as usize;
        self.ring.word(slot * SLOT_WORDS + offset)
    }
}

/// The highest number up to `present` with this low half.
///
/// For a number that was noted 2^32 or more purges ago the result is too high, by a multiple of
/// 2^32, so a check with it misses the purges in between. For records in memory this does no harm,
/// because a live record was checked for these purges. A store that keeps records longer, on disk,
/// must also keep all bits of `purge_seq` at the time of the write, and pass them as `present`. If
/// no number up to `present` has this low half, it is damaged. Then the result is zero, so that
/// every purge counts as newer.
pub(crate) fn widened(noted_low: u32, present: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let same_high = present & !LOW | u64::from(noted_low);
    if same_high <= present {
        return same_high;
    }
    same_high.saturating_sub(LOW + 1)
}
