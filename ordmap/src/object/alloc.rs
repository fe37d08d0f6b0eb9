//! Allocates and frees objects, for the owner of a shard's lock.
//!
//! Two things are authoritative: the word of a chunk, which tells its owner and its division, and
//! one bit for each object, which is set while the object is taken. Lists and counts are derived
//! from these, and rebuilt after an owner of the lock has died.
//!
//! | word of a chunk's marks | meaning |
//! |---|---|
//! | 0 | links in a list of chunks with free objects: low half: next + 1, high half: previous + 1 |
//! | 1 | the number of free objects |
//! | 2–9 | a bit for each object, set while it is taken |

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::class::{CHUNK_UNITS, CLASS_COUNT, ChunkClass};
use super::header::{ObjectHeader, ObjectKind};
use super::reference::{ObjectRef, UNIT_WORDS};
use super::view::{ObjectReadError, ShardView, before_reuse};

/// The number of words of a chunk's marks.
pub(crate) const MARK_WORDS: usize = 10;
pub(super) const LINKS: usize = 0;
pub(super) const FREE_COUNT: usize = 1;
const BITS: usize = 2;
const BIT_WORDS: usize = MARK_WORDS - BITS;

/// The number of list words of a shard. Each size class has one word, with the number of the first
/// chunk in its list plus one. The words `SEARCHED`, `TAKEN_UNITS` and `CHUNKS_OWNED` follow.
pub(crate) const LIST_WORDS: usize = CLASS_COUNT + 3;
/// The list word with the value of `GIVEN`, plus one, at the time of the last search for a chunk
/// that failed; 0 if the next search must run.
pub(super) const SEARCHED: usize = CLASS_COUNT;
pub(super) const TAKEN_UNITS: usize = CLASS_COUNT + 1;
pub(super) const CHUNKS_OWNED: usize = CLASS_COUNT + 2;

/// The number of words that the allocators of all shards share.
pub(crate) const POOL_WORDS: usize = 2;
/// The pool word with the chunk at which the next search begins.
pub(super) const HINT: usize = 0;
/// The pool word that counts how often chunks were given back.
pub(super) const GIVEN: usize = 1;

/// The number of the size class of nodes.
pub(super) const NODE_CLASS: u8 = 15;
/// The number of free nodes that a shard keeps in reserve.
const RESERVE_NODES: u64 = 24;

pub(super) const LIST_DAMAGED: ObjectReadError =
    ObjectReadError::Damaged("a list of chunks is damaged");

/// The memory of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocator<'a> {
    pub(crate) view: ShardView<'a>,
    /// [`MARK_WORDS`] words for each chunk.
    pub(crate) marks: &'a [AtomicU64],
    /// [`LIST_WORDS`] words.
    pub(crate) lists: &'a [AtomicU64],
    /// [`POOL_WORDS`] words.
    pub(crate) pool: &'a [AtomicU64],
    /// The shard's epoch. A claim raises it by more than readers tolerate, because the generations
    /// of the claimed chunk may have wrapped around to those of old references.
    pub(crate) epoch: &'a AtomicU64,
    /// The shard's number plus one.
    pub(crate) owner: u16,
}

/// An object that is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeObject<'a> {
    pub(crate) reference: ObjectRef,
    pub(crate) words: &'a [AtomicU64],
    pub(super) chunk: usize,
    pub(super) object: usize,
}

impl<'a> Allocator<'a> {
    /// A free object of at least this many units; `None` if there is no memory left. It may claim a
    /// chunk, but the object stays free until [`take`](Allocator::take).
    pub(crate) fn find(&self, units: usize) -> Result<Option<FreeObject<'a>>, ObjectReadError> {
        let Some(number) = ChunkClass::for_units(units) else {
            return self.find_span(units.div_ceil(CHUNK_UNITS));
        };
        let list = &self.lists[usize::from(number) - 1];
        if list.load(Relaxed) == 0 && !self.claim(number)? {
            return Ok(None);
        }
        let chunk = (list.load(Relaxed) as usize).wrapping_sub(1);
        let word = self.view.chunk(chunk).ok_or(LIST_DAMAGED)?;
        if word.owner() != self.owner || word.class() != Some(ChunkClass::Size(number)) {
            return Err(LIST_DAMAGED);
        }
        let count = ChunkClass::Size(number).object_count();
        let object = self.free_object(chunk, count).ok_or(LIST_DAMAGED)?;
        let size = ChunkClass::size_units(number).ok_or(LIST_DAMAGED)?;
        self.found(chunk, object, size).map(Some)
    }

    pub(super) fn found(
        &self,
        chunk: usize,
        object: usize,
        size: usize,
    ) -> Result<FreeObject<'a>, ObjectReadError> {
        let unit = chunk * CHUNK_UNITS + object * size;
        let words = self.view.words(unit, size).ok_or(LIST_DAMAGED)?;
        let header = ObjectHeader::of_word(words[0].load(Relaxed));
        if header.kind() != Some(ObjectKind::Free) {
            return Err(ObjectReadError::Damaged("an object is both free and in use"));
        }
        Ok(FreeObject {
            reference: ObjectRef::new(unit, header.generation()),
            words,
            chunk,
            object,
        })
    }

    /// Takes a free object. The caller has recorded the reference in its intent: if the caller
    /// dies, its successor frees the object.
    pub(crate) fn take(&self, found: &FreeObject<'_>) {
        let row = self.row(found.chunk);
        let (word, bit) = bit_of(row, found.object);
        word.store(word.load(Relaxed) | bit, Relaxed);
        let free = row[FREE_COUNT].load(Relaxed).saturating_sub(1);
        row[FREE_COUNT].store(free, Relaxed);
        if free == 0 {
            self.unlink(found.chunk);
        }
        self.count_units(found.words.len() as u64 / 2, true);
        before_reuse();
    }

    /// Frees an object that nothing names any more. Readers that still have its reference notice
    /// that the object was freed.
    pub(crate) fn release(&self, reference: ObjectRef) -> Result<(), ObjectReadError> {
        let Some((chunk, object)) = self.clear(reference)? else {
            return Err(ObjectReadError::Damaged("an object to be freed does not exist"));
        };
        let word = self.view.chunk(chunk).ok_or(LIST_DAMAGED)?;
        let class = word.class().ok_or(LIST_DAMAGED)?;
        if class == ChunkClass::Span {
            self.count_units((word.span_chunks() * CHUNK_UNITS) as u64, false);
            return self.give_back_span(chunk, word);
        }
        debug_assert!(object < class.object_count());
        let row = self.row(chunk);
        let free = row[FREE_COUNT].load(Relaxed).wrapping_add(1);
        row[FREE_COUNT].store(free, Relaxed);
        if free == 1 {
            self.link(chunk, class);
        }
        if let ChunkClass::Size(number) = class {
            self.count_units(ChunkClass::size_units(number).unwrap_or(0) as u64, false);
        }
        if free == class.object_count() as u64 && self.is_surplus(chunk, class) {
            self.unlink(chunk);
            self.give_back(chunk, word, class)?;
        }
        Ok(())
    }

    /// Whether a neighbour of the chunk in its list has enough free objects: at least one or, for
    /// nodes, as many as the reserve.
    fn is_surplus(&self, chunk: usize, class: ChunkClass) -> bool {
        let (next, previous) = self.links(chunk);
        let least = if class == ChunkClass::Size(NODE_CLASS) { RESERVE_NODES } else { 1 };
        let mut others = [next, previous].into_iter().filter(|other| *other > 0);
        others.any(|other| {
            let row = self.listed_row(other);
            row.is_some_and(|row| row[FREE_COUNT].load(Relaxed) >= least)
        })
    }

    /// Makes sure that the shard has a reserve of free nodes: a removal copies nodes, so that a
    /// full map could not be emptied without the reserve. False if there is no memory for it.
    pub(crate) fn reserve_nodes(&self) -> Result<bool, ObjectReadError> {
        let list = &self.lists[usize::from(NODE_CLASS) - 1];
        let (mut at, mut count) = (list.load(Relaxed) as usize, 0);
        while at > 0 && count < RESERVE_NODES {
            let row = self.listed_row(at).ok_or(LIST_DAMAGED)?;
            count = row[FREE_COUNT].load(Relaxed).max(1).saturating_add(count);
            at = self.links(at - 1).0;
        }
        Ok(count >= RESERVE_NODES || self.claim(NODE_CLASS)?)
    }

    /// Frees an object during a repair, which rebuilds lists and counts later. The call may be
    /// repeated.
    pub(crate) fn release_again(&self, reference: ObjectRef) -> Result<(), ObjectReadError> {
        self.clear(reference).map(|_| ())
    }

    /// Whether the reference names an entry that was not freed.
    pub(crate) fn is_entry(&self, reference: ObjectRef) -> bool {
        self.place_of(reference).is_some_and(|(_, _, words)| {
            let header = ObjectHeader::of_word(words[0].load(Relaxed));
            let is_it = header.generation() == reference.generation();
            is_it && header.kind().is_some_and(ObjectKind::is_entry)
        })
    }

    /// Whether the memory at this reference is taken, by an object of any generation.
    pub(crate) fn is_taken(&self, reference: ObjectRef) -> bool {
        self.place_of(reference).is_some_and(|(chunk, object, _)| {
            let (word, bit) = bit_of(self.row(chunk), object);
            word.load(Relaxed) & bit != 0
        })
    }

    /// The units of an object of this shard; zero if the object belongs to another shard.
    pub(crate) fn units_of(&self, reference: ObjectRef) -> u64 {
        self.chunk_and_units(reference).map_or(0, |(_, units)| units as u64)
    }

    pub(super) fn chunk_and_units(&self, reference: ObjectRef) -> Option<(usize, usize)> {
        self.place_of(reference).map(|(chunk, _, words)| (chunk, words.len() / UNIT_WORDS))
    }

    /// Raises the generation of the object if it equals the generation in the reference: reads
    /// through the reference fail from now on.
    pub(crate) fn raise(&self, reference: ObjectRef) {
        let Some((_, _, words)) = self.place_of(reference) else { return };
        let header = ObjectHeader::of_word(words[0].load(Relaxed));
        if header.generation() == reference.generation() {
            words[0].store(header.freed().word(), Relaxed);
        }
    }

    /// Raises the generation and clears the bit; `None` if the chunk does not belong to this shard
    /// any more.
    fn clear(&self, reference: ObjectRef) -> Result<Option<(usize, usize)>, ObjectReadError> {
        let Some((chunk, object, words)) = self.place_of(reference) else {
            return Ok(None);
        };
        let now = ObjectHeader::of_word(words[0].load(Relaxed)).generation();
        if now != reference.generation() && now != reference.generation().next() {
            return Err(ObjectReadError::Damaged(
                "an object to be freed is not the expected object",
            ));
        }
        self.raise(reference);
        crate::step!("object.raised");
        let (word, bit) = bit_of(self.row(chunk), object);
        word.store(word.load(Relaxed) & !bit, Relaxed);
        Ok(Some((chunk, object)))
    }

    /// The chunk of an object of this shard, the object's index in the chunk, and its words.
    fn place_of(&self, reference: ObjectRef) -> Option<(usize, usize, &'a [AtomicU64])> {
        let unit = reference.unit()?;
        let chunk = unit / CHUNK_UNITS;
        let word = self.view.chunk(chunk).filter(|word| word.owner() == self.owner)?;
        let (object, units) = word.object_at(unit % CHUNK_UNITS)?;
        Some((chunk, object, self.view.words(unit, units)?))
    }

    fn free_object(&self, chunk: usize, count: usize) -> Option<usize> {
        let bits = &self.row(chunk)[BITS..];
        let (index, word) =
            bits.iter().enumerate().find(|(_, word)| word.load(Relaxed) != u64::MAX)?;
        let object = index * 64 + word.load(Relaxed).trailing_ones() as usize;
        (object < count).then_some(object)
    }

    /// The header of the object that begins at a unit.
    pub(crate) fn header_at(&self, unit: usize) -> Option<ObjectHeader> {
        Some(ObjectHeader::of_word(self.view.words(unit, 1)?[0].load(Relaxed)))
    }

    pub(super) fn row(&self, chunk: usize) -> &'a [AtomicU64] {
        &self.marks[chunk * MARK_WORDS..][..MARK_WORDS]
    }

    /// The marks of a chunk. `listed` is its number plus one, as lists have it.
    fn listed_row(&self, listed: usize) -> Option<&'a [AtomicU64]> {
        (1..=self.view.chunk_count()).contains(&listed).then(|| self.row(listed - 1))
    }

    /// The bits of a chunk's objects.
    pub(crate) fn bits(&self, chunk: usize) -> [u64; BIT_WORDS] {
        let row = self.row(chunk);
        std::array::from_fn(|index| row[BITS + index].load(Relaxed))
    }
}

fn bit_of(row: &[AtomicU64], object: usize) -> (&AtomicU64, u64) {
    (&row[BITS + object / 64], 1 << (object % 64))
}
