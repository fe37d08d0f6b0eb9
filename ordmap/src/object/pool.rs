//! The pool of free chunks: how a shard claims, divides and gives back chunks.
//!
//! A chunk is claimed by one swap of its word, and has no class until its headers are written; if
//! the owner dies before that, its successor gives the chunk back.

use std::collections::BTreeMap;

use forebay_sync::atomic::{Relaxed, acquire, release};

use super::alloc::{
    Allocator, CHUNKS_OWNED, FREE_COUNT, FreeObject, GIVEN, HINT, LIST_DAMAGED, SEARCHED,
};
use super::class::{CHUNK_UNITS, ChunkClass, ChunkWord, SPAN_CHUNKS_MAX};
use super::header::{ObjectHeader, ObjectKind};
use super::reference::{Generation, ObjectRef};
use super::view::{ObjectReadError, before_reuse};
use crate::shard::EPOCHS_MAX;

impl<'a> Allocator<'a> {
    /// Claims a chunk from the pool and divides it; false if the pool has no free chunk.
    pub(super) fn claim(&self, number: u8) -> Result<bool, ObjectReadError> {
        // ORDER: pairs with `ordmap.given`: if we see the count of a chunk that was given back, we
        // also see that the chunk is free.
        let given = self.pool[GIVEN].load(acquire("ordmap.search")).wrapping_add(1);
        if self.lists[SEARCHED].load(Relaxed) == given {
            return Ok(false);
        }
        let Some(chunk) = self.claim_run(1) else {
            self.lists[SEARCHED].store(given, Relaxed);
            return Ok(false);
        };
        let size = ChunkClass::size_units(number).ok_or(LIST_DAMAGED)?;
        let base = self.view.chunk(chunk).ok_or(LIST_DAMAGED)?.base();
        let words = self.view.words(chunk * CHUNK_UNITS, CHUNK_UNITS).ok_or(LIST_DAMAGED)?;
        let count = CHUNK_UNITS / size;
        for object in 0..count {
            words[object * size * 2]
                .store(ObjectHeader::new(base, ObjectKind::Free, 0).word(), Relaxed);
        }
        self.reset_row(chunk, count);
        crate::step!("chunk.claimed");
        self.divide(chunk, ChunkWord::new(base, ChunkClass::Size(number), self.owner, 0));
        crate::step!("chunk.divided");
        self.link(chunk, ChunkClass::Size(number));
        Ok(true)
    }

    /// Counts that chunks were given back, so that searches that failed before, or fail now, are
    /// repeated.
    pub(super) fn count_given(&self) {
        // ORDER: pairs with `ordmap.search`.
        self.pool[GIVEN].fetch_add(1, release("ordmap.given"));
    }

    /// Makes the next search run although the last one failed: a process may have given a chunk
    /// back and died before it counted that.
    pub(crate) fn forget_search(&self) {
        self.lists[SEARCHED].store(0, Relaxed);
    }

    fn divide(&self, chunk: usize, word: ChunkWord) {
        if let Some(atomic) = self.view.chunk_atomic(chunk) {
            // ORDER: pairs with `ordmap.read`: a reader that sees the new division sees headers
            // where objects begin.
            atomic.store(word.word(), release("ordmap.divide"));
        }
    }

    fn reset_row(&self, chunk: usize, free: usize) {
        let row = self.row(chunk);
        row.iter().for_each(|word| word.store(0, Relaxed));
        row[FREE_COUNT].store(free as u64, Relaxed);
        self.add(CHUNKS_OWNED, 1);
    }

    /// Claims `count` consecutive free chunks and returns the first one.
    fn claim_run(&self, count: usize) -> Option<usize> {
        self.outdate_references();
        let chunks = self.view.chunk_count();
        let hint = self.pool[HINT].load(Relaxed) as usize % chunks.max(1);
        let mut run = 0;
        for step in 0..chunks + count {
            let chunk = (hint + step) % chunks;
            let is_free = self.view.chunk(chunk).is_some_and(ChunkWord::is_free);
            // A run does not wrap around the end.
            let before = if chunk == 0 { 0 } else { run };
            run = if is_free { before + 1 } else { 0 };
            if run < count {
                continue;
            }
            let first = chunk + 1 - count;
            if self.claim_all(first, count) {
                self.pool[HINT].store(chunk as u64 + 1, Relaxed);
                before_reuse();
                return Some(first);
            }
            run = 0;
        }
        None
    }

    /// Makes readers of this shard start again if they remember old generations of the chunk. While
    /// it belonged to another shard, changes there may have wrapped a generation around. The caller
    /// then calls [`before_reuse`], so a reader that sees a word written into the chunk sees this
    /// epoch too.
    fn outdate_references(&self) {
        let outdated = self.epoch.load(Relaxed).wrapping_add(EPOCHS_MAX + 1);
        self.epoch.store(outdated, Relaxed);
    }

    /// Claims `count` chunks from `first` on, or none if another shard claims one of them first.
    fn claim_all(&self, first: usize, count: usize) -> bool {
        let claimed = (first..first + count).take_while(|chunk| self.claim_one(*chunk)).count();
        if claimed < count {
            (first..first + claimed).for_each(|chunk| self.unclaim(chunk));
            // The searches of other shards may have failed because we held these chunks.
            self.count_given();
        }
        claimed == count
    }

    pub(super) fn claim_one(&self, chunk: usize) -> bool {
        let Some(atomic) = self.view.chunk_atomic(chunk) else { return false };
        let current = ChunkWord::of_word(atomic.load(Relaxed));
        if !current.is_free() {
            return false;
        }
        let ours = ChunkWord::new(current.base(), ChunkClass::None, self.owner, 0);
        // ORDER: pairs with `ordmap.give`: we see the raised generations in the headers of the
        // chunk's earlier objects.
        let order = acquire("ordmap.claim");
        let is_ours = atomic.compare_exchange(current.word(), ours.word(), order, Relaxed).is_ok();
        if is_ours {
            crate::step!("chunk.taken");
        }
        is_ours
    }

    pub(super) fn unclaim(&self, chunk: usize) {
        if let Some(word) = self.view.chunk(chunk) {
            self.set_free(chunk, word.base());
        }
    }

    pub(super) fn set_free(&self, chunk: usize, base: Generation) {
        if let Some(atomic) = self.view.chunk_atomic(chunk) {
            let word = ChunkWord::new(base, ChunkClass::None, 0, 0);
            // ORDER: pairs with `ordmap.claim`.
            atomic.store(word.word(), release("ordmap.give"));
        }
    }

    pub(super) fn give_back(
        &self,
        chunk: usize,
        word: ChunkWord,
        class: ChunkClass,
    ) -> Result<(), ObjectReadError> {
        let base = self.generation_beyond(chunk, word, class)?;
        self.set_free(chunk, base);
        crate::step!("chunk.given_back");
        self.subtract(CHUNKS_OWNED, 1);
        self.count_given();
        Ok(())
    }

    /// A generation above the generations of all objects in the chunk.
    pub(super) fn generation_beyond(
        &self,
        chunk: usize,
        word: ChunkWord,
        class: ChunkClass,
    ) -> Result<Generation, ObjectReadError> {
        let words = self.view.words(chunk * CHUNK_UNITS, CHUNK_UNITS).ok_or(LIST_DAMAGED)?;
        let size = match class {
            ChunkClass::Size(number) => ChunkClass::size_units(number).ok_or(LIST_DAMAGED)?,
            _ => CHUNK_UNITS,
        };
        let base = word.base();
        let headers = (0..CHUNK_UNITS / size).map(|object| words[object * size * 2].load(Relaxed));
        let steps =
            headers.map(|header| ObjectHeader::of_word(header).generation().since(base)).max();
        Ok(Generation::of(base.bits() + steps.unwrap_or(0) + 1))
    }

    pub(super) fn find_span(
        &self,
        chunks: usize,
    ) -> Result<Option<FreeObject<'a>>, ObjectReadError> {
        if chunks > SPAN_CHUNKS_MAX {
            return Ok(None);
        }
        let Some(first) = self.claim_run(chunks) else { return Ok(None) };
        for rest in first + 1..first + chunks {
            let base = self.view.chunk(rest).ok_or(LIST_DAMAGED)?.base();
            self.divide(rest, ChunkWord::new(base, ChunkClass::SpanRest, self.owner, 0));
        }
        let base = self.view.chunk(first).ok_or(LIST_DAMAGED)?.base();
        let words = self.view.words(first * CHUNK_UNITS, 1).ok_or(LIST_DAMAGED)?;
        words[0].store(ObjectHeader::new(base, ObjectKind::Free, 0).word(), Relaxed);
        self.reset_row(first, 1);
        self.add(CHUNKS_OWNED, chunks as u64 - 1);
        crate::step!("span.claimed");
        self.divide(first, ChunkWord::new(base, ChunkClass::Span, self.owner, chunks));
        self.found(first, 0, chunks * CHUNK_UNITS).map(Some)
    }

    /// Whether an object of this size can be allocated after all objects of the shard except `kept`
    /// are freed.
    pub(crate) fn can_be_found(&self, units: usize, kept: &[ObjectRef]) -> bool {
        let kept = self.kept_counts(kept);
        let number = ChunkClass::for_units(units);
        let wanted = units.div_ceil(CHUNK_UNITS);
        let mut run = 0;
        for chunk in 0..self.view.chunk_count() {
            let Some(word) = self.view.chunk(chunk) else { return false };
            let is_ours = word.owner() == self.owner;
            let kept_count = kept.get(&chunk).copied().unwrap_or(0);
            run = if word.is_free() || is_ours && kept_count == 0 { run + 1 } else { 0 };
            let class = word.class().filter(|_| is_ours);
            let has_place = class.is_some_and(|class| {
                number.map(ChunkClass::Size) == Some(class) && kept_count < class.object_count()
            });
            if run >= wanted || has_place {
                return true;
            }
        }
        false
    }

    /// The number of these objects in each chunk that has any.
    fn kept_counts(&self, kept: &[ObjectRef]) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for (chunk, units) in kept.iter().filter_map(|object| self.chunk_and_units(*object)) {
            for chunk in chunk..chunk + units.div_ceil(CHUNK_UNITS) {
                *counts.entry(chunk).or_insert(0) += 1;
            }
        }
        counts
    }

    /// Gives back the chunks of a span. The first chunk is first, so that readers of the span
    /// notice before another shard writes into one of its chunks.
    pub(super) fn give_back_span(
        &self,
        first: usize,
        word: ChunkWord,
    ) -> Result<(), ObjectReadError> {
        let base = self.generation_beyond(first, word, ChunkClass::Span)?;
        self.set_free(first, base);
        crate::step!("span.given_back");
        let end = (first + word.span_chunks()).min(self.view.chunk_count());
        for rest in first + 1..end {
            let word = self.view.chunk(rest).ok_or(LIST_DAMAGED)?;
            if word.owner() == self.owner && word.class() == Some(ChunkClass::SpanRest) {
                self.set_free(rest, word.base());
            }
        }
        self.subtract(CHUNKS_OWNED, word.span_chunks() as u64);
        self.count_given();
        Ok(())
    }
}
