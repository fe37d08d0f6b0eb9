//! Eviction by CLOCK: a hand moves over the memory of the shard and removes entries that were not
//! used since the hand last passed them.
//!
//! The hand follows memory, not keys. So entries that lie side by side are evicted together, and
//! whole chunks become free and can be divided into objects of another size.

use super::intent::ChangeError;
use super::words::{EVICTED, HAND, IS_FULL};
use super::writer::ShardWriter;
use crate::object::{CHUNK_UNITS, ChunkClass, EntryKind, ObjectKind, ObjectReadError, ObjectRef};
use crate::tree::copy_key_of;

/// The number of rounds over all chunks after which eviction fails. One round is not enough,
/// because it may only clear use bits.
const ROUNDS_MAX: usize = 2;

impl ShardWriter<'_> {
    /// Evicts one entry other than `spared`; returns the units that the entry occupied, or `None`
    /// if there is no victim.
    pub(crate) fn evict(&self, spared: Option<ObjectRef>) -> Result<Option<u64>, ChangeError> {
        self.shard.store(IS_FULL, 1);
        let chunks = self.tree.view.chunk_count();
        let (mut chunk, mut object) = self.hand();
        for _ in 0..=ROUNDS_MAX * chunks {
            while let Some(entry) = self.next_entry(chunk, &mut object)? {
                let units = self.allocator.units_of(entry);
                if Some(entry) != spared && self.is_evicted(entry)? {
                    self.shard.store(HAND, ((chunk * CHUNK_UNITS) + object) as u64);
                    self.shard.store(EVICTED, self.shard.load(EVICTED).wrapping_add(1));
                    return Ok(Some(units));
                }
            }
            (chunk, object) = ((chunk + 1) % chunks, 0);
        }
        Ok(None)
    }

    /// The chunk and the object at which the hand stands.
    fn hand(&self) -> (usize, usize) {
        let hand = self.shard.load(HAND) as usize;
        (hand / CHUNK_UNITS % self.tree.view.chunk_count(), hand % CHUNK_UNITS)
    }

    /// The next entry of a chunk from `object` on, or `None` if there is none or another shard owns
    /// the chunk. Sets `object` to the object after the entry.
    fn next_entry(
        &self,
        chunk: usize,
        object: &mut usize,
    ) -> Result<Option<ObjectRef>, ChangeError> {
        let view = self.tree.view;
        let word = view
            .chunk(chunk)
            .ok_or(ChangeError::Damaged("the eviction hand points outside of the chunks"))?;
        if word.owner() != self.allocator.owner {
            return Ok(None);
        }
        let class =
            word.class().ok_or(ChangeError::Damaged("a chunk has an unknown class number"))?;
        let size = match class {
            ChunkClass::Size(number) => ChunkClass::size_units(number).unwrap_or(CHUNK_UNITS),
            _ => CHUNK_UNITS,
        };
        let bits = self.allocator.bits(chunk);
        while *object < class.object_count() {
            let (number, unit) = (*object, chunk * CHUNK_UNITS + *object * size);
            *object += 1;
            if bits[number / 64] & 1 << (number % 64) == 0 {
                continue;
            }
            let header = self
                .allocator
                .header_at(unit)
                .ok_or(ChangeError::Damaged("a chunk has an object beyond the end of the data"))?;
            if header.kind().is_some_and(ObjectKind::is_entry) {
                return Ok(Some(ObjectRef::new(unit, header.generation())));
            }
        }
        Ok(None)
    }

    /// Removes the entry and returns true. If the entry is marked as used, only removes the mark
    /// and returns false. Also returns false if the tree no longer names the entry.
    fn is_evicted(&self, entry: ObjectRef) -> Result<bool, ChangeError> {
        let object = self.tree.view.begin(entry)?;
        if object.header().is_used() {
            object.set_used(false);
            return Ok(false);
        }
        let mut key = Vec::new();
        match copy_key_of(self.tree.view, entry, EntryKind::Entry, &mut key) {
            Ok(()) => {}
            Err(ObjectReadError::Changed) => return Ok(false),
            Err(damaged) => return Err(damaged.into()),
        }
        let position = self.look(&key)?;
        if position.entry != Some(entry) {
            // The entry waits in limbo.
            return Ok(false);
        }
        self.remove(&position, &key)
    }
}
