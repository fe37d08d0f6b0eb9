//! The buckets, and the two primitives of every operation: to load a word under a pin, and to swap
//! it.

use std::fmt;
use std::ops::Range;

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Ordering, Relaxed, acquire};
use forebay_sync::pins::{NotPinned, PinRow};

use super::key::KeyHash;
use super::records::{IndexHit, Records};
use super::word::IndexWord;

/// The number of words in a bucket: one cache line. In loom models, a bucket has fewer words.
pub const BUCKET_WORDS: usize = if cfg!(loom) { 2 } else { 8 };

const LINE_BYTES: usize = 64;

/// Why an index cannot be placed in the given words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexError {
    /// There are fewer than the two buckets that a key needs.
    TooFewBuckets,
    /// There are fewer words than the buckets need.
    TooFewWords,
    /// The words do not start at a cache line, so each bucket would span two lines.
    NotOnALine,
}

impl fmt::Display for IndexError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            IndexError::TooFewBuckets => "an index needs at least two buckets",
            IndexError::TooFewWords => "the index has fewer words than its buckets need",
            IndexError::NotOnALine => {
                "the words of the index do not start at a cache line (64 bytes)"
            }
        })
    }
}

impl std::error::Error for IndexError {}

/// Why a word was not pinned.
pub(super) enum PinFailure {
    /// The word in the slot is not wanted or names no record in memory, or the [`PinRow`] already
    /// has its maximum of pins on the segment.
    Other,
    /// The word names a location in no segment, which cannot be read.
    Damaged(IndexWord),
}

/// The index of a store, as a view of shared words. To share it among threads, create it over
/// `Arc`s.
#[derive(Clone, Debug)]
pub struct Index<W, R> {
    words: W,
    bucket_count: usize,
    records: R,
}

/// The number of words that `bucket_count` buckets need; `None` on overflow. All words must
/// initially be zero.
#[must_use]
pub const fn words_needed(bucket_count: usize) -> Option<usize> {
    bucket_count.checked_mul(BUCKET_WORDS)
}

impl<W: Words, R: Records> Index<W, R> {
    /// Makes a view of the index in `words`, beginning at the first word.
    ///
    /// # Errors
    /// The index cannot be placed there: see [`IndexError`].
    ///
    /// # Safety
    /// - All users of these words have the same bucket count, hash keys alike, and write the words
    ///   by the methods of this type only.
    /// - All rows of pins that are given to its methods are of one table. A thread that reuses a
    ///   segment has removed every word that names it, executed the barrier of that table and found
    ///   the column of the segment empty, in this order.
    /// - Each location that is given to its methods is that of a complete record of the key, in a
    ///   segment that is not reclaimed before the call that publishes its word has returned and, if
    ///   that was [`insert`](Index::insert), before the word is live or withdrawn.
    pub unsafe fn new(
        words: W,
        bucket_count: usize,
        records: R,
    ) -> Result<Index<W, R>, IndexError> {
        if bucket_count < 2 {
            return Err(IndexError::TooFewBuckets);
        }
        let needed = words_needed(bucket_count).ok_or(IndexError::TooFewWords)?;
        if words.word_count() < needed {
            return Err(IndexError::TooFewWords);
        }
        if !cfg!(loom) && !(&raw const *words.word(0)).addr().is_multiple_of(LINE_BYTES) {
            return Err(IndexError::NotOnALine);
        }
        Ok(Index { words, bucket_count, records })
    }

    /// The number of buckets.
    pub fn bucket_count(&self) -> usize {
        self.bucket_count
    }

    /// The records that the words name.
    pub fn records(&self) -> &R {
        &self.records
    }

    /// The words of a bucket, loaded one after another. Other threads may change a word as soon as
    /// it is loaded.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn bucket(&self, bucket: usize) -> [IndexWord; BUCKET_WORDS] {
        assert!(
            bucket < self.bucket_count,
            "the index has {} buckets, so it has no bucket {bucket}",
            self.bucket_count
        );
        std::array::from_fn(|offset| self.load_hint(bucket * BUCKET_WORDS + offset))
    }

    /// The words of a bucket, in place.
    #[inline]
    pub(super) fn words_of(&self, bucket: usize) -> Option<&[AtomicU64; BUCKET_WORDS]> {
        self.words.all().get(bucket * BUCKET_WORDS..)?.first_chunk()
    }

    /// The slots of these buckets. Buckets that do not exist are left out.
    pub(super) fn slots_of(&self, buckets: Range<usize>) -> Range<usize> {
        let end = buckets.end.min(self.bucket_count);
        buckets.start.min(end) * BUCKET_WORDS..end * BUCKET_WORDS
    }

    /// The slots that may hold the word of a key.
    #[inline]
    pub(super) fn slots(&self, hash: KeyHash) -> impl Iterator<Item = usize> + Clone + use<W, R> {
        let buckets = hash.buckets(self.bucket_count);
        buckets.into_iter().flat_map(|bucket| bucket * BUCKET_WORDS..(bucket + 1) * BUCKET_WORDS)
    }

    /// Loads a word without an ordering: a hint.
    #[inline]
    pub(super) fn load_hint(&self, slot: usize) -> IndexWord {
        IndexWord::from_bits(self.words.word(slot).load(Relaxed))
    }

    /// Pins the record that the word in a slot names, if that word is wanted.
    ///
    /// If the word has changed under the pin, the loop continues with the new word. Each further
    /// iteration means that another thread has changed the word.
    #[inline]
    pub(super) fn pin_word<'row, P: Words>(
        &self,
        row: &'row PinRow<P>,
        slot: usize,
        wanted: impl Fn(IndexWord) -> bool,
    ) -> Result<IndexHit<'row>, PinFailure> {
        let word = self.words.word(slot);
        let mut seen = self.load_hint(slot);
        while wanted(seen) && seen.is_in_memory() {
            let hint = seen;
            let pinned = row.pin(self.records.segment_of(hint.location()), || {
                // ORDER: pairs with the releases that publish a word, in `publish` and `replace`:
                // the record is complete. No other part of the record is read before this load.
                seen = IndexWord::from_bits(word.load(acquire("index.look")));
                seen.is_same_record(hint)
            });
            match pinned {
                Ok(pin) => return Ok(IndexHit { slot, word: seen, pin }),
                Err(NotPinned::Gone) => {}
                Err(NotPinned::NoSuchColumn) => return Err(PinFailure::Damaged(hint)),
                Err(NotPinned::TooMany) => break,
            }
        }
        Err(PinFailure::Other)
    }

    /// Swaps a word, as long as it names the same record, and returns whether it did. The caller
    /// has the segment of `expected` pinned, owns it open, or reclaims it.
    ///
    /// The loop repeats only if another thread has changed the use count.
    pub(super) fn swap(
        &self,
        slot: usize,
        expected: IndexWord,
        new: impl Fn(IndexWord) -> IndexWord,
        success: Ordering,
    ) -> bool {
        let word = self.words.word(slot);
        let mut now = expected;
        while now.is_same_record(expected) {
            match word.compare_exchange(now.bits(), new(now).bits(), success, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = IndexWord::from_bits(other),
            }
        }
        false
    }

    /// Swaps a word if it is exactly the expected one, and returns whether it did.
    pub(super) fn swap_exactly(
        &self,
        slot: usize,
        expected: IndexWord,
        new: IndexWord,
        success: Ordering,
    ) -> bool {
        let word = self.words.word(slot);
        word.compare_exchange(expected.bits(), new.bits(), success, Relaxed).is_ok()
    }
}
