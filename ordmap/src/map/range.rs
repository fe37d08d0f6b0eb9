//! The entries between two keys, from either end.

use std::ops::RangeBounds;

use super::bounds::{KeyBounds, RangeStart};
use super::cursor::Cursor;
use super::{Entry, Map};
use crate::error::MapError;
use crate::tree::Direction;

/// Walks over the entries between two keys, up or down, and holds the current entry.
#[derive(Debug)]
pub struct Range<'m> {
    cursor: Cursor<'m>,
    bounds: KeyBounds,
    /// Whether the walk has passed an end of the range.
    is_over: bool,
    has_begun: bool,
}

impl<'m> Map<'m> {
    /// The entries whose keys are in a range.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'m> {
        let bounds = KeyBounds::of(&keys);
        Range { cursor: self.cursor(), bounds, is_over: false, has_begun: false }
    }

    /// The entries whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: &[u8]) -> Range<'m> {
        let bounds = KeyBounds::of_prefix(prefix);
        Range { cursor: self.cursor(), bounds, is_over: false, has_begun: false }
    }

    /// The first entry of the map.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`].
    pub fn first(&self) -> Result<Option<Entry<'m>>, MapError> {
        let mut cursor = self.cursor();
        cursor.first()?;
        Ok(cursor.into_entry())
    }

    /// The last entry of the map.
    ///
    /// # Errors
    /// The errors of [`first`](Map::first).
    pub fn last(&self) -> Result<Option<Entry<'m>>, MapError> {
        let mut cursor = self.cursor();
        cursor.last()?;
        Ok(cursor.into_entry())
    }
}

impl<'m> Range<'m> {
    /// Moves up to the next entry; a new range moves to its lowest entry. After the last entry the
    /// range has ended for both directions.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`]; the step can be tried again.
    #[expect(clippy::should_implement_trait, reason = "the returned item borrows the iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Direction::Up)
    }

    /// Moves down to the next entry; a new range moves to its highest entry.
    ///
    /// # Errors
    /// The errors of [`next`](Range::next).
    #[inline]
    pub fn previous(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Direction::Down)
    }

    #[inline]
    fn go(&mut self, direction: Direction) -> Result<Option<&Entry<'m>>, MapError> {
        if self.is_over {
            return Ok(None);
        }
        if self.has_begun {
            self.cursor.go(direction)?
        } else {
            self.begin(direction)?
        };
        let entry = self.cursor.entry();
        let is_inside = entry.is_some_and(|entry| self.bounds.has(entry.key(), direction));
        self.has_begun = true;
        self.is_over = !is_inside;
        if self.is_over {
            // Release the entry beyond the end.
            self.cursor.let_go();
            return Ok(None);
        }
        Ok(self.cursor.entry())
    }

    fn begin(&mut self, direction: Direction) -> Result<Option<&Entry<'m>>, MapError> {
        match self.bounds.beginning(direction) {
            RangeStart::At(key) => self.cursor.seek(key, direction, true),
            RangeStart::Beyond(key) => self.cursor.seek(key, direction, false),
            RangeStart::End => self.cursor.go_to_end(direction),
        }
    }

    /// The current entry, with its lease.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<'m>> {
        if self.is_over { None } else { self.cursor.into_entry() }
    }
}
