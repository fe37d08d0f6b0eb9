//! Finding records: by key for readers, by location for reclaimers, by bucket for walks.

use std::ops::Range;

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::pins::PinRow;

use super::key::{IndexKey, KeyHash};
use super::records::{IndexHit, PinnedLocation, Records};
use super::table::{BUCKET_WORDS, Index};
use super::word::{IndexWord, USE_MAX};

/// The words of a bucket that may name a live record with this fingerprint, as a bit set.
/// `first_word` is the bucket's first word if it is loaded already. The search has no branch for
/// each word, since such branches would be unpredictable.
#[inline]
fn live_of(words: &[AtomicU64; BUCKET_WORDS], first_word: Option<u64>, fingerprint: u32) -> u32 {
    let word = |offset: usize| match first_word {
        Some(word) if offset == 0 => word,
        _ => words[offset].load(Relaxed),
    };
    let is_live = |offset| IndexWord::from_bits(word(offset)).is_live_of(fingerprint);
    (0..BUCKET_WORDS).fold(0, |bits, offset| bits | u32::from(is_live(offset)) << offset)
}

impl<W: Words, R: Records> Index<W, R> {
    /// The live record of a key, pinned until the hit is dropped.
    ///
    /// A lookup never finds a record of another key, nor a record that was removed before the call
    /// began. It may miss a record that is being replaced. While two inserts of the key are in
    /// progress, it may find the record of either insert.
    #[inline]
    pub fn lookup<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
    ) -> Option<IndexHit<'row>> {
        let fingerprint = key.hash.fingerprint();
        let buckets = key.hash.buckets(self.bucket_count());
        let words = buckets.map(|bucket| self.words_of(bucket));
        // The first word of the second bucket is loaded before the first bucket is searched, so
        // that both cache lines are fetched at the same time.
        let hint = words[1].map_or(0, |words| words[0].load(Relaxed));
        for (number, words) in words.into_iter().enumerate() {
            let first_word = if number == 1 { Some(hint) } else { None };
            let mut matches = words.map_or(0, |words| live_of(words, first_word, fingerprint));
            while matches != 0 {
                let slot = buckets[number] * BUCKET_WORDS + matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if let Ok(hit) = self.pin_word(row, slot, |word| word.is_live_of(fingerprint))
                    && key.is_at(hit.at())
                {
                    return Some(hit);
                }
            }
        }
        None
    }

    /// Counts a use of the record. A word whose use count is already [`USE_MAX`] is not written.
    #[inline]
    pub fn count_use(&self, hit: &IndexHit<'_>) {
        let uses = hit.word.uses();
        if uses < USE_MAX {
            // A plain store could bring a removed word back. If the swap fails, another thread has
            // changed the word, and this use is not counted.
            self.swap_exactly(hit.slot, hit.word, hit.word.with_uses(uses + 1), Relaxed);
        }
    }

    /// Resets the use count, so that the record is evicted when its segment is drained, unless it
    /// is used again before.
    pub fn reset_uses(&self, hit: &IndexHit<'_>) {
        // If the swap fails, a reader has used the record or another thread has removed it.
        self.swap(hit.slot, hit.word, |word| word.with_uses(0), Relaxed);
    }

    /// Lowers the use count by `count`.
    pub fn lower_uses(&self, hit: &IndexHit<'_>, count: u8) {
        // If the swap fails, a reader has used the record or another thread has removed it.
        let lower = |word: IndexWord| word.with_uses(word.uses().saturating_sub(count));
        self.swap(hit.slot, hit.word, lower, Relaxed);
    }

    /// The record at exactly this location, live or unchecked, if a word still names it. For scans
    /// of a segment, which know the hash of each record. The reclaimer of the segment, which must
    /// not miss a word, calls [`remove_location`](Index::remove_location).
    pub fn find_location<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        hash: KeyHash,
        location: u32,
    ) -> Option<IndexHit<'row>> {
        let fingerprint = hash.fingerprint();
        let is_it = |word: IndexWord| word.is_of(fingerprint) && word.location() == location;
        self.slots(hash).find_map(|slot| self.pin_word(row, slot, is_it).ok())
    }

    /// All records that the words of these buckets name, each pinned until its hit is dropped: for
    /// checks, recovery and snapshots.
    ///
    /// A word that stays in its slot during the iteration is found. Words that are inserted,
    /// removed or moved during the iteration may be found or missed.
    pub fn hits<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        buckets: Range<usize>,
    ) -> impl Iterator<Item = IndexHit<'row>> {
        self.slots_of(buckets).filter_map(move |slot| self.pin_word(row, slot, |_| true).ok())
    }
}
