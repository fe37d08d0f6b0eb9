//! Keys with their values, and keys alone: how they lie in an object.
//!
//! Word 0 is the header, with the bytes of value; word 1 has the bytes of key in its low half. The
//! key follows, padded with zeros to whole words, then the value in the same way.

use std::cmp::Ordering;

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::header::{Header, Kind};
use super::reference::{Generation, UNIT_WORDS};
use super::view::{Seen, Stop, compare_words, copy_words, store_bytes};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 8192;

/// The longest value.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

const LENGTHS: usize = 1;
const KEY: usize = 2;

/// How many words key and value take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLayout {
    value: usize,
    end: usize,
}

impl EntryLayout {
    pub(crate) fn of(key_bytes: usize, value_bytes: usize) -> EntryLayout {
        let value = KEY + key_bytes.div_ceil(8);
        EntryLayout { value, end: value + value_bytes.div_ceil(8) }
    }

    pub(crate) fn units(self) -> usize {
        self.end.div_ceil(UNIT_WORDS)
    }

    /// Writes key and value into memory that nothing names yet.
    pub(crate) fn write(
        self,
        words: &[AtomicU64],
        generation: Generation,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) {
        assert!(self.end <= words.len(), "the object is as large as was asked for");
        words[LENGTHS].store(key.len() as u64, Relaxed);
        store_bytes(&words[KEY..self.value], key);
        store_bytes(&words[self.value..self.end], value);
        words[0].store(Header::new(generation, kind, value.len() as u32).word(), Relaxed);
    }
}

/// Key and value as their entry says it: known to lie in the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    layout: EntryLayout,
}

impl Lengths {
    /// What an object of this kind says; before it is settled that may be nonsense, but never
    /// leads out of the object.
    #[inline]
    pub(crate) fn of(seen: &Seen<'_>, kind: Kind) -> Result<Lengths, Stop> {
        let header = seen.header_of(kind)?;
        let key_bytes = seen.word(LENGTHS)? as usize;
        let value_bytes = header.value_bytes() as usize;
        if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(Stop::Damaged("an entry is longer than any can be"));
        }
        let layout = EntryLayout::of(key_bytes, value_bytes);
        if layout.end > seen.words().len() {
            return Err(Stop::Damaged("an entry is longer than its memory"));
        }
        Ok(Lengths { key_bytes, value_bytes, layout })
    }

    pub(crate) fn key_words<'a>(&self, seen: &Seen<'a>) -> &'a [AtomicU64] {
        &seen.words()[KEY..self.layout.value]
    }

    pub(crate) fn value_words<'a>(&self, seen: &Seen<'a>) -> &'a [AtomicU64] {
        &seen.words()[self.layout.value..self.layout.end]
    }

    /// Compares its key with another; so many bytes are known to be equal.
    #[inline]
    pub(crate) fn compare(&self, seen: &Seen<'_>, key: &[u8], equal_bytes: usize) -> Ordering {
        compare_words(self.key_words(seen), self.key_bytes, key, equal_bytes)
    }

    pub(crate) fn compare_value(&self, seen: &Seen<'_>, value: &[u8]) -> Ordering {
        compare_words(self.value_words(seen), self.value_bytes, value, 0)
    }

    pub(crate) fn copy_key(&self, seen: &Seen<'_>, out: &mut Vec<u8>) {
        copy_words(self.key_words(seen), self.key_bytes, out);
    }

    pub(crate) fn copy_value(&self, seen: &Seen<'_>, out: &mut Vec<u8>) {
        copy_words(self.value_words(seen), self.value_bytes, out);
    }
}
