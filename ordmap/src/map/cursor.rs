//! A cursor holds the entry at which it stands, so that the entry stays readable even if it is
//! removed from the map.

use super::entry::{Entry, HoldError};
use super::reader::MapReader;
use super::step::{CursorPosition, EntryTaker, find, find_end, step};
use crate::error::MapError;
use crate::object::{ObjectReadError, ObjectRef};
use crate::tree::Direction;

/// A position at an entry of a map, or at no entry.
#[derive(Debug)]
pub struct Cursor<'m> {
    reader: MapReader<'m>,
    shown: Option<Entry<'m>>,
    /// The position of the entry; if it is `None`, a step searches by key.
    position: Option<CursorPosition>,
}

/// Holds in place each entry that a walk reaches.
#[derive(Debug, Default)]
struct EntryHolder<'m>(Option<Entry<'m>>);

impl<'m> Cursor<'m> {
    pub(super) fn new(reader: MapReader<'m>) -> Cursor<'m> {
        Cursor { reader, shown: None, position: None }
    }

    /// The entry at which the cursor stands; `None` if it stands at no entry.
    #[must_use]
    pub fn entry(&self) -> Option<&Entry<'m>> {
        self.shown.as_ref()
    }

    /// Returns the entry together with its lease.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<'m>> {
        self.shown
    }

    /// Releases the entry; afterwards the cursor stands at no entry.
    pub(super) fn let_go(&mut self) {
        self.shown = None;
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// The errors of [`next`](Cursor::next), as for every move of a cursor.
    pub fn first(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go_to_end(Direction::Up)
    }

    /// Moves to the last entry.
    pub fn last(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go_to_end(Direction::Down)
    }

    /// Moves to the first entry whose key is at or above `key`.
    pub fn at_or_above(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Direction::Up, true)
    }

    /// Moves to the first entry whose key is above `key`.
    pub fn above(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Direction::Up, false)
    }

    /// Moves to the last entry whose key is at or below `key`.
    pub fn at_or_below(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Direction::Down, true)
    }

    /// Moves to the last entry whose key is below `key`.
    pub fn below(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Direction::Down, false)
    }

    /// Moves to the next entry, or to the first one if the cursor stands at no entry. After the
    /// last entry the cursor stands at no entry.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`]; the cursor stays where it was.
    #[expect(clippy::should_implement_trait, reason = "the returned item borrows the iterator")]
    pub fn next(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Direction::Up)
    }

    /// Moves to the previous entry, or to the last one if the cursor stands at no entry. Before the
    /// first entry the cursor stands at no entry.
    ///
    /// # Errors
    /// The errors of [`next`](Cursor::next).
    pub fn previous(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Direction::Down)
    }

    #[inline]
    pub(super) fn go(&mut self, direction: Direction) -> Result<Option<&Entry<'m>>, MapError> {
        let Some(shown) = &self.shown else {
            return self.go_to_end(direction);
        };
        let mut holder = EntryHolder(None);
        let native = match &mut self.position {
            Some(position) => step(&self.reader, position, shown.key(), direction, &mut holder),
            None => Err(ObjectReadError::Changed.into()),
        };
        match native {
            Ok(next) => {
                self.shown = next.and(holder.0);
                Ok(self.shown.as_ref())
            }
            Err(not) => {
                // The failed move may have changed a part of the position.
                self.position = None;
                if not != HoldError::Read(ObjectReadError::Changed) {
                    return Err(not.into());
                }
                let found = find(&mut self.reader, shown.key(), direction, false, &mut holder)?;
                Ok(self.stand_at(found, holder))
            }
        }
    }

    pub(super) fn seek(
        &mut self,
        key: &[u8],
        direction: Direction,
        may_equal: bool,
    ) -> Result<Option<&Entry<'m>>, MapError> {
        let mut holder = EntryHolder(None);
        let found = find(&mut self.reader, key, direction, may_equal, &mut holder)?;
        Ok(self.stand_at(found, holder))
    }

    pub(super) fn go_to_end(
        &mut self,
        direction: Direction,
    ) -> Result<Option<&Entry<'m>>, MapError> {
        let mut holder = EntryHolder(None);
        let found = find_end(&mut self.reader, direction, &mut holder)?;
        Ok(self.stand_at(found, holder))
    }

    fn stand_at(
        &mut self,
        found: Option<((), CursorPosition)>,
        holder: EntryHolder<'m>,
    ) -> Option<&Entry<'m>> {
        self.position = found.map(|((), position)| position);
        self.shown = holder.0.filter(|_| self.position.is_some());
        self.shown.as_ref()
    }
}

impl<'m> EntryTaker<'m> for EntryHolder<'m> {
    type Output = ();

    #[inline]
    fn take(&mut self, reader: &MapReader<'m>, entry: ObjectRef) -> Result<(), HoldError> {
        // An earlier attempt may hold the lease that this attempt needs.
        self.0 = None;
        self.0 = Some(Entry::hold(reader, entry)?);
        self.0.iter().for_each(|entry| reader.mark_held(entry));
        Ok(())
    }

    /// A held entry needs no second step.
    #[inline]
    fn finish(&mut self, (): &()) -> Result<(), HoldError> {
        Ok(())
    }

    #[inline]
    fn key<'a>(&'a self, (): &'a ()) -> &'a [u8] {
        self.0.as_ref().map_or(&[], Entry::key)
    }
}

#[cfg(test)]
impl Cursor<'_> {
    /// Makes the next step search by key, unless the path is kept.
    pub(super) fn forget_path_unless(&mut self, is_kept: bool) {
        self.position = self.position.filter(|_| is_kept);
    }
}
