//! Reads objects that others may free and rewrite at any moment.
//!
//! A reader pins nothing. It loads the word of the chunk, reads the object, and checks at the end
//! that the object was the same all the time: the generation in the header equals that of the
//! reference, and the chunk was not divided again. Until then everything that was read may be
//! nonsense.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | header of an object | owner of the shard's lock; readers set its use bit | all |
//! | other words of an object | owner of the shard's lock, while the object is not in use | all |
//! | slots of a node | owner of the shard's lock | all |
//! | word of a chunk | the shard that claims it; then the owner of its shard's lock | all |

use std::cmp::Ordering;

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, acquire_fence, release, release_fence};
use forebay_sync::leases::LeaseRow;

use super::class::{CHUNK_UNITS, ChunkWord};
use super::header::{ObjectHeader, ObjectKind};
use super::reference::{ObjectRef, UNIT_WORDS};

/// Why a read did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectReadError {
    /// The object was freed during the read: start again.
    Changed,
    /// The words that were read cannot be valid.
    Damaged(&'static str),
}

/// The words of all objects and chunks, for reading the objects of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardView<'a> {
    data: &'a [AtomicU64],
    chunks: &'a [AtomicU64],
    /// The shard's number plus one.
    owner: u16,
}

/// The number of cache lines that are prefetched for an object: enough for a short key and a short
/// value.
const PREFETCHED_LINES: usize = 4;

/// An object that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectView<'a> {
    reference: ObjectRef,
    words: &'a [AtomicU64],
    chunk: &'a AtomicU64,
    chunk_word: u64,
}

impl<'a> ShardView<'a> {
    pub(crate) fn new(data: &'a [AtomicU64], chunks: &'a [AtomicU64], owner: u16) -> ShardView<'a> {
        ShardView { data, chunks, owner }
    }

    pub(crate) fn chunk_count(self) -> usize {
        self.chunks.len()
    }

    /// The current word of a chunk.
    pub(crate) fn chunk(self, index: usize) -> Option<ChunkWord> {
        Some(ChunkWord::of_word(self.chunks.get(index)?.load(Relaxed)))
    }

    pub(crate) fn chunk_atomic(self, index: usize) -> Option<&'a AtomicU64> {
        self.chunks.get(index)
    }

    /// The words of `units` units from a unit on.
    pub(crate) fn words(self, unit: usize, units: usize) -> Option<&'a [AtomicU64]> {
        let first = unit.checked_mul(UNIT_WORDS)?;
        self.data.get(first..first.checked_add(units * UNIT_WORDS)?)
    }

    /// One word, by its index among the words of all objects.
    pub(crate) fn data_word(self, index: usize) -> Option<&'a AtomicU64> {
        self.data.get(index)
    }

    /// Prefetches the first cache lines of an object that is about to be read.
    #[inline]
    pub(crate) fn prefetch(self, reference: ObjectRef, lines: usize) {
        let first = reference.unit().map_or(usize::MAX, |unit| unit * UNIT_WORDS);
        let words = (0..lines).map(|line| self.data.get(first.saturating_add(8 * line)));
        words.flatten().for_each(prefetch);
    }

    /// Begins to read an object. The reference was loaded by [`follow`].
    #[inline]
    pub(crate) fn begin(self, reference: ObjectRef) -> Result<ObjectView<'a>, ObjectReadError> {
        const OUTSIDE: ObjectReadError =
            ObjectReadError::Damaged("a reference points outside of the data");
        let unit = reference.unit().ok_or(OUTSIDE)?;
        let chunk = self.chunks.get(unit / CHUNK_UNITS).ok_or(OUTSIDE)?;
        let chunk_word = chunk.load(Relaxed);
        let now = ChunkWord::of_word(chunk_word);
        // The chunk may have been divided again, or belong to another shard, whose changes this
        // shard does not count. A reader that fails here again and again finally reports damage.
        if now.owner() != self.owner {
            return Err(ObjectReadError::Changed);
        }
        let (_, units) = now.object_at(unit % CHUNK_UNITS).ok_or(ObjectReadError::Changed)?;
        let words = self.words(unit, units).ok_or(OUTSIDE)?;
        Ok(ObjectView { reference, words, chunk, chunk_word })
    }
}

impl<'a> ObjectView<'a> {
    pub(crate) fn reference(&self) -> ObjectRef {
        self.reference
    }

    /// The words of the object.
    pub(crate) fn words(&self) -> &'a [AtomicU64] {
        self.words
    }

    /// One word of the object; it may be nonsense until [`settle`](ObjectView::settle).
    #[inline]
    pub(crate) fn word(&self, index: usize) -> Result<u64, ObjectReadError> {
        match self.words.get(index) {
            Some(word) => Ok(word.load(Relaxed)),
            None => Err(ObjectReadError::Damaged("an object is shorter than its header says")),
        }
    }

    pub(crate) fn header(&self) -> ObjectHeader {
        ObjectHeader::of_word(self.words[0].load(Relaxed))
    }

    /// Prefetches the object's first cache lines, so that they arrive together.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.words.iter().step_by(8).take(PREFETCHED_LINES).for_each(prefetch);
    }

    /// The header, if the object is of this kind.
    #[inline]
    pub(crate) fn header_of(&self, kind: ObjectKind) -> Result<ObjectHeader, ObjectReadError> {
        let header = self.header();
        if header.kind() != Some(kind) {
            return Err(ObjectReadError::Damaged("an object has the wrong kind"));
        }
        Ok(header)
    }

    /// Whether the object has been the same all the time since [`ShardView::begin`].
    #[inline]
    pub(crate) fn is_same(&self) -> bool {
        // ORDER: pairs with `ordmap.reuse`: if we have loaded a word of the next object there, we
        // see that this one was freed.
        acquire_fence("ordmap.read");
        // ORDER: pairs with `ordmap.reuse`, too: if this word is part of a chunk that was divided
        // again, and no header, we see the division.
        let header = ObjectHeader::of_word(self.words[0].load(acquire("ordmap.header")));
        let is_same_chunk = self.chunk.load(Relaxed) == self.chunk_word;
        header.generation() == self.reference.generation() && is_same_chunk
    }

    /// The result of a read, if the object was the same all the time.
    #[inline]
    pub(crate) fn settle<T>(&self, read: Result<T, ObjectReadError>) -> Result<T, ObjectReadError> {
        if self.is_same() { read } else { Err(ObjectReadError::Changed) }
    }

    /// Marks the entry as used, unless it is marked already, is gone, or cannot be leased. Without
    /// a lease, the chunk could be divided again before the mark is set, and the mark would change
    /// another object.
    pub(crate) fn mark<W: Words>(&self, row: &LeaseRow<W>) {
        if self.header().is_used() {
            return;
        }
        if let Ok(_lease) = row.take(self.reference.word(), || self.is_same()) {
            self.set_used(true);
        }
    }

    /// Marks the entry as used or unused, unless it is gone. The caller holds a lease of it, or the
    /// lock of its shard.
    pub(crate) fn set_used(&self, is_used: bool) {
        let header = self.header();
        if header.is_used() == is_used || header.generation() != self.reference.generation() {
            return;
        }
        let marked = header.with_used(is_used).word();
        // The entry may be freed at the same time, which raises the generation; this swap must not
        // undo that.
        let _ = self.words[0].compare_exchange(header.word(), marked, Relaxed, Relaxed);
    }
}

/// Prefetches the cache line of a word: a reader of several lines then waits once for all of them.
#[inline]
pub(crate) fn prefetch(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch affects only caches, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}

/// The reference that a slot holds now.
#[inline]
pub(crate) fn follow(slot: &AtomicU64) -> ObjectRef {
    // ORDER: pairs with `ordmap.publish`: we see the stores from before the slot named the object.
    ObjectRef::of_word(slot.load(acquire("ordmap.follow")))
}

/// Publishes a change: from now on the slot names `new`.
pub(crate) fn publish(slot: &AtomicU64, new: ObjectRef) {
    // ORDER: pairs with `ordmap.follow`.
    slot.store(new.word(), release("ordmap.publish"));
}

/// Orders the reuse of freed memory. It is called after the memory is taken and before it is
/// written.
pub(crate) fn before_reuse() {
    // ORDER: pairs with `ordmap.read` and `ordmap.header`: a reader that sees a word of the new
    // object sees the generation that was raised before.
    release_fence("ordmap.reuse");
}

/// The first eight bytes of a key as a number that compares as the key does, padded with zeros.
#[inline]
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes).swap_bytes(),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_le_bytes(bytes).swap_bytes()
        }
    }
}

/// Compares bytes stored in words with a key; the first `equal_bytes` are known to be equal.
#[inline]
pub(crate) fn compare_words(
    words: &[AtomicU64],
    byte_count: usize,
    key: &[u8],
    equal_bytes: usize,
) -> Ordering {
    let common = byte_count.min(key.len());
    let mut at = equal_bytes.min(common) / 8 * 8;
    while at < common {
        let count = (common - at).min(8);
        let mask = u64::MAX << (64 - 8 * count as u32);
        let Some(word) = words.get(at / 8) else { return Ordering::Less };
        let ours = word.load(Relaxed).swap_bytes() & mask;
        let theirs = head_of(&key[at..]) & mask;
        if ours != theirs {
            return ours.cmp(&theirs);
        }
        at += 8;
    }
    byte_count.cmp(&key.len())
}

/// Whether the bytes stored in words, padded with zeros, are this key.
#[inline]
pub(crate) fn equals_words(words: &[AtomicU64], key: &[u8]) -> bool {
    let (whole, rest) = key.as_chunks::<8>();
    let mut words = words.iter().map(|word| word.load(Relaxed));
    let is_whole = whole.iter().all(|bytes| words.next() == Some(u64::from_le_bytes(*bytes)));
    is_whole && (rest.is_empty() || words.next() == Some(head_of(rest).swap_bytes()))
}

/// Appends the first `byte_count` bytes stored in words, or fewer if the words do not have as many.
#[inline]
pub(crate) fn copy_words(words: &[AtomicU64], byte_count: usize, out: &mut Vec<u8>) {
    let (begin, word_count) = (out.len(), words.len().min(byte_count.div_ceil(8)));
    out.resize(begin + word_count * 8, 0);
    let places = out[begin..].as_chunks_mut().0;
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.load(Relaxed).to_le_bytes();
    }
    out.truncate(begin + byte_count);
}

/// Stores bytes as words, padded with zeros.
pub(crate) fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Relaxed);
    }
}
