//! Counts entries: exactly for the whole map, approximately for a range.

use std::ops::RangeBounds;

use super::Map;
use super::bounds::{KeyBounds, RangeStart};
use super::reader::MapReader;
use crate::error::MapError;
use crate::names::MapShards;
use crate::object::ObjectReadError;
use crate::region::SharedRegion;
use crate::route::KeyRange;
use crate::shard::{LEN, shown_len};
use crate::tree::{Direction, MapTree, TreePath};

/// The most times that all shards are counted because entries moved between them. After that, the
/// last count is close enough.
const TRIES_MAX: u32 = 16;

/// The start of a range and its end, each as the start of a walk from there.
type RangeEnds<'b> = (RangeStart<'b>, RangeStart<'b>);

impl Map<'_> {
    /// Estimates the number of entries in a range of keys. The estimate is exact up to at least a
    /// hundred entries. Beyond that it is off by less than a quarter; rarely, after random inserts
    /// and removals, by up to a half. The call reads at most a few hundred nodes of each shard,
    /// whatever the size of the range.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    pub fn estimate<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64, MapError> {
        let bounds = KeyBounds::of(&keys);
        let ends = (bounds.beginning(Direction::Up), bounds.beginning(Direction::Down));
        if self.routes().is_single() {
            return estimate_in(&self.reader, ends);
        }
        let mut sum = 0_u64;
        for _ in 0..TRIES_MAX {
            let (version, ranges) = self.routes().ranges()?;
            sum = 0;
            for (slot, range) in ranges {
                let some = estimate_in(&self.reader.at(slot), clipped(ends, &range))?;
                sum = sum.saturating_add(some);
            }
            if self.routes().is_now(version) {
                break;
            }
        }
        Ok(sum)
    }
}

/// The part of a range that lies in one shard.
fn clipped<'b>((low, high): RangeEnds<'b>, shard: &'b KeyRange) -> RangeEnds<'b> {
    let low = match (&shard.low, low) {
        (Some(least), RangeStart::End) => RangeStart::At(least),
        (Some(least), RangeStart::At(key) | RangeStart::Beyond(key)) if key < &least[..] => {
            RangeStart::At(least)
        }
        _ => low,
    };
    let high = match (&shard.high, high) {
        (Some(end), RangeStart::End) => RangeStart::Beyond(end),
        (Some(end), RangeStart::At(key) | RangeStart::Beyond(key)) if key >= &end[..] => {
            RangeStart::Beyond(end)
        }
        _ => high,
    };
    (low, high)
}

fn estimate_in(reader: &MapReader<'_>, (low, high): RangeEnds<'_>) -> Result<u64, MapError> {
    let tree = reader.tree;
    reader.read(|| {
        let Some((low, _)) = place_of(tree, low, Direction::Up)? else { return Ok(0) };
        let Some((high, end)) = place_of(tree, high, Direction::Down)? else { return Ok(0) };
        Ok(tree.estimate(&low, &high, end)?)
    })
}

/// The number of entries of a map. With one shard, the number was exact at some moment; with
/// several shards, it is a sum of counts, each exact at a different moment.
pub(super) fn len_of(shared: &SharedRegion, shards: MapShards) -> u64 {
    let routes = shared.routes(shards);
    let first = shared.shard_words(shards.first);
    if routes.is_single() {
        return first.load(LEN);
    }
    let mut sum = 0_u64;
    for _ in 0..TRIES_MAX {
        let Ok((version, ranges)) = routes.ranges() else { return first.load(LEN) };
        sum = 0;
        for (slot, range) in ranges {
            let words = shared.shard_words(shards.number(slot));
            sum = sum.saturating_add(shown_len(words, &range));
        }
        if routes.is_now(version) {
            break;
        }
    }
    sum
}

/// The path to the start of a range (`Up`) or to its end (`Down`), and the index in its leaf: for
/// `Up` of the first entry that is not below the start, for `Down` of the first entry that is above
/// the end; `None` if the map is empty.
fn place_of(
    tree: MapTree<'_>,
    beginning: RangeStart<'_>,
    direction: Direction,
) -> Result<Option<(TreePath, usize)>, ObjectReadError> {
    let (key, passes_equal) = match beginning {
        RangeStart::At(key) => (key, direction == Direction::Down),
        RangeStart::Beyond(key) => (key, direction == Direction::Up),
        RangeStart::End => {
            let Some(path) = tree.descend_to_end(direction)? else { return Ok(None) };
            let index = path.index() + usize::from(direction == Direction::Down);
            return Ok(Some((path, index)));
        }
    };
    let Some((mut path, spot)) = tree.descend(key)? else { return Ok(None) };
    let index = spot.index + usize::from(passes_equal && spot.entry.is_some());
    path.set_index(path.depth - 1, index);
    Ok(Some((path, index)))
}
