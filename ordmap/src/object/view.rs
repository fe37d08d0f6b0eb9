//! Reading objects that others may free and write again at any moment.
//!
//! A reader pins nothing. It begins with the word of the chunk, reads what it wants, and asks in
//! the end if the object was the same all the time: the generation in its header is that of the
//! reference, and its chunk was not divided anew. What it has read until then may be anything.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | header of an object | owner of the shard's lock; readers set its bit of use | all |
//! | its other words | owner of the lock, before it is named and after it was freed | all |
//! | slots of a node | owner of the lock | all |
//! | word of a chunk | who claims it; then the owner of its shard's lock | all |

use std::cmp::Ordering;

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, acquire_fence, release, release_fence};
use forebay_sync::leases::LeaseRow;

use super::class::{CHUNK_UNITS, ChunkWord};
use super::header::{ObjectHeader, ObjectKind};
use super::reference::{ObjectRef, UNIT_WORDS};

/// Why reading did not come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectReadError {
    /// What was read has been freed meanwhile: begin again.
    Changed,
    /// What was read can not be.
    Damaged(&'static str),
}

/// The words of all objects, and those of the chunks in which they lie, as who reads one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardView<'a> {
    data: &'a [AtomicU64],
    chunks: &'a [AtomicU64],
    /// The shard's number plus one.
    owner: u16,
}

/// Lines of an object that is about to be read: those of a short key and a short value.
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

    /// The word of a chunk as it is now.
    pub(crate) fn chunk(self, index: usize) -> Option<ChunkWord> {
        Some(ChunkWord::of_word(self.chunks.get(index)?.load(Relaxed)))
    }

    pub(crate) fn chunk_atomic(self, index: usize) -> Option<&'a AtomicU64> {
        self.chunks.get(index)
    }

    /// Words from a unit on.
    pub(crate) fn words(self, unit: usize, units: usize) -> Option<&'a [AtomicU64]> {
        let first = unit.checked_mul(UNIT_WORDS)?;
        self.data.get(first..first.checked_add(units * UNIT_WORDS)?)
    }

    /// One word of all objects, by its number.
    pub(crate) fn data_word(self, index: usize) -> Option<&'a AtomicU64> {
        self.data.get(index)
    }

    /// Asks for the lines in which an object begins that is about to be read: so many.
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
            ObjectReadError::Damaged("a reference leads out of the data");
        let unit = reference.unit().ok_or(OUTSIDE)?;
        let chunk = self.chunks.get(unit / CHUNK_UNITS).ok_or(OUTSIDE)?;
        let chunk_word = chunk.load(Relaxed);
        let now = ChunkWord::of_word(chunk_word);
        // The chunk may have been divided anew, or be another shard's, whose changes nobody counts
        // here; who comes again and again finds damage.
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

    /// Words that belong to the object.
    pub(crate) fn words(&self) -> &'a [AtomicU64] {
        self.words
    }

    /// One of its words; what it says may be nonsense until [`settle`](ObjectView::settle).
    #[inline]
    pub(crate) fn word(&self, index: usize) -> Result<u64, ObjectReadError> {
        match self.words.get(index) {
            Some(word) => Ok(word.load(Relaxed)),
            None => Err(ObjectReadError::Damaged("an object is shorter than it says")),
        }
    }

    pub(crate) fn header(&self) -> ObjectHeader {
        ObjectHeader::of_word(self.words[0].load(Relaxed))
    }

    /// Asks for its first lines, so that they come together.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.words.iter().step_by(8).take(PREFETCHED_LINES).for_each(prefetch);
    }

    /// The header, if it is one of this kind.
    #[inline]
    pub(crate) fn header_of(&self, kind: ObjectKind) -> Result<ObjectHeader, ObjectReadError> {
        let header = self.header();
        if header.kind() != Some(kind) {
            return Err(ObjectReadError::Damaged("an object is of another kind"));
        }
        Ok(header)
    }

    /// Was it the same object all the time since [`ShardView::begin`]?
    #[inline]
    pub(crate) fn is_same(&self) -> bool {
        // ORDER: pairs with `ordmap.reuse`: if we have loaded a word of what lies there now, we see
        // that what we wanted was freed.
        acquire_fence("ordmap.read");
        // ORDER: pairs with `ordmap.reuse`, too: if this is a word of a chunk that was divided
        // anew, and no header, we see that it was.
        let header = ObjectHeader::of_word(self.words[0].load(acquire("ordmap.header")));
        let is_same_chunk = self.chunk.load(Relaxed) == self.chunk_word;
        header.generation() == self.reference.generation() && is_same_chunk
    }

    /// What was read, if it was the same object all the time.
    #[inline]
    pub(crate) fn settle<T>(&self, read: Result<T, ObjectReadError>) -> Result<T, ObjectReadError> {
        if self.is_same() { read } else { Err(ObjectReadError::Changed) }
    }

    /// Marks the entry as used, unless it is, or has gone, or cannot be leased: without a lease its
    /// chunk might be divided anew before the mark is set, which then would hit anything.
    pub(crate) fn mark<W: Words>(&self, row: &LeaseRow<W>) {
        if self.header().is_used() {
            return;
        }
        if let Ok(_lease) = row.take(self.reference.word(), || self.is_same()) {
            self.set_used(true);
        }
    }

    /// Marks the entry as used or not, unless it has gone. The caller holds a lease of it, or the
    /// lock of its shard.
    pub(crate) fn set_used(&self, is_used: bool) {
        let header = self.header();
        if header.is_used() == is_used || header.generation() != self.reference.generation() {
            return;
        }
        let marked = header.with_used(is_used).word();
        // Who frees it meanwhile raises the generation, and then this must not undo that.
        let _ = self.words[0].compare_exchange(header.word(), marked, Relaxed, Relaxed);
    }
}

/// Asks for the line of a word: who reads several lines waits for all of them together.
#[inline]
pub(crate) fn prefetch(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it has no effect but on the caches, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}

/// The reference that a slot holds now.
#[inline]
pub(crate) fn follow(slot: &AtomicU64) -> ObjectRef {
    // ORDER: pairs with `ordmap.publish`: we see what was written before the slot named it.
    ObjectRef::of_word(slot.load(acquire("ordmap.follow")))
}

/// Commits a change: from now on the slot names another object.
pub(crate) fn publish(slot: &AtomicU64, new: ObjectRef) {
    // ORDER: pairs with `ordmap.follow`.
    slot.store(new.word(), release("ordmap.publish"));
}

/// Between taking memory that was freed and writing into it.
pub(crate) fn before_reuse() {
    // ORDER: pairs with `ordmap.read` and `ordmap.header`: who sees a word of what we write sees
    // the generation that was raised before.
    release_fence("ordmap.reuse");
}

/// Eight bytes of a key from an offset on, so that they compare as the key does; zeros behind its
/// end.
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

/// Compares the bytes that lie in words with a key; the first `equal_bytes` are known to be equal.
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

/// Is what lies in words this key? Behind its end they have zeros.
#[inline]
pub(crate) fn equals_words(words: &[AtomicU64], key: &[u8]) -> bool {
    let (whole, rest) = key.as_chunks::<8>();
    let mut words = words.iter().map(|word| word.load(Relaxed));
    let is_whole = whole.iter().all(|bytes| words.next() == Some(u64::from_le_bytes(*bytes)));
    is_whole && (rest.is_empty() || words.next() == Some(head_of(rest).swap_bytes()))
}

/// Appends the first `byte_count` bytes that lie in words; fewer, if there are not as many.
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

/// Stores bytes as words, with zeros behind the last.
pub(crate) fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Relaxed);
    }
}
