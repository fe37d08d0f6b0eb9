//! Searches for an entry in one shard, and checks later whether the result still holds.

use super::{CursorPosition, EntryTaker, check_order, enter_at};
use crate::error::MapError;
use crate::map::entry::HoldError;
use crate::map::reader::MapReader;
use crate::object::ObjectReadError;
use crate::route::RouteVersion;
use crate::tree::{AdvanceResult, Direction, SeekResult};

/// The start of a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum SeekOrigin<'k> {
    /// This key; the flag tells whether the key itself may be the result.
    Key(&'k [u8], bool),
    /// The end of the shard: the low end for a search upwards, the high end for a search downwards.
    End,
}

/// The result of a search in a shard, with the epoch and the turn of the search.
#[derive(Debug)]
pub(super) struct SeekSnapshot {
    /// The path that was found; `None` if the shard was empty.
    sought: Option<SeekResult>,
    epoch: u64,
    turn: u64,
}

/// The next entry in one shard, and its position.
pub(super) fn find_within<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    from: SeekOrigin<'_>,
    direction: Direction,
    taker: &mut T,
) -> Result<Option<(T::Output, CursorPosition)>, MapError> {
    reader.read(|| {
        let (look, taken) = look(reader, from, direction, taker)?;
        let Some(taken) = taken else { return Ok(None) };
        taker.finish(&taken)?;
        Ok(look.position(RouteVersion::default(), 0).map(|position| (taken, position)))
    })
}

/// Searches for the next entry in one shard and takes it, without the final step of the taker.
#[inline]
pub(super) fn look<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    from: SeekOrigin<'_>,
    direction: Direction,
    taker: &mut T,
) -> Result<(SeekSnapshot, Option<T::Output>), HoldError> {
    let (epoch, turn) = (reader.epoch(), reader.shard.turn());
    let sought = match from {
        SeekOrigin::Key(key, may_equal) => reader.tree.seek(key, direction, may_equal)?,
        SeekOrigin::End => reader.tree.seek_end(direction)?,
    };
    let look = SeekSnapshot { sought, epoch, turn };
    let Some(sought) = &look.sought else { return Ok((look, None)) };
    let is_there = sought.advanced != AdvanceResult::Nowhere;
    let taken =
        if is_there { Some(enter_at(reader, &sought.path, direction, taker)?) } else { None };
    if !look.is_still(reader)? {
        return Err(ObjectReadError::Changed.into());
    }
    if let SeekOrigin::Key(key, may_equal) = from {
        check_order(key, direction, may_equal, taken.as_ref().map(|taken| taker.key(taken)))?;
    }
    Ok((look, taken))
}

impl SeekSnapshot {
    /// The position of the entry that was found; `None` if the shard was empty.
    pub(super) fn position(
        &self,
        version: RouteVersion,
        shard_rank: usize,
    ) -> Option<CursorPosition> {
        let SeekSnapshot { epoch, turn, .. } = *self;
        let path = self.sought.as_ref()?.path;
        Some(CursorPosition { path, epoch, turn, version, shard_rank })
    }

    /// Whether the result has been right ever since the search: the same next entry, or none.
    ///
    /// If a change was published since, the method checks the path. So writers elsewhere in the
    /// shard do not disturb a reader, and neither does a writer that was stopped after it
    /// published.
    #[inline]
    pub(super) fn is_still(&self, reader: &MapReader<'_>) -> Result<bool, ObjectReadError> {
        match &self.sought {
            Some(_) if reader.shard.is_turn(self.turn) => Ok(true),
            Some(SeekResult { before, path, advanced }) => {
                reader.tree.is_adjacent(before, path, *advanced)
            }
            None => Ok(reader.shard.is_empty_since(self.turn)),
        }
    }

    /// Does the same as [`is_still`](Self::is_still), but may be called at any later time.
    pub(super) fn is_still_now(&self, reader: &MapReader<'_>) -> Result<bool, MapError> {
        match reader.while_young(self.epoch, || Ok(self.is_still(reader)?)) {
            Err(HoldError::Read(ObjectReadError::Changed)) => Ok(false),
            is_still => Ok(is_still?),
        }
    }
}
