//! Steps along the order of keys, for cursors, ranges and scans.
//!
//! A step from a known position walks from node to node if nothing was published since the position
//! was found, or if the tree still has the nodes of its path. Otherwise the step searches for the
//! key next to the current key. So a change elsewhere in the map costs a check of the path, but no
//! search.

mod across;
mod look;

use std::cmp::Ordering;

use self::look::{SeekOrigin, find_within};
use super::entry::HoldError;
use super::reader::MapReader;
use crate::error::MapError;
use crate::object::{ObjectReadError, ObjectRef};
use crate::route::RouteVersion;
use crate::tree::{AdvanceResult, Direction, NodeView, TreePath};

/// A position in the order of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct CursorPosition {
    path: TreePath,
    /// The epoch in which the path was found.
    epoch: u64,
    /// A turn of the shard in which the path was current.
    turn: u64,
    /// The bounds of the shards at that time, and the rank of this shard in the order of keys.
    version: RouteVersion,
    shard_rank: usize,
}

/// Takes each entry that a walk reaches.
pub(super) trait EntryTaker<'m> {
    /// The result for an entry.
    type Output;

    /// Takes an entry, or reports that the entry changed. It copies at most the key: the result is
    /// valid only if nothing next to the position changes until this call returns, so the call must
    /// be short.
    fn take(&mut self, reader: &MapReader<'m>, entry: ObjectRef)
    -> Result<Self::Output, HoldError>;

    /// Copies the value, if the taker copies, once the position is known to be right. Changes next
    /// to the entry no longer matter.
    fn finish(&mut self, taken: &Self::Output) -> Result<(), HoldError>;

    /// The key of the entry that was taken last.
    fn key<'a>(&'a self, taken: &'a Self::Output) -> &'a [u8];
}

/// Moves the position, whose entry has this key, to the next entry. If the step fails, a part of
/// the position may have changed.
#[inline]
pub(super) fn step<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    position: &mut CursorPosition,
    key: &[u8],
    direction: Direction,
    taker: &mut T,
) -> Result<Option<T::Output>, HoldError> {
    reader.while_young(position.epoch, || {
        let turn = reader.shard.turn();
        let leaf = reader.tree.leaf_of(&position.path)?;
        let is_within = reader.tree.advance_within(&leaf, &mut position.path, direction);
        let taken = if is_within {
            Some(take_at(reader, &leaf, &position.path, direction, taker)?)
        } else {
            beyond(reader, position, &leaf, direction, turn, taker)?
        };
        if is_within
            && !is_known(reader, position, turn)
            && !reader.tree.is_current(&position.path)?
        {
            return Err(ObjectReadError::Changed.into());
        }
        leaf.settle(Ok(()))?;
        let next = taken.as_ref().map(|taken| taker.key(taken));
        check_order(key, direction, false, next)?;
        if !is_of_map(reader, position, next, direction) {
            return Err(ObjectReadError::Changed.into());
        }
        position.turn = turn;
        taken.iter().try_for_each(|taken| taker.finish(taken))?;
        Ok(taken)
    })
}

/// Whether nothing was published since the position was found.
#[inline]
fn is_known(reader: &MapReader<'_>, position: &CursorPosition, turn: u64) -> bool {
    position.turn == turn && reader.shard.is_turn(turn)
}

/// Moves the position into another leaf.
fn beyond<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    position: &mut CursorPosition,
    leaf: &NodeView<'m>,
    direction: Direction,
    turn: u64,
    taker: &mut T,
) -> Result<Option<T::Output>, HoldError> {
    let before = position.path;
    let advanced = reader.tree.advance(leaf, &mut position.path, direction)?;
    let is_there = advanced != AdvanceResult::Nowhere;
    let taken =
        if is_there { Some(enter_at(reader, &position.path, direction, taker)?) } else { None };
    if !is_known(reader, position, turn)
        && !reader.tree.is_adjacent(&before, &position.path, advanced)?
    {
        return Err(ObjectReadError::Changed.into());
    }
    Ok(taken)
}

/// Whether `next`, the next key in the shard, is the next key in the map: it lies within the bounds
/// of the shard or, if it is `None`, the shard is the last one in this direction. Otherwise the
/// next entry has to be searched for, possibly in another shard.
#[inline]
fn is_of_map(
    reader: &MapReader<'_>,
    position: &CursorPosition,
    next: Option<&[u8]>,
    direction: Direction,
) -> bool {
    if reader.routes.is_single() {
        return true;
    }
    let CursorPosition { version, shard_rank, .. } = *position;
    let is_inside = match (next, direction) {
        (Some(key), _) => reader.routes.has(version, shard_rank, key),
        (None, Direction::Up) => shard_rank == version.count(),
        (None, Direction::Down) => shard_rank == 0,
    };
    is_inside && reader.routes.is_now(version)
}

/// The entry next to a key, and its position. The reader is set to the shard of that entry.
pub(super) fn find<'m, T: EntryTaker<'m>>(
    reader: &mut MapReader<'m>,
    key: &[u8],
    direction: Direction,
    may_equal: bool,
    taker: &mut T,
) -> Result<Option<(T::Output, CursorPosition)>, MapError> {
    find_from(reader, SeekOrigin::Key(key, may_equal), direction, taker)
}

/// The entry at which a walk through the whole map in this direction begins, and its position. The
/// reader is set to the shard of that entry.
pub(super) fn find_end<'m, T: EntryTaker<'m>>(
    reader: &mut MapReader<'m>,
    direction: Direction,
    taker: &mut T,
) -> Result<Option<(T::Output, CursorPosition)>, MapError> {
    find_from(reader, SeekOrigin::End, direction, taker)
}

fn find_from<'m, T: EntryTaker<'m>>(
    reader: &mut MapReader<'m>,
    from: SeekOrigin<'_>,
    direction: Direction,
    taker: &mut T,
) -> Result<Option<(T::Output, CursorPosition)>, MapError> {
    if reader.routes.is_single() {
        return find_within(reader, from, direction, taker);
    }
    across::find(reader, from, direction, taker)
}

/// Takes the entry at the end of a path that moved within its leaf.
#[inline]
fn take_at<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    leaf: &NodeView<'m>,
    path: &TreePath,
    direction: Direction,
    taker: &mut T,
) -> Result<T::Output, HoldError> {
    let entry = leaf.settle(leaf.slot(path.index()))?;
    reader.tree.prefetch(leaf, path, direction, false);
    taker.take(reader, entry)
}

/// Takes the entry at the end of a path that entered another leaf.
fn enter_at<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    path: &TreePath,
    direction: Direction,
    taker: &mut T,
) -> Result<T::Output, HoldError> {
    let leaf = reader.tree.leaf_of(path)?;
    let entry = leaf.settle(leaf.slot(path.index()))?;
    reader.tree.prefetch(&leaf, path, direction, true);
    taker.take(reader, entry)
}

/// Checks that a step led in the right direction. Otherwise a damaged slot that names a wrong entry
/// could lead a walk backwards, and the walk would never end.
#[inline]
fn check_order(
    from: &[u8],
    direction: Direction,
    may_equal: bool,
    to: Option<&[u8]>,
) -> Result<(), ObjectReadError> {
    let Some(to) = to else { return Ok(()) };
    let is_beyond = match (from.cmp(to), direction) {
        (Ordering::Less, Direction::Up) | (Ordering::Greater, Direction::Down) => true,
        (Ordering::Equal, _) => may_equal,
        _ => false,
    };
    if is_beyond { Ok(()) } else { Err(ObjectReadError::Damaged("keys are out of order")) }
}

#[cfg(test)]
mod tests;
