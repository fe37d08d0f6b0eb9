//! Entries between two keys, from either end.

use std::ops::{Bound, RangeBounds};

use super::cursor::Cursor;
use super::{Entry, Map};
use crate::error::MapError;
use crate::key::end_of_prefix;
use crate::tree::Way;

/// Goes over the entries between two keys, up or down, and holds the one that it shows.
#[derive(Debug)]
pub struct Range<'m> {
    cursor: Cursor<'m>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// Has it gone over an end?
    is_over: bool,
    has_begun: bool,
}

impl<'m> Map<'m> {
    /// The entries whose keys are in a range.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'m> {
        let own = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        let (low, high) = (own(keys.start_bound()), own(keys.end_bound()));
        Range { cursor: self.cursor(), low, high, is_over: false, has_begun: false }
    }

    /// The entries whose keys begin with these bytes.
    #[must_use]
    pub fn prefix(&self, prefix: &[u8]) -> Range<'m> {
        let high = end_of_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let low = Bound::Included(prefix.to_vec());
        Range { cursor: self.cursor(), low, high, is_over: false, has_begun: false }
    }

    /// The first entry.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`].
    pub fn first(&self) -> Result<Option<Entry<'m>>, MapError> {
        let mut cursor = self.cursor();
        cursor.first()?;
        Ok(cursor.into_entry())
    }

    /// The last entry.
    ///
    /// # Errors
    /// As [`first`](Map::first).
    pub fn last(&self) -> Result<Option<Entry<'m>>, MapError> {
        let mut cursor = self.cursor();
        cursor.last()?;
        Ok(cursor.into_entry())
    }
}

impl<'m> Range<'m> {
    /// The next entry up; at first the lowest. After the last one there is none any more, in either
    /// direction.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`]; it can be tried again.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Way::Up)
    }

    /// The next entry down; at first the highest.
    ///
    /// # Errors
    /// As [`next`](Range::next).
    #[inline]
    pub fn previous(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Way::Down)
    }

    #[inline]
    fn go(&mut self, way: Way) -> Result<Option<&Entry<'m>>, MapError> {
        if self.is_over {
            return Ok(None);
        }
        if self.has_begun {
            self.cursor.go(way)?
        } else {
            self.begin(way)?
        };
        let is_inside = self.cursor.entry().is_some_and(|entry| match way {
            Way::Up => is_below(entry.key(), &self.high),
            Way::Down => is_above(entry.key(), &self.low),
        });
        self.has_begun = true;
        self.is_over = !is_inside;
        Ok(if is_inside { self.cursor.entry() } else { None })
    }

    fn begin(&mut self, way: Way) -> Result<Option<&Entry<'m>>, MapError> {
        match (way, &self.low, &self.high) {
            (Way::Up, Bound::Included(key), _) => self.cursor.at_or_above(key),
            (Way::Up, Bound::Excluded(key), _) => self.cursor.above(key),
            (Way::Up, Bound::Unbounded, _) => self.cursor.first(),
            (Way::Down, _, Bound::Included(key)) => self.cursor.at_or_below(key),
            (Way::Down, _, Bound::Excluded(key)) => self.cursor.below(key),
            (Way::Down, _, Bound::Unbounded) => self.cursor.last(),
        }
    }

    /// The entry that it shows, to be held on.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<'m>> {
        if self.is_over { None } else { self.cursor.into_entry() }
    }
}

fn is_below(key: &[u8], high: &Bound<Vec<u8>>) -> bool {
    match high {
        Bound::Included(high) => key <= &high[..],
        Bound::Excluded(high) => key < &high[..],
        Bound::Unbounded => true,
    }
}

fn is_above(key: &[u8], low: &Bound<Vec<u8>>) -> bool {
    match low {
        Bound::Included(low) => key >= &low[..],
        Bound::Excluded(low) => key > &low[..],
        Bound::Unbounded => true,
    }
}
