//! Lists of chunks with free objects, one list for each size class, and counts. Lists and counts
//! are derived from chunk words and bits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::alloc::{Allocator, CHUNKS_OWNED, FREE_COUNT, LINKS, LIST_DAMAGED, TAKEN_UNITS};
use super::class::{CHUNK_UNITS, CLASS_COUNT, ChunkClass, ChunkWord};
use super::view::ObjectReadError;

impl<'a> Allocator<'a> {
    /// All chunks in lists, with the class of their list; a chunk in several lists appears once.
    pub(crate) fn listed(&self) -> HashMap<usize, ChunkClass> {
        let mut listed = HashMap::new();
        for number in 1..=CLASS_COUNT as u8 {
            let class = ChunkClass::Size(number);
            let mut at = self.list_of(Some(class)).map_or(0, |list| list.load(Relaxed) as usize);
            while (1..=self.view.chunk_count()).contains(&at) {
                let Entry::Vacant(vacant) = listed.entry(at - 1) else { break };
                vacant.insert(class);
                at = self.links(at - 1).0;
            }
        }
        listed
    }

    /// The number of free objects of a chunk, according to the chunk's own count.
    pub(crate) fn free_count(&self, chunk: usize) -> u64 {
        self.row(chunk)[FREE_COUNT].load(Relaxed)
    }

    pub(super) fn links(&self, chunk: usize) -> (usize, usize) {
        let word = self.row(chunk)[LINKS].load(Relaxed);
        (word as u32 as usize, (word >> 32) as usize)
    }

    fn set_links(&self, chunk: usize, next: usize, previous: usize) {
        let word = next as u64 & 0xffff_ffff | (previous as u64) << 32;
        self.row(chunk)[LINKS].store(word, Relaxed);
    }

    fn list_of(&self, class: Option<ChunkClass>) -> Option<&'a AtomicU64> {
        let Some(ChunkClass::Size(number)) = class else { return None };
        self.lists.get(usize::from(number).checked_sub(1)?)
    }

    pub(super) fn link(&self, chunk: usize, class: ChunkClass) {
        let Some(list) = self.list_of(Some(class)) else { return };
        let next = list.load(Relaxed) as usize;
        self.set_links(chunk, next, 0);
        if (1..=self.view.chunk_count()).contains(&next) {
            let (after, _) = self.links(next - 1);
            self.set_links(next - 1, after, chunk + 1);
        }
        list.store(chunk as u64 + 1, Relaxed);
    }

    pub(super) fn unlink(&self, chunk: usize) {
        let (next, previous) = self.links(chunk);
        let chunks = self.view.chunk_count();
        if (1..=chunks).contains(&next) {
            let (after, _) = self.links(next - 1);
            self.set_links(next - 1, after, previous);
        }
        if (1..=chunks).contains(&previous) {
            let (_, before) = self.links(previous - 1);
            self.set_links(previous - 1, next, before);
        } else if let Some(list) =
            self.list_of(self.view.chunk(chunk).and_then(|word| word.class()))
        {
            list.store(next as u64, Relaxed);
        }
        self.set_links(chunk, 0, 0);
    }

    /// Rebuilds lists and counts from chunk words and bits, and gives back chunks that a dead owner
    /// was claiming or freeing.
    pub(crate) fn rebuild(&self) -> Result<(), ObjectReadError> {
        self.lists.iter().for_each(|word| word.store(0, Relaxed));
        let mut span_end = 0;
        for chunk in 0..self.view.chunk_count() {
            let word = self.view.chunk(chunk).ok_or(LIST_DAMAGED)?;
            if word.owner() != self.owner {
                continue;
            }
            match word
                .class()
                .ok_or(ObjectReadError::Damaged("a chunk has an unknown class number"))?
            {
                ChunkClass::Size(_) => self.rebuild_sized(chunk, word),
                ChunkClass::Span if self.bits(chunk)[0] & 1 != 0 => {
                    span_end = chunk + word.span_chunks();
                    self.add(CHUNKS_OWNED, word.span_chunks() as u64);
                    self.count_units((word.span_chunks() * CHUNK_UNITS) as u64, true);
                }
                ChunkClass::Span => {
                    self.set_free(chunk, self.generation_beyond(chunk, word, ChunkClass::Span)?);
                }
                ChunkClass::SpanRest if chunk < span_end => {}
                ChunkClass::SpanRest | ChunkClass::None => self.unclaim(chunk),
            }
        }
        self.count_given();
        Ok(())
    }

    fn rebuild_sized(&self, chunk: usize, word: ChunkWord) {
        let Some(class @ ChunkClass::Size(number)) = word.class() else { return };
        let taken: u32 = self.bits(chunk).iter().map(|bits| bits.count_ones()).sum();
        let free = (class.object_count() as u64).saturating_sub(u64::from(taken));
        self.row(chunk)[FREE_COUNT].store(free, Relaxed);
        self.add(CHUNKS_OWNED, 1);
        let size = ChunkClass::size_units(number).unwrap_or(0);
        self.count_units(u64::from(taken) * size as u64, true);
        if free > 0 {
            self.link(chunk, class);
        }
    }

    /// The number of units of all objects that are taken.
    pub(crate) fn taken_units(&self) -> u64 {
        self.lists[TAKEN_UNITS].load(Relaxed)
    }

    /// The number of chunks that the shard owns.
    pub(crate) fn chunks_owned(&self) -> u64 {
        self.lists[CHUNKS_OWNED].load(Relaxed)
    }

    pub(super) fn count_units(&self, units: u64, is_taken: bool) {
        if is_taken { self.add(TAKEN_UNITS, units) } else { self.subtract(TAKEN_UNITS, units) }
    }

    pub(super) fn add(&self, word: usize, count: u64) {
        let sum = self.lists[word].load(Relaxed).wrapping_add(count);
        self.lists[word].store(sum, Relaxed);
    }

    pub(super) fn subtract(&self, word: usize, count: u64) {
        self.lists[word].store(self.lists[word].load(Relaxed).saturating_sub(count), Relaxed);
    }
}
