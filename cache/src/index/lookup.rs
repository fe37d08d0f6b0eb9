//! Finding: for readers by key, for reclaimers by place, for walks by bucket.

use std::ops::Range;

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::pins::PinRow;

use super::key::{Key, KeyHash};
use super::records::{Hit, PinnedLocation, Records};
use super::table::{BUCKET_WORDS, Index};
use super::word::{IndexWord, USE_MAX};

/// Which words of a bucket may name a live record of a key with this fingerprint, a bit each.
/// Without a branch for each word: where a key lies cannot be foreseen.
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
    /// It finds no other key's record, and none that was removed before this began. It may miss
    /// one that is being replaced meanwhile; and while two inserts of the key are under way it may
    /// find the record of either.
    #[inline]
    pub fn lookup<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
    ) -> Option<Hit<'row>> {
        let fingerprint = key.hash.fingerprint();
        let buckets = key.hash.buckets(self.bucket_count());
        let words = buckets.map(|bucket| self.words_of(bucket));
        // Before the first bucket is searched, so that both lines are on their way.
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

    /// Counts a use. What is used much is not written any more.
    #[inline]
    pub fn count_use(&self, hit: &Hit<'_>) {
        let uses = hit.word.uses();
        if uses < USE_MAX {
            // A store would bring back a word that was taken out. Who loses lets the other count.
            self.swap_exactly(hit.slot, hit.word, hit.word.with_uses(uses + 1), Relaxed);
        }
    }

    /// Forgets all uses: the record leaves when its segment is drained the next time.
    pub fn reset_uses(&self, hit: &Hit<'_>) {
        // Who loses has met a reader, or somebody who takes it out.
        self.swap(hit.slot, hit.word, |word| word.with_uses(0), Relaxed);
    }

    /// The record at exactly this place, in whatever state: for who walks over a segment, knows
    /// each record's hash, and wants to know if a word still names it. Who reclaims the segment
    /// makes sure by [`remove_location`](Index::remove_location).
    pub fn find_location<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        hash: KeyHash,
        location: u32,
    ) -> Option<Hit<'row>> {
        let fingerprint = hash.fingerprint();
        let is_it = |word: IndexWord| word.is_of(fingerprint) && word.location() == location;
        self.slots(hash).find_map(|slot| self.pin_word(row, slot, is_it).ok())
    }

    /// All records that the words of some buckets name, each pinned while its hit lives: for
    /// checks, recovery and snapshots.
    ///
    /// A word that stands there all the time is found; of what comes, goes or moves meanwhile some
    /// is and some is not.
    pub fn hits<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        buckets: Range<usize>,
    ) -> impl Iterator<Item = Hit<'row>> {
        self.slots_of(buckets).filter_map(move |slot| self.pin_word(row, slot, |_| true).ok())
    }
}
