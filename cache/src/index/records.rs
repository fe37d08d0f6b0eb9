//! The records that an index names, and references to them.

use std::marker::PhantomData;

use forebay_sync::pins::Pin;

use super::word::IndexWord;

/// A location in a pinned segment. A word still named the location after the pin was raised. So a
/// complete record is at the location, and stays there until the pin is lowered. Only the index
/// creates a `PinnedLocation`, and the pin outlives it.
#[derive(Clone, Copy, Debug)]
pub struct PinnedLocation<'pin> {
    location: u32,
    pin: PhantomData<&'pin ()>,
}

impl PinnedLocation<'_> {
    /// The location, in units of 64 bytes.
    pub fn location(self) -> u32 {
        self.location
    }
}

/// Why the index removed a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// A record of the same key with a higher sequence replaced it.
    Replaced,
    /// Both buckets of another key were full, and its record took the slot.
    Evicted,
    /// A caller removed it.
    Removed,
}

/// The records that words name.
pub trait Records {
    /// Returns the index of the column of pins that protects a location. For a location in no
    /// segment, returns an index that no column has.
    fn segment_of(&self, location: u32) -> usize;

    /// The sequence of the record at a location.
    fn sequence(&self, at: PinnedLocation<'_>) -> u64;

    /// Called when the word of a record was removed or overwritten, while the record is still
    /// pinned.
    fn on_removed(&self, _hit: &IndexHit<'_>, _reason: RemovalReason) {}

    /// Called when the record that was given to [`make_live`](super::Index::make_live) or
    /// [`replace`](super::Index::replace) does not stay in the index: the index removed its word
    /// again, or never published the word. If another thread removed the word, that thread called
    /// `on_removed` instead.
    fn on_rejected(&self, _location: u32) {}
}

/// A record that the index has found: its word, and the pin that protects the record.
#[derive(Debug)]
pub struct IndexHit<'row> {
    pub(super) slot: usize,
    pub(super) word: IndexWord,
    pub(super) pin: Pin<'row>,
}

impl<'row> IndexHit<'row> {
    /// The word that names the record, as loaded under the pin.
    pub fn word(&self) -> IndexWord {
        self.word
    }

    /// The slot of the word.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The location of the record.
    #[inline]
    pub fn at(&self) -> PinnedLocation<'_> {
        PinnedLocation { location: self.word.location(), pin: PhantomData }
    }

    /// The pin alone, for a caller that has the location and no longer needs the word.
    pub fn into_pin(self) -> Pin<'row> {
        self.pin
    }
}
