//! Changes of a map, under the lock of its shard.

use forebay_sync::atomic::Relaxed;

use super::split::ShardGuard;
use super::{Entry, Map};
use crate::error::MapError;
use crate::object::{
    ChunkClass, EntryKind, EntryLayout, EntryLengths, KEY_BYTES_MAX, ObjectRef, UNIT_WORDS,
    VALUE_BYTES_MAX,
};
use crate::shard::{
    BUDGET, ChangeError, KeyPosition, LIMBO_BATCH, LIMBO_SPARE, Limbo, ShardWriter, is_idle,
    is_moving, repair, settle_move,
};

/// The state of a key that a conditional change expects.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedState<'e> {
    /// The key has no entry.
    Absent,
    /// The key has an entry with this value.
    Value(&'e [u8]),
    /// The key has this same entry. A split may move an entry, which makes it another entry
    /// although no writer has changed it. So read the key again when a change is refused.
    Entry(&'e Entry<'e>),
}

/// The number of units of the nodes and separators that a change may need in addition to its entry:
/// the part of a budget that is reserved for them.
const SPARE_UNITS: u64 = 8 * 32 + 2 * KEY_BYTES_MAX as u64 / 16;

/// The most entries that are removed under one hold of the lock. Limbo has room for this many
/// entries in addition to a batch.
const REMOVED_AT_ONCE: usize = 16;
const _: () = assert!(LIMBO_BATCH + REMOVED_AT_ONCE <= LIMBO_SPARE);

impl Map<'_> {
    /// Stores a value under a key; returns whether the key existed before.
    ///
    /// # Errors
    /// [`MapError`]; nothing has changed then, except that entries may have been evicted.
    #[track_caller]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, MapError> {
        let mut was_there = false;
        self.put(key, value, |_, position| {
            was_there = position.entry.is_some();
            Ok(true)
        })?;
        Ok(was_there)
    }

    /// Stores a value if the key has the expected state; otherwise returns false.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn compare_and_insert(
        &self,
        key: &[u8],
        expected: ExpectedState<'_>,
        value: &[u8],
    ) -> Result<bool, MapError> {
        self.put(key, value, |writer, position| self.is_as_expected(writer, position, expected))
    }

    /// Removes a key; returns whether it existed.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn remove(&self, key: &[u8]) -> Result<bool, MapError> {
        self.take_out(key, |_, position| Ok(position.entry.is_some()))
    }

    /// Removes keys; returns how many existed. If the keys are in order, keys that are adjacent in
    /// a leaf are removed in one change, which costs little more than the removal of one key. The
    /// lock is released from time to time.
    ///
    /// # Errors
    /// [`MapError`]; some of the keys may have been removed then.
    #[track_caller]
    pub fn remove_all(&self, keys: &[&[u8]]) -> Result<u64, MapError> {
        let (mut removed, mut rest) = (0, keys);
        while let Some(first) = rest.first() {
            let (guard, writer, slot) = self.begin_for(first)?;
            let count = self.count_in(slot, &rest[..rest.len().min(REMOVED_AT_ONCE)])?;
            let (mut some, others) = rest.split_at(count);
            while !some.is_empty() {
                let run = writer.remove_run(some)?;
                some = some.get(run.looked_at..).unwrap_or_default();
                removed += run.removed as u64;
            }
            rest = others;
            self.end(guard, &writer, slot);
        }
        Ok(removed)
    }

    /// The number of leading `keys` that belong to this shard. The caller holds the lock of the
    /// shard, which has the first key.
    fn count_in(&self, slot: usize, keys: &[&[u8]]) -> Result<usize, MapError> {
        let mut count = keys.len().min(1);
        if self.routes().is_single() {
            return Ok(keys.len());
        }
        while let Some(key) = keys.get(count)
            && self.routes().find(key)?.1 == slot
        {
            count += 1;
        }
        Ok(count)
    }

    /// Removes a key if it has the expected state; otherwise returns false.
    /// [`ExpectedState::Absent`] removes nothing.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn compare_and_remove(
        &self,
        key: &[u8],
        expected: ExpectedState<'_>,
    ) -> Result<bool, MapError> {
        self.take_out(key, |writer, position| self.is_as_expected(writer, position, expected))
    }

    /// Frees [waiting](crate::MapStats::waiting_count) entries that no lease holds; returns the
    /// number of freed entries. Changes do this from time to time.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn reclaim(&self) -> Result<u64, MapError> {
        let mut freed = 0_u64;
        for slot in 0..self.shards().count {
            let (_guard, writer) = self.begin(slot)?;
            freed = freed.saturating_add(self.reclaim_all(&writer, true)?);
        }
        Ok(freed)
    }

    /// Runs a function while the locks of all shards are held, so that no other participant can
    /// change the map. Only for tests.
    ///
    /// # Errors
    /// [`MapError`]; the function was not run then.
    #[doc(hidden)]
    pub fn while_locked<T>(&self, run: impl FnOnce() -> T) -> Result<T, MapError> {
        let slots = 0..self.shards().count;
        let _begun = slots.map(|slot| self.begin(slot)).collect::<Result<Vec<_>, _>>()?;
        Ok(run())
    }

    /// Damages the map: makes its root name an object that does not exist. Only for tests.
    #[doc(hidden)]
    pub fn damage(&self) {
        self.reader.shard.word(crate::shard::ROOT).store(u64::MAX, Relaxed);
    }

    /// Runs a function under the lock of the first shard.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn under_lock<T>(
        &self,
        run: impl FnOnce(&ShardWriter<'_>) -> T,
    ) -> Result<T, MapError> {
        let (_guard, writer) = self.begin(0)?;
        Ok(run(&writer))
    }

    #[track_caller]
    fn put(
        &self,
        key: &[u8],
        value: &[u8],
        decide: impl FnMut(&ShardWriter<'_>, &KeyPosition) -> Result<bool, ChangeError>,
    ) -> Result<bool, MapError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(MapError::KeyTooLong);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(MapError::ValueTooLong);
        }
        let (guard, writer, slot) = self.begin_for(key)?;
        let is_done = self.put_by(&writer, key, value, decide);
        self.end(guard, &writer, slot);
        is_done
    }

    #[inline]
    fn put_by(
        &self,
        writer: &ShardWriter<'_>,
        key: &[u8],
        value: &[u8],
        mut decide: impl FnMut(&ShardWriter<'_>, &KeyPosition) -> Result<bool, ChangeError>,
    ) -> Result<bool, MapError> {
        let mut need = SpaceNeed::of(key, value);
        let budget_units = writer.shard.load(BUDGET) / UNIT_BYTES;
        if budget_units > 0 && need.wanted_units() > budget_units {
            // The entry would not fit, whatever is evicted.
            return Err(MapError::Full);
        }
        loop {
            let position = writer.look(key)?;
            if !decide(writer, &position)? {
                return Ok(false);
            }
            // The current entry is not evicted before the new one is stored: otherwise a failed
            // change could lose it.
            need.spared = position.entry;
            let has_room = self.has_budget(writer, &need) && writer.allocator.reserve_nodes()?;
            match if has_room { writer.put(&position, key, value) } else { Err(ChangeError::Full) }
            {
                Ok(()) => return Ok(true),
                Err(ChangeError::Full) if self.make_room(writer, &mut need)? => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[track_caller]
    fn take_out(
        &self,
        key: &[u8],
        decide: impl FnOnce(&ShardWriter<'_>, &KeyPosition) -> Result<bool, ChangeError>,
    ) -> Result<bool, MapError> {
        let (guard, writer, slot) = self.begin_for(key)?;
        let position = writer.look(key)?;
        let is_done = decide(&writer, &position)? && writer.remove(&position, key)?;
        self.end(guard, &writer, slot);
        Ok(is_done)
    }

    /// Locks one of the map's shards, and repairs unfinished changes of a dead owner.
    #[track_caller]
    pub(crate) fn begin(&self, slot: usize) -> Result<(ShardGuard<'_>, ShardWriter<'_>), MapError> {
        self.ready(self.take_lock(slot)?, slot)
    }

    /// Prepares a locked shard for a change.
    #[inline]
    pub(super) fn ready<'g>(
        &self,
        mut guard: ShardGuard<'g>,
        slot: usize,
    ) -> Result<(ShardGuard<'g>, ShardWriter<'_>), MapError> {
        let allocator = self.participant.shared().allocator(self.shards().number(slot));
        let writer = ShardWriter::new(allocator, self.words_of(slot), self.reader.hints);
        // A writer that met damage after it had published has left its intent, and released the
        // lock as usual: so the lock alone does not tell whether a repair is needed.
        if guard.must_repair() || !is_idle(writer.shard) {
            repair(writer.allocator, writer.shard)?;
            guard.repaired();
        }
        self.reclaim_if_due(&writer)?;
        if is_moving(writer.shard) {
            settle_move(&writer, &self.routes().range_of(slot)?)?;
            self.reclaim_if_due(&writer)?;
        }
        Ok((guard, writer))
    }

    fn reclaim_if_due(&self, writer: &ShardWriter<'_>) -> Result<(), ChangeError> {
        if self.limbo(writer).is_due() {
            self.reclaim_all(writer, false)?;
        }
        Ok(())
    }

    fn limbo<'a>(&self, writer: &ShardWriter<'a>) -> Limbo<'a> {
        Limbo::new(writer.allocator, writer.shard)
    }

    /// Frees the entries in limbo that no living participant holds. Without `must`, it looks for
    /// dead holders only in some calls.
    pub(super) fn reclaim_all(
        &self,
        writer: &ShardWriter<'_>,
        must: bool,
    ) -> Result<u64, ChangeError> {
        let (limbo, leases) = (self.limbo(writer), &self.participant.shared().leases);
        let freed = limbo.reclaim(leases)?;
        if limbo.count() == 0 || !self.participant.sweep_holders(must) {
            return Ok(freed);
        }
        Ok(freed.saturating_add(limbo.reclaim(leases)?))
    }

    fn has_budget(&self, writer: &ShardWriter<'_>, need: &SpaceNeed) -> bool {
        let budget_bytes = writer.shard.load(BUDGET);
        let units = writer.allocator.taken_units().saturating_add(need.wanted_units());
        budget_bytes == 0 || units.saturating_mul(UNIT_BYTES) <= budget_bytes
    }

    /// Frees entries in limbo, or evicts entries if the map has a budget and that can help. Returns
    /// whether the change can be tried again.
    fn make_room(
        &self,
        writer: &ShardWriter<'_>,
        need: &mut SpaceNeed,
    ) -> Result<bool, ChangeError> {
        let has_budget = writer.shard.load(BUDGET) > 0;
        if self.reclaim_all(writer, !has_budget)? > 0 {
            return Ok(true);
        }
        if !has_budget {
            writer.allocator.forget_search();
            return Ok(!std::mem::replace(&mut need.has_searched, true));
        }
        if need.evicted_units >= need.check_at {
            if !self.can_have_room(writer, need) {
                return Ok(false);
            }
            need.check_at = 2 * need.check_at.max(need.wanted_units());
        }
        // Entries are evicted in batches: otherwise all leases would be read for each entry.
        let before = need.evicted_units;
        for _ in 0..EVICTED_AT_ONCE {
            let Some(units) = writer.evict(need.spared)? else { break };
            need.evicted_units += units;
        }
        Ok(need.evicted_units > before)
    }

    /// Whether there would be enough memory if all entries that no lease holds were evicted.
    fn can_have_room(&self, writer: &ShardWriter<'_>, need: &SpaceNeed) -> bool {
        let mut leased = Vec::new();
        self.participant.shared().leases.leased_places(&mut leased);
        leased.extend(need.spared.map(ObjectRef::word));
        leased.sort_unstable();
        leased.dedup();
        let kept: Vec<_> = leased.into_iter().map(ObjectRef::of_word).collect();
        let kept_units: u64 = kept.iter().map(|entry| writer.allocator.units_of(*entry)).sum();
        kept_units.saturating_add(need.wanted_units()) <= writer.shard.load(BUDGET) / UNIT_BYTES
            && writer.allocator.can_be_found(need.units as usize, &kept)
    }

    fn is_as_expected(
        &self,
        writer: &ShardWriter<'_>,
        position: &KeyPosition,
        expected: ExpectedState<'_>,
    ) -> Result<bool, ChangeError> {
        let Some(entry) = position.entry else {
            return Ok(matches!(expected, ExpectedState::Absent));
        };
        match expected {
            ExpectedState::Absent => Ok(false),
            ExpectedState::Entry(held) => Ok(held.is_at(self.participant, entry)),
            ExpectedState::Value(value) => {
                let object = writer.tree.view.begin(entry)?;
                let lengths = EntryLengths::of(&object, EntryKind::Entry)?;
                Ok(lengths.compare_value(&object, value).is_eq())
            }
        }
    }
}

const EVICTED_AT_ONCE: u32 = 16;

/// The space that a new entry needs.
struct SpaceNeed {
    /// The number of units of the entry itself.
    units: u64,
    /// The current entry of the key, which stays until the new one is stored.
    spared: Option<ObjectRef>,
    /// Whether a search of the whole region for free memory was already requested.
    has_searched: bool,
    /// The number of units of the entries that were evicted for this change.
    evicted_units: u64,
    /// The number of evicted units after which the writer checks again whether leased entries leave
    /// enough memory at all.
    check_at: u64,
}

impl SpaceNeed {
    fn of(key: &[u8], value: &[u8]) -> SpaceNeed {
        let units = EntryLayout::of(key.len(), value.len()).units();
        let units = ChunkClass::taken_units(units) as u64;
        SpaceNeed { units, spared: None, has_searched: false, evicted_units: 0, check_at: 0 }
    }

    /// The number of units of the entry, and of the other objects that the change may need.
    fn wanted_units(&self) -> u64 {
        self.units + SPARE_UNITS
    }
}

const UNIT_BYTES: u64 = UNIT_WORDS as u64 * 8;
