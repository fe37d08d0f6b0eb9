//! Entries between two keys, from either end.

use std::ops::RangeBounds;

use super::bounds::{KeyBounds, RangeStart};
use super::cursor::Cursor;
use super::{Entry, Map};
use crate::error::MapError;
use crate::tree::Direction;

/// Goes over the entries between two keys, up or down, and holds the one that it shows.
#[derive(Debug)]
pub struct Range<'m> {
    cursor: Cursor<'m>,
    bounds: KeyBounds,
    /// Has it gone over an end?
    is_over: bool,
    has_begun: bool,
}

impl<'m> Map<'m> {
    /// The entries whose keys are in a range.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'m> {
        let bounds = KeyBounds::of(&keys);
        Range { cursor: self.cursor(), bounds, is_over: false, has_begun: false }
    }

    /// The entries whose keys begin with these bytes.
    #[must_use]
    pub fn prefix(&self, prefix: &[u8]) -> Range<'m> {
        let bounds = KeyBounds::of_prefix(prefix);
        Range { cursor: self.cursor(), bounds, is_over: false, has_begun: false }
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
        self.go(Direction::Up)
    }

    /// The next entry down; at first the highest.
    ///
    /// # Errors
    /// As [`next`](Range::next).
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
            // What lies beyond the end is held for nobody.
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

    /// The entry that it shows, to be held on.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<'m>> {
        if self.is_over { None } else { self.cursor.into_entry() }
    }
}
