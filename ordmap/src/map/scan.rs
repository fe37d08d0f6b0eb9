//! Going over entries without holding them: each is copied as it was at one moment.

use std::mem;
use std::ops::RangeBounds;

use super::Map;
use super::bounds::{Beginning, Bounds};
use super::entry::HoldError;
use super::reader::Reader;
use super::step::{CursorPosition, Taker, find, find_end, step};
use crate::error::MapError;
use crate::object::{Lengths, ObjectReadError, Ref, Seen, Text};
use crate::tree::Direction;

/// Goes over the entries between two keys, up or down, and shows a copy of each. It takes no lease:
/// for who reads much and keeps nothing.
#[derive(Debug)]
pub struct Scan<'m> {
    reader: Reader<'m>,
    bounds: Bounds,
    /// Where the shown entry is; `None`: it is to be looked for.
    position: Option<CursorPosition>,
    shown: Copy,
    /// Where the next one is copied to: until it is known to be the right one, the shown one says
    /// where we are.
    next: Copy,
    is_over: bool,
    has_begun: bool,
}

/// A key and its value.
pub type KeyValue<'s> = (&'s [u8], &'s [u8]);

/// Key and value of an entry.
#[derive(Debug, Default)]
struct Copy {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'m> Map<'m> {
    /// Copies of the entries whose keys are in a range.
    pub fn scan<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Scan<'m> {
        Scan::new(self.reader, Bounds::of(&keys))
    }

    /// Copies of the entries whose keys begin with these bytes.
    #[must_use]
    pub fn scan_prefix(&self, prefix: &[u8]) -> Scan<'m> {
        Scan::new(self.reader, Bounds::of_prefix(prefix))
    }
}

impl<'m> Scan<'m> {
    fn new(reader: Reader<'m>, bounds: Bounds) -> Scan<'m> {
        let (shown, next) = (Copy::default(), Copy::default());
        Scan { reader, bounds, position: None, shown, next, is_over: false, has_begun: false }
    }

    /// Key and value of the next entry up; at first of the lowest. After the last one there is none
    /// any more, in either direction.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<KeyValue<'_>>, MapError> {
        self.go(Direction::Up)
    }

    /// Key and value of the next entry down; at first of the highest.
    ///
    /// # Errors
    /// As [`next`](Scan::next).
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

    /// Copies the next one, if there is one.
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
                // The place may have moved half-way.
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
            Beginning::At(key) => find(reader, key, direction, true, next)?,
            Beginning::Beyond(key) => find(reader, key, direction, false, next)?,
            Beginning::End => find_end(reader, direction, next)?,
        };
        self.position = found.map(|(_, position)| position);
        Ok(self.position.is_some())
    }
}

impl<'m> Taker<'m> for Copy {
    type Taken = (Seen<'m>, Lengths);

    #[inline]
    fn take(&mut self, reader: &Reader<'m>, entry: Ref) -> Result<Self::Taken, HoldError> {
        let seen = reader.tree.view.begin(entry)?;
        let lengths = match Lengths::of(&seen, Text::Entry) {
            Ok(lengths) => lengths,
            Err(error) => return Ok(seen.settle(Err(error))?),
        };
        self.key.clear();
        lengths.copy_key(&seen, &mut self.key);
        Ok(seen.settle(Ok((seen, lengths)))?)
    }

    #[inline]
    fn finish(&mut self, (seen, lengths): &Self::Taken) -> Result<(), HoldError> {
        self.value.clear();
        lengths.copy_value(seen, &mut self.value);
        // Not marked as used: a scan of everything would keep everything from leaving.
        Ok(seen.settle(Ok(()))?)
    }

    #[inline]
    fn key<'a>(&'a self, _: &'a Self::Taken) -> &'a [u8] {
        &self.key
    }
}
