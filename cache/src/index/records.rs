//! What the index has to know of records.

use std::marker::PhantomData;

use forebay_sync::pins::Pin;

use super::word::IndexWord;

/// A place whose segment is pinned, and which a word named under that pin: a whole record lies
/// there and stays. Only the index makes one, and none outlives its pin.
#[derive(Clone, Copy, Debug)]
pub struct PinnedLocation<'pin> {
    location: u32,
    pin: PhantomData<&'pin ()>,
}

impl PinnedLocation<'_> {
    /// The place, in units of 64 bytes.
    pub fn location(self) -> u32 {
        self.location
    }
}

/// Why the index took a word out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// A record of the same key with a higher sequence is there.
    Replaced,
    /// Both buckets of another key were full.
    Evicted,
    /// Somebody asked for it.
    Removed,
}

/// The records that words name.
pub trait Records {
    /// The column of pins that protects a place; for a place that is in no segment, any number
    /// that is no column.
    fn segment_of(&self, location: u32) -> usize;

    /// The sequence of the record there.
    fn sequence(&self, at: PinnedLocation<'_>) -> u64;

    /// The word of a record was taken out, and its pin is still up.
    fn on_removed(&self, _hit: &Hit<'_>, _reason: RemovalReason) {}

    /// The record at a place that was given to [`make_live`](super::Index::make_live) or
    /// [`replace`](super::Index::replace) is not in the index, as its caller took its word out
    /// again, or never put it in. (If somebody else took it out, that one was told.)
    fn on_rejected(&self, _location: u32) {}
}

/// A record that was found: its word, and the pin that keeps it.
#[derive(Debug)]
pub struct Hit<'row> {
    pub(super) slot: usize,
    pub(super) word: IndexWord,
    pub(super) pin: Pin<'row>,
}

impl<'row> Hit<'row> {
    /// The word that names it, as it was under the pin.
    pub fn word(&self) -> IndexWord {
        self.word
    }

    /// Where the word stands.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Where the record lies.
    #[inline]
    pub fn at(&self) -> PinnedLocation<'_> {
        PinnedLocation { location: self.word.location(), pin: PhantomData }
    }

    /// The pin alone, for who knows the place and looks at the word no more.
    pub fn into_pin(self) -> Pin<'row> {
        self.pin
    }
}
