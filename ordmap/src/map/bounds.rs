//! The bounds of a range of keys.

use std::ops::{Bound, RangeBounds};

use crate::key::end_of_prefix;
use crate::tree::Direction;

/// The lowest and the highest key, each included, excluded or unbounded.
#[derive(Clone, Debug)]
pub(super) struct KeyBounds {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

/// The start of a walk through a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeStart<'b> {
    /// At this key or, if the key does not exist, at the next key.
    At(&'b [u8]),
    /// At the key next to this key, which is excluded.
    Beyond(&'b [u8]),
    /// At the end of the map at which the walk begins.
    End,
}

impl KeyBounds {
    pub(super) fn of<'k>(keys: &impl RangeBounds<&'k [u8]>) -> KeyBounds {
        let own = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        KeyBounds { low: own(keys.start_bound()), high: own(keys.end_bound()) }
    }

    pub(super) fn of_prefix(prefix: &[u8]) -> KeyBounds {
        let high = end_of_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        KeyBounds { low: Bound::Included(prefix.to_vec()), high }
    }

    /// The start of a walk through the range in this direction.
    pub(super) fn beginning(&self, direction: Direction) -> RangeStart<'_> {
        match if direction == Direction::Up { &self.low } else { &self.high } {
            Bound::Included(key) => RangeStart::At(key),
            Bound::Excluded(key) => RangeStart::Beyond(key),
            Bound::Unbounded => RangeStart::End,
        }
    }

    /// Whether a key that a walk in this direction has reached lies within the range.
    pub(super) fn has(&self, key: &[u8], direction: Direction) -> bool {
        match (direction, if direction == Direction::Up { &self.high } else { &self.low }) {
            (_, Bound::Unbounded) => true,
            (Direction::Up, Bound::Included(high)) => key <= &high[..],
            (Direction::Up, Bound::Excluded(high)) => key < &high[..],
            (Direction::Down, Bound::Included(low)) => key >= &low[..],
            (Direction::Down, Bound::Excluded(low)) => key > &low[..],
        }
    }
}
