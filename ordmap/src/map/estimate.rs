//! How many entries there are, in the whole map or in a range of it.

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

/// So often shards are counted again if entries move between them: then it is near enough.
const TRIES_MAX: u32 = 16;

/// Where a range begins and where it ends.
type RangeEnds<'b> = (RangeStart<'b>, RangeStart<'b>);

impl Map<'_> {
    /// About how many entries have keys in a range: exact up to a hundred or more, else
    /// off by less than a quarter, and seldom by more, up to a half, where keys come and go at
    /// random. It reads some hundred nodes of each shard at most, whatever lies between.
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

/// What of a range lies in one shard.
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

/// How many entries a map has. It was right at some moment, if it has one shard; of several, each
/// at one of its own.
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

/// The way to where a range begins, or ends; and the index of the first entry there that is not
/// below, for `Up`, or above, for `Down`. None: the map is empty.
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
