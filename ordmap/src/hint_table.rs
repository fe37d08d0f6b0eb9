//! A hash table beside a tree: it leads a lookup of one key to its entry without a descent of the
//! tree.
//!
//! The table gives only hints. A key that is missing in the table is found in the tree. A full
//! bucket drops a word for a new one. Keys that were chosen to collide cost no more than a descent
//! of the tree and a few comparisons.
//!
//! Invariant: *a word in a bucket names the entry that the tree has for its key now*. So before a
//! change is published, it [removes](HintBucket::take_out) the word of the old entry, and
//! afterwards it [adds](HintBucket::put) the word of the new entry. A reader that loads a word sees
//! the entry that was current at that moment, if the generation is unchanged once it has read the
//! entry. If a process dies between these steps, only a hint is missing.
//!
//! A bucket is a cache line of eight words:
//!
//! | word | written by | read by | holds |
//! |---|---|---|---|
//! | 0 | owners of the locks of the map's shards | all | bits 8 w to 8 w + 7: the tag of word w |
//! | 1–7 | owners of the locks of the map's shards | all | references, or 0 |
//!
//! Owners of different shards may write one bucket at the same time with plain stores: each stores
//! only 0 and words of its own shard. So a hint may be lost, but a word that its owner has removed
//! never comes back. A tag tells which words a lookup reads. A wrong tag causes a useless read or a
//! missed hint, and nothing worse.

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};
use twox_hash::XxHash3_64;

use crate::object::ObjectRef;

/// The number of words of a bucket, which is one cache line.
pub(crate) const BUCKET_WORDS: usize = 8;
/// The number of bytes of a bucket.
pub(crate) const BUCKET_BYTES: u64 = BUCKET_WORDS as u64 * 8;

/// A word whose bytes are all 1. Multiplied by a byte, it repeats the byte in a word.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x80 * ONES;

/// The buckets of one map, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HintTable<'a> {
    buckets: &'a [[AtomicU64; BUCKET_WORDS]],
}

/// The bucket in which the word of a key may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HintBucket<'a> {
    words: &'a [AtomicU64; BUCKET_WORDS],
    hash: u64,
}

impl<'a> HintTable<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> HintTable<'a> {
        HintTable { buckets: words.as_chunks().0 }
    }

    /// A part of these buckets; `None` if it reaches past the end.
    pub(crate) fn part(self, first: u64, count: u64) -> Option<HintTable<'a>> {
        let end = first.checked_add(count)?;
        let buckets = self.buckets.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?)?;
        Some(HintTable { buckets })
    }

    pub(crate) fn bucket_count(self) -> u64 {
        self.buckets.len() as u64
    }

    /// The bucket of a key; `None` if the table has no buckets.
    #[inline]
    pub(crate) fn bucket(self, key: &[u8]) -> Option<HintBucket<'a>> {
        if self.buckets.is_empty() { None } else { self.bucket_of(XxHash3_64::oneshot(key)) }
    }

    /// The bucket of a hash; each bucket covers an equal share of all hashes.
    #[inline]
    fn bucket_of(self, hash: u64) -> Option<HintBucket<'a>> {
        let index = (u128::from(hash) * self.buckets.len() as u128) >> 64;
        Some(HintBucket { words: self.buckets.get(index as usize)?, hash })
    }

    /// The words of all buckets.
    pub(crate) fn words(self) -> impl Iterator<Item = &'a AtomicU64> {
        self.buckets.iter().flat_map(|bucket| &bucket[1..])
    }
}

impl<'a> HintBucket<'a> {
    /// References that may name the entry of the key: usually at most one. Each word is loaded when
    /// the iterator reaches it.
    #[inline]
    pub(crate) fn named(self) -> impl Iterator<Item = ObjectRef> {
        let differing = self.words[0].load(Relaxed) ^ (ONES * u64::from(self.tag()));
        // The high bit of each byte that is zero, except for the byte of the tag word itself.
        let mut equal = !(((differing & !HIGHS) + !HIGHS) | differing) & HIGHS & !0xff;
        std::iter::from_fn(move || {
            let word = self.words.get(equal.trailing_zeros() as usize / 8)?;
            equal &= equal - 1;
            // ORDER: pairs with `ordmap.hint`: the entry that the word names is written and
            // published, so a later walk through the tree finds it.
            Some(ObjectRef::of_word(word.load(acquire("ordmap.ask"))))
        })
        .filter(|entry| !entry.is_none())
    }

    /// Whether `word` is one of this bucket's words for references.
    pub(crate) fn has(self, word: &AtomicU64) -> bool {
        self.words[1..].iter().any(|other| std::ptr::eq(other, word))
    }

    /// Removes the word of an entry that is about to leave the tree.
    ///
    /// The caller then publishes the tree without the entry, with a release store. So a reader that
    /// has seen that tree does not find the word here afterwards.
    pub(crate) fn take_out(self, entry: ObjectRef) {
        let is_it = |word: &&AtomicU64| word.load(Relaxed) == entry.word();
        self.words[1..].iter().filter(is_it).for_each(|word| word.store(0, Relaxed));
        crate::step!("hint.taken_out");
    }

    /// Adds the word of a published entry; in a full bucket the new word replaces another word.
    pub(crate) fn put(self, entry: ObjectRef) {
        let free = self.words[1..].iter().position(|word| word.load(Relaxed) == 0);
        let place = 1 + free.unwrap_or((self.hash >> 8) as usize % (BUCKET_WORDS - 1));
        let shift = 8 * place as u32;
        let others = self.words[0].load(Relaxed) & !(0xff << shift);
        self.words[0].store(others | u64::from(self.tag()) << shift, Relaxed);
        crate::step!("hint.tagged");
        // ORDER: pairs with `ordmap.ask`.
        self.words[place].store(entry.word(), release("ordmap.hint"));
        crate::step!("hint.put");
    }

    fn tag(self) -> u8 {
        self.hash as u8
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
