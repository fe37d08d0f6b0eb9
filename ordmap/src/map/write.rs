//! Changing a map, under the lock of its shard.

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

/// What must be there for a change to be made.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'e> {
    /// Nothing.
    Absent,
    /// An entry with this value.
    Value(&'e [u8]),
    /// This very entry. When a map is split, entries move and are others then, though nobody has
    /// changed them: who hears no reads again.
    Entry(&'e Entry<'e>),
}

/// Nodes and separators that a change may need beside its entry: what a budget has to have left.
const SPARE_UNITS: u64 = 8 * 32 + 2 * KEY_BYTES_MAX as u64 / 16;

/// Entries that leave under one hold of the lock: what limbo has room for beside a batch.
const REMOVED_AT_ONCE: usize = 16;
const _: () = assert!(LIMBO_BATCH + REMOVED_AT_ONCE <= LIMBO_SPARE);

impl Map<'_> {
    /// Stores a value under a key; yes, if one was there before.
    ///
    /// # Errors
    /// [`MapError`]; then nothing has changed, but for what was evicted.
    #[track_caller]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, MapError> {
        let mut was_there = false;
        self.put(key, value, |_, position| {
            was_there = position.entry.is_some();
            Ok(true)
        })?;
        Ok(was_there)
    }

    /// Stores a value if what is there is as expected; no, if it is not.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn compare_and_insert(
        &self,
        key: &[u8],
        expected: Expected<'_>,
        value: &[u8],
    ) -> Result<bool, MapError> {
        self.put(key, value, |writer, position| self.is_as_expected(writer, position, expected))
    }

    /// Takes a key out; no, if it was not there.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn remove(&self, key: &[u8]) -> Result<bool, MapError> {
        self.take_out(key, |_, position| Ok(position.entry.is_some()))
    }

    /// Takes keys out; how many were there. Of keys that are given in their order, those that stand
    /// beside each other in the map leave in one change, which costs little more than one of them.
    /// The lock is given back now and then.
    ///
    /// # Errors
    /// [`MapError`]; then some of them may have left.
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

    /// How many of the first keys are in a shard, whose lock the caller has; the first is.
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

    /// Takes a key out if it is there as expected; no, if it is not. Nothing is done when
    /// [`Expected::Absent`] is.
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn compare_and_remove(&self, key: &[u8], expected: Expected<'_>) -> Result<bool, MapError> {
        self.take_out(key, |writer, position| self.is_as_expected(writer, position, expected))
    }

    /// Frees what waits and no lease holds; gives the number. Others do so from time to time.
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

    /// Does something while nobody else can change the map, as an owner of its lock that has
    /// stopped; for tests.
    ///
    /// # Errors
    /// [`MapError`]; then it was not done.
    #[doc(hidden)]
    pub fn while_locked<T>(&self, run: impl FnOnce() -> T) -> Result<T, MapError> {
        let slots = 0..self.shards().count;
        let _begun = slots.map(|slot| self.begin(slot)).collect::<Result<Vec<_>, _>>()?;
        Ok(run())
    }

    /// Lets the map name what is not there; for tests of its users.
    #[doc(hidden)]
    pub fn damage(&self) {
        self.reader.shard.word(crate::shard::ROOT).store(u64::MAX, Relaxed);
    }

    /// Does something under the lock of the first shard.
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
            // Whatever is evicted for it, it would not fit.
            return Err(MapError::Full);
        }
        loop {
            let position = writer.look(key)?;
            if !decide(writer, &position)? {
                return Ok(false);
            }
            // What is there stays until the new entry is: else a change could lose it.
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

    /// Locks one of the map's shards, and repairs what a dead owner has left.
    #[track_caller]
    pub(crate) fn begin(&self, slot: usize) -> Result<(ShardGuard<'_>, ShardWriter<'_>), MapError> {
        self.ready(self.take_lock(slot)?, slot)
    }

    /// Makes a shard ready to be changed, whose lock was taken.
    #[inline]
    pub(super) fn ready<'g>(
        &self,
        mut guard: ShardGuard<'g>,
        slot: usize,
    ) -> Result<(ShardGuard<'g>, ShardWriter<'_>), MapError> {
        let allocator = self.participant.shared().allocator(self.shards().number(slot));
        let writer = ShardWriter::new(allocator, self.words_of(slot), self.reader.hints);
        // Who met damage after it had published left its intent, and the lock as if all was well.
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

    /// Frees what waits and nobody alive holds. Whether the holders live is not asked each time,
    /// unless it `must` be.
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

    /// Frees what waits, or evicts something, if the map has a budget, and that can help.
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
        // Evicting one by one would read all leases for each.
        let before = need.evicted_units;
        for _ in 0..EVICTED_AT_ONCE {
            let Some(units) = writer.evict(need.spared)? else { break };
            need.evicted_units += units;
        }
        Ok(need.evicted_units > before)
    }

    /// Is there room for what is needed, if all is evicted but what leases hold?
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
        expected: Expected<'_>,
    ) -> Result<bool, ChangeError> {
        let Some(entry) = position.entry else {
            return Ok(matches!(expected, Expected::Absent));
        };
        match expected {
            Expected::Absent => Ok(false),
            Expected::Entry(held) => Ok(held.is_at(self.participant, entry)),
            Expected::Value(value) => {
                let object = writer.tree.view.begin(entry)?;
                let lengths = EntryLengths::of(&object, EntryKind::Entry)?;
                Ok(lengths.compare_value(&object, value).is_eq())
            }
        }
    }
}

const EVICTED_AT_ONCE: u32 = 16;

/// What an entry needs that is to be stored.
struct SpaceNeed {
    /// Units that it takes itself.
    units: u64,
    /// What is there in its place until it is stored.
    spared: Option<ObjectRef>,
    /// Was the whole region searched for memory that is free?
    has_searched: bool,
    /// What was evicted for it.
    evicted_units: u64,
    /// When so much was, it is asked if leases leave room at all.
    check_at: u64,
}

impl SpaceNeed {
    fn of(key: &[u8], value: &[u8]) -> SpaceNeed {
        let units = EntryLayout::of(key.len(), value.len()).units();
        let units = ChunkClass::taken_units(units) as u64;
        SpaceNeed { units, spared: None, has_searched: false, evicted_units: 0, check_at: 0 }
    }

    /// With what the change needs beside it.
    fn wanted_units(&self) -> u64 {
        self.units + SPARE_UNITS
    }
}

const UNIT_BYTES: u64 = UNIT_WORDS as u64 * 8;
