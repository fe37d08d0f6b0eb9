//! Audits the memory: every chunk of the shard, every object in it, limbo, the free lists and the
//! counts.

use std::collections::HashMap;

use forebay_sync::atomic::Relaxed;

use super::ShardAudit;
use crate::object::{CHUNK_UNITS, ChunkClass, ChunkWord, ObjectKind, ObjectRef};
use crate::shard::words::LIMBO_COUNT;

impl ShardAudit<'_> {
    pub(super) fn memory(&mut self) {
        self.limbo();
        let listed = self.allocator.listed();
        let (mut units, mut chunks, mut span_end) = (0, 0, 0);
        for chunk in 0..self.allocator.view.chunk_count() {
            let Some(word) = self.allocator.view.chunk(chunk) else { continue };
            if word.owner() != self.allocator.owner {
                continue;
            }
            chunks += 1;
            match word.class() {
                Some(ChunkClass::Size(_)) => units += self.sized(chunk, word, &listed),
                Some(ChunkClass::Span) => {
                    span_end = chunk + word.span_chunks();
                    units += self.sized(chunk, word, &listed);
                }
                Some(ChunkClass::SpanRest) if chunk < span_end => {}
                _ => self.find("a chunk is claimed but not divided", chunk as u64),
            }
        }
        if units != self.allocator.taken_units() {
            self.find("the shard's count of memory in use is wrong", self.allocator.taken_units());
        }
        if chunks != self.allocator.chunks_owned() {
            self.find("the shard's count of its chunks is wrong", self.allocator.chunks_owned());
        }
    }

    fn limbo(&mut self) {
        let waiting: Vec<ObjectRef> = {
            let places = self.shard.limbo().iter();
            let entries = places.map(|place| ObjectRef::of_word(place.load(Relaxed)));
            entries.filter(|entry| !entry.is_none()).collect()
        };
        self.audited.waiting = waiting.len() as u64;
        if self.shard.load(LIMBO_COUNT) != self.audited.waiting {
            self.find(
                "the shard's count of entries in limbo is wrong",
                self.shard.load(LIMBO_COUNT),
            );
        }
        waiting.into_iter().for_each(|entry| _ = self.name(entry));
    }

    /// Checks the objects of a chunk, and returns the units of those that are taken.
    fn sized(&mut self, chunk: usize, word: ChunkWord, listed: &HashMap<usize, ChunkClass>) -> u64 {
        let class = word.class().unwrap_or(ChunkClass::None);
        let size = match class {
            ChunkClass::Size(number) => ChunkClass::size_units(number).unwrap_or(CHUNK_UNITS),
            _ => word.span_chunks() * CHUNK_UNITS,
        };
        let bits = self.allocator.bits(chunk);
        let (mut units, mut free) = (0, 0);
        for object in 0..class.object_count() {
            let unit = chunk * CHUNK_UNITS + object * size;
            let is_taken = bits[object / 64] & 1 << (object % 64) != 0;
            let kind = self.allocator.header_at(unit).and_then(|header| header.kind());
            if is_taken {
                units += size as u64;
                if !self.named.contains(&unit) {
                    self.find(
                        "an object is leaked: it is marked as in use, but nothing refers to it",
                        unit as u64,
                    );
                }
            } else {
                free += 1;
                if kind != Some(ObjectKind::Free) {
                    self.find("a free object has the header of an object in use", unit as u64);
                }
            }
        }
        if matches!(class, ChunkClass::Size(_)) {
            let expected = (free > 0).then_some(class);
            let is_right = listed.get(&chunk).copied() == expected;
            if !is_right || self.allocator.free_count(chunk) != free {
                self.find(
                    "a chunk is in the wrong list or has a wrong count of free objects",
                    chunk as u64,
                );
            }
        }
        units
    }
}
