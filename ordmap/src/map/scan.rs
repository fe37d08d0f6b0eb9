//! Walks over entries without holding them: each entry is copied as it was at one moment.

use std::mem;
use std::ops::RangeBounds;

use super::Map;
use super::bounds::{KeyBounds, RangeStart};
use super::entry::HoldError;
use super::reader::MapReader;
use super::step::{CursorPosition, EntryTaker, find, find_end, step};
use crate::error::MapError;
use crate::object::{EntryKind, EntryLengths, ObjectReadError, ObjectRef, ObjectView};
use crate::tree::Direction;

/// Walks over the entries between two keys, up or down, and returns a copy of each. A scan takes no
/// lease. It suits callers that read many entries and hold none.
#[derive(Debug)]
pub struct Scan<'m> {
    reader: MapReader<'m>,
    bounds: KeyBounds,
    /// The position of the current entry; if it is `None`, a step searches by key.
    position: Option<CursorPosition>,
    shown: EntryCopy,
    /// The copy of the next entry. It is separate, because the current key remains the position
    /// until the next entry is known to be the right one.
    next: EntryCopy,
    is_over: bool,
    has_begun: bool,
}

/// A key and its value.
pub type KeyValue<'s> = (&'s [u8], &'s [u8]);

/// Buffers for copies of an entry's key and value.
#[derive(Debug, Default)]
struct EntryCopy {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'m> Map<'m> {
    /// Copies of the entries whose keys are in a range.
    pub fn scan<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Scan<'m> {
        Scan::new(self.reader, KeyBounds::of(&keys))
    }

    /// Copies of the entries whose keys begin with `prefix`.
    #[must_use]
    pub fn scan_prefix(&self, prefix: &[u8]) -> Scan<'m> {
        Scan::new(self.reader, KeyBounds::of_prefix(prefix))
    }
}

impl<'m> Scan<'m> {
    fn new(reader: MapReader<'m>, bounds: KeyBounds) -> Scan<'m> {
        let (shown, next) = (EntryCopy::default(), EntryCopy::default());
        Scan { reader, bounds, position: None, shown, next, is_over: false, has_begun: false }
    }

    /// Moves up to the next entry and returns key and value; a new scan moves to its lowest entry.
    /// After the last entry the scan has ended for both directions.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    #[expect(clippy::should_implement_trait, reason = "the returned item borrows the iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<KeyValue<'_>>, MapError> {
        self.go(Direction::Up)
    }

    /// Moves down to the next entry and returns key and value; a new scan moves to its highest
    /// entry.
    ///
    /// # Errors
    /// The errors of [`next`](Scan::next).
    #[inline]
    pub fn previous(&mut self) -> Result<Option<KeyValue<'_>>, MapError> {
        self.go(Direction::Down)
    }

    #[inline]
    fn go(&mut self, direction: Direction) -> Result<Option<KeyValue<'_>>, MapError> {
        if self.is_over {
            return Ok(None);
        }
        let is_there = if self.has_begun { self.go_on(direction)? } else { self.begin(direction)? };
        self.has_begun = true;
        self.is_over = !is_there || !self.bounds.has(&self.next.key, direction);
        if self.is_over {
            return Ok(None);
        }
        mem::swap(&mut self.shown, &mut self.next);
        Ok(Some((&self.shown.key, &self.shown.value)))
    }

    /// Copies the next entry; false if there is none.
    #[inline]
    fn go_on(&mut self, direction: Direction) -> Result<bool, MapError> {
        let (reader, from) = (&mut self.reader, &self.shown.key);
        let native = match &mut self.position {
            Some(position) => step(reader, position, from, direction, &mut self.next),
            None => Err(ObjectReadError::Changed.into()),
        };
        match native {
            Ok(found) => Ok(found.is_some()),
            Err(not) => {
                // The failed move may have changed a part of the position.
                self.position = None;
                if not != HoldError::Read(ObjectReadError::Changed) {
                    return Err(not.into());
                }
                let found = find(reader, from, direction, false, &mut self.next)?;
                self.position = found.map(|(_, position)| position);
                Ok(self.position.is_some())
            }
        }
    }

    fn begin(&mut self, direction: Direction) -> Result<bool, MapError> {
        let (reader, next) = (&mut self.reader, &mut self.next);
        let found = match self.bounds.beginning(direction) {
            RangeStart::At(key) => find(reader, key, direction, true, next)?,
            RangeStart::Beyond(key) => find(reader, key, direction, false, next)?,
            RangeStart::End => find_end(reader, direction, next)?,
        };
        self.position = found.map(|(_, position)| position);
        Ok(self.position.is_some())
    }
}

impl<'m> EntryTaker<'m> for EntryCopy {
    type Output = (ObjectView<'m>, EntryLengths);

    #[inline]
    fn take(
        &mut self,
        reader: &MapReader<'m>,
        entry: ObjectRef,
    ) -> Result<Self::Output, HoldError> {
        let object = reader.tree.view.begin(entry)?;
        let lengths = match EntryLengths::of(&object, EntryKind::Entry) {
            Ok(lengths) => lengths,
            Err(error) => return Ok(object.settle(Err(error))?),
        };
        self.key.clear();
        lengths.copy_key(&object, &mut self.key);
        Ok(object.settle(Ok((object, lengths)))?)
    }

    #[inline]
    fn finish(&mut self, (object, lengths): &Self::Output) -> Result<(), HoldError> {
        self.value.clear();
        lengths.copy_value(object, &mut self.value);
        // A scan does not mark entries as used: otherwise a scan of the whole map would protect all
        // entries from eviction.
        Ok(object.settle(Ok(()))?)
    }

    #[inline]
    fn key<'a>(&'a self, _: &'a Self::Output) -> &'a [u8] {
        &self.key
    }
}
