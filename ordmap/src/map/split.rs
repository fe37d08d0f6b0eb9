//! Maps of several shards: the lock that a change needs, and when entries move to another shard.
//!
//! A writer that finds the lock of its shard taken counts the changes that others make until it
//! gets the lock, because a sleeping writer is overtaken often. When these waits are a large share
//! of all changes, and the shard has many entries, the shard is split: each writer moves some
//! entries up into another shard after its own change, until both shards have equally many. One
//! writer moves entries at a time. No writer waits to move entries: a writer that does not get the
//! locks immediately leaves the move to a later writer.
//!
//! Lock order: the lock for moves is taken by `try_lock` only, and so are the locks of the two
//! shards of a split. Otherwise the lock of the lower shard is taken before that of the upper
//! shard.

use forebay_shm::{Area, RobustGuard, SystemFutex};

use super::Map;
use crate::error::MapError;
use crate::object::ObjectReadError;
use crate::route::RouteRow;
use crate::shard::{
    ChangeError, LEN, NeighbourShards, SEQUENCE, SPLIT_TO, ShardWords, ShardWriter, WAITS,
    WAITS_SINCE,
};
use crate::tree::Direction;

/// A shard with fewer entries than this is not split.
const SPLIT_LEN_MIN: u64 = 4096;

/// A shard is split when writers had to wait for an eighth of the changes in a window of this many
/// changes.
const WINDOW: u64 = 4096;
const WAITS_MIN: u64 = WINDOW / 8;

/// The most changes that one wait may count as: one long sleep alone must not cause a split.
const WAIT_MAX: u64 = WAITS_MIN / 16;

/// A split is complete when the numbers of entries in both shards differ by at most this.
const UNEVEN_MAX: u64 = 64;

/// The most attempts of a writer to lock the shard of a key: the bound may move while the writer
/// waits.
const TRIES_MAX: u32 = 1 << 16;

pub(super) type ShardGuard<'g> = RobustGuard<'g, Area, SystemFutex>;

/// The destination of moved entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveTarget {
    /// The shard that was chosen for the split of this shard, as long as it has fewer entries.
    Half,
    /// A shard without keys.
    New,
    /// The next shard above or below.
    Beside(Direction),
}

impl Map<'_> {
    /// Locks the shard of a key, and returns its slot with the guard.
    #[inline]
    #[track_caller]
    pub(super) fn begin_for(
        &self,
        key: &[u8],
    ) -> Result<(ShardGuard<'_>, ShardWriter<'_>, usize), MapError> {
        if self.routes().is_single() {
            let (guard, writer) = self.begin(0)?;
            return Ok((guard, writer, 0));
        }
        for _ in 0..TRIES_MAX {
            let slot = self.routes().find(key)?.1;
            let (guard, writer) = self.begin(slot)?;
            // The bounds of this shard stay while we hold its lock.
            if self.routes().find(key)?.1 == slot {
                return Ok((guard, writer, slot));
            }
            forebay_sync::atomic::spin_loop();
        }
        Err(ObjectReadError::Damaged("the bounds of the shards keep moving").into())
    }

    /// Takes the lock of a shard, and counts the changes for which the writer waited.
    #[inline]
    #[track_caller]
    pub(super) fn take_lock(&self, slot: usize) -> Result<ShardGuard<'_>, MapError> {
        let lock = self.lock_of(slot);
        if self.routes().is_single() {
            return Ok(self.participant.lock(lock)?);
        }
        let shard = self.words_of(slot);
        let before = shard.load(SEQUENCE);
        let (guard, waited) = match self.participant.try_lock(lock)? {
            Some(guard) => (guard, 0),
            None => {
                let guard = self.participant.lock(lock)?;
                (guard, shard.load(SEQUENCE).wrapping_sub(before).clamp(1, WAIT_MAX))
            }
        };
        count_wait(shard, waited);
        Ok(guard)
    }

    /// After a change: releases the lock, and moves some entries if the shard is due for a split.
    #[inline]
    pub(super) fn end(&self, guard: ShardGuard<'_>, writer: &ShardWriter<'_>, slot: usize) {
        let is_due = !self.routes().is_single() && is_split_due(writer.shard);
        drop(guard);
        if is_due {
            // The change is already complete, so a failed move is no error of the change.
            let _ = self.move_from(slot, MoveTarget::Half);
        }
    }

    /// Moves some entries from the shard of a key into a shard without keys, which becomes the next
    /// shard above; returns the number of moved entries. Only for tests.
    ///
    /// # Errors
    /// [`MapError`].
    #[doc(hidden)]
    pub fn split_at(&self, key: &[u8]) -> Result<u64, MapError> {
        self.move_from(self.routes().find(key)?.1, MoveTarget::New)
    }

    /// Moves some entries from the shard of a key into the next shard above; returns the number of
    /// moved entries. Only for tests.
    ///
    /// # Errors
    /// [`MapError`].
    #[doc(hidden)]
    pub fn move_up(&self, key: &[u8]) -> Result<u64, MapError> {
        self.move_from(self.routes().find(key)?.1, MoveTarget::Beside(Direction::Up))
    }

    /// Moves some entries from the shard of a key into the next shard below; returns the number of
    /// moved entries. Only for tests.
    ///
    /// # Errors
    /// [`MapError`].
    #[doc(hidden)]
    pub fn move_down(&self, key: &[u8]) -> Result<u64, MapError> {
        self.move_from(self.routes().find(key)?.1, MoveTarget::Beside(Direction::Down))
    }

    fn move_from(&self, slot: usize, to: MoveTarget) -> Result<u64, MapError> {
        if self.routes().is_single() {
            return Ok(0);
        }
        let move_lock = self.participant.shared().move_lock(self.shard);
        let Some(mut mover) = self.participant.try_lock(move_lock)? else { return Ok(0) };
        // Rows that a dead process wrote without publishing them have no effect.
        mover.repaired();
        let rows = self.routes().rows()?.1;
        let Some(slots) = self.slots_for(slot, to, &rows) else {
            self.stop_split(slot)?;
            return Ok(0);
        };
        match to {
            MoveTarget::Half => self.move_half(slots),
            MoveTarget::Beside(direction) => self.move_between(slots, direction),
            MoveTarget::New => self.move_between(slots, Direction::Up),
        }
    }

    /// Moves some more entries of a split, if the locks of both shards are free.
    fn move_half(&self, (slot, above): (usize, usize)) -> Result<u64, MapError> {
        // The upper lock is taken first: if its owner died, writers of the lower shard do not wait
        // for the repair.
        let Some(upper) = self.participant.try_lock(self.lock_of(above))? else { return Ok(0) };
        let upper = self.ready(upper, above);
        let Some(lower) = self.participant.try_lock(self.lock_of(slot))? else { return Ok(0) };
        let (_lower_guard, lower) = self.ready(lower, slot)?;
        let shard = lower.shard;
        let moved = upper.and_then(|(_upper_guard, upper)| {
            if shard.load(LEN).saturating_sub(upper.shard.load(LEN)) <= UNEVEN_MAX {
                return Ok(0);
            }
            shard.store(SPLIT_TO, above as u64);
            self.move_some(NeighbourShards { lower, upper, slots: (slot, above) }, Direction::Up)
        });
        if !matches!(moved, Ok(1..)) {
            forget_split(shard);
        }
        moved
    }

    /// Moves some entries between two adjacent shards.
    fn move_between(&self, slots: (usize, usize), direction: Direction) -> Result<u64, MapError> {
        let (_lower_guard, lower) = self.begin_soon(slots.0)?;
        let (_upper_guard, upper) = self.begin_soon(slots.1)?;
        self.move_some(NeighbourShards { lower, upper, slots }, direction)
    }

    fn move_some(
        &self,
        neighbours: NeighbourShards<'_>,
        direction: Direction,
    ) -> Result<u64, MapError> {
        let moved = neighbours.move_some(self.routes(), direction);
        if matches!(moved, Err(ChangeError::Full)) {
            // Both shards are reclaimed, because a writer that needs memory reclaims only its own
            // shard.
            self.reclaim_all(&neighbours.lower, true)?;
            self.reclaim_all(&neighbours.upper, true)?;
        }
        Ok(moved?)
    }

    /// The slots of the two shards between which entries move, the lower one first; `None` if there
    /// is no second shard.
    fn slots_for(&self, slot: usize, to: MoveTarget, rows: &[RouteRow]) -> Option<(usize, usize)> {
        let at = rows.iter().position(|row| row.slot == slot);
        let above = rows.get(at.map_or(0, |at| at + 1)).map(|row| row.slot);
        let is_free = |slot: &usize| rows.iter().all(|row| row.slot != *slot);
        let free = (1..self.shards().count).find(is_free);
        match to {
            MoveTarget::Beside(Direction::Up) => Some((slot, above?)),
            MoveTarget::Beside(Direction::Down) => {
                let below = at?.checked_sub(1).map_or(0, |below| rows[below].slot);
                Some((below, slot))
            }
            MoveTarget::New => Some((slot, free?)),
            MoveTarget::Half => {
                let chosen = self.words_of(slot).load(SPLIT_TO) as usize;
                let goes_on = above.filter(|above| *above == chosen);
                Some((slot, goes_on.or(free)?))
            }
        }
    }

    /// Cancels a split for which no shard is free, so that the split is not tried again after every
    /// change.
    fn stop_split(&self, slot: usize) -> Result<(), MapError> {
        if let Some(guard) = self.participant.try_lock(self.lock_of(slot))? {
            let (_guard, writer) = self.ready(guard, slot)?;
            forget_split(writer.shard);
        }
        Ok(())
    }

    /// Does the same as [`begin`](Map::begin), but waits only for a short time.
    fn begin_soon(&self, slot: usize) -> Result<(ShardGuard<'_>, ShardWriter<'_>), MapError> {
        self.ready(self.participant.lock_soon(self.lock_of(slot))?, slot)
    }
}

fn count_wait(shard: ShardWords<'_>, waited: u64) {
    let changes = shard.load(SEQUENCE);
    if changes.wrapping_sub(shard.load(WAITS_SINCE)) >= WINDOW {
        shard.store(WAITS_SINCE, changes);
        shard.store(WAITS, 0);
    }
    if waited > 0 {
        shard.store(WAITS, shard.load(WAITS).saturating_add(waited));
    }
}

fn is_split_due(shard: ShardWords<'_>) -> bool {
    let is_waited_for = shard.load(WAITS) >= WAITS_MIN && shard.load(LEN) >= SPLIT_LEN_MIN;
    shard.load(SPLIT_TO) != 0 || is_waited_for
}

fn forget_split(shard: ShardWords<'_>) {
    shard.store(SPLIT_TO, 0);
    shard.store(WAITS, 0);
}

#[cfg(test)]
mod tests;
