//! The layout of entries (a key with its value) and separators (a key alone) in an object.
//!
//! Word 0 is the header. A short entry and a separator have both lengths there; a long entry has
//! the bytes of its value there and those of its key in the low half of word 1. The key follows,
//! padded with zeros to whole words, then the value, padded in the same way.

use std::cmp::Ordering;

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::header::{ObjectHeader, ObjectKind};
use super::reference::{Generation, UNIT_WORDS};
use super::view::{
    ObjectReadError, ObjectView, compare_words, copy_words, equals_words, store_bytes,
};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 8192;

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

/// The two kinds of objects that hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A key with its value.
    Entry,
    /// A key between two leaves, without a value.
    Separator,
}

/// The longest value of a short entry, in bytes.
const SHORT_VALUE_BYTES_MAX: usize = (1 << (32 - SHORT_KEY_BITS)) - 1;
const SHORT_KEY_BITS: u32 = 14;
const _: () = assert!(KEY_BYTES_MAX < 1 << SHORT_KEY_BITS);

/// The index of the word that holds the length of a long entry's key.
const KEY_BYTES: usize = 1;

/// The word offsets of an entry's key, its value and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLayout {
    key: usize,
    value: usize,
    end: usize,
}

impl EntryLayout {
    pub(crate) fn of(key_bytes: usize, value_bytes: usize) -> EntryLayout {
        let key = if value_bytes > SHORT_VALUE_BYTES_MAX { 2 } else { 1 };
        let value = key + key_bytes.div_ceil(8);
        EntryLayout { key, value, end: value + value_bytes.div_ceil(8) }
    }

    pub(crate) fn units(self) -> usize {
        self.end.div_ceil(UNIT_WORDS)
    }

    /// Writes key and value into memory that nothing names yet.
    pub(crate) fn write(
        self,
        words: &[AtomicU64],
        generation: Generation,
        text: EntryKind,
        key: &[u8],
        value: &[u8],
    ) {
        assert!(self.end <= words.len(), "the object is smaller than its entry");
        let is_long = self.key > KEY_BYTES;
        let (kind, lengths) = match text {
            EntryKind::Entry if is_long => (ObjectKind::LongEntry, value.len()),
            EntryKind::Entry => (ObjectKind::ShortEntry, key.len() | value.len() << SHORT_KEY_BITS),
            EntryKind::Separator => (ObjectKind::Separator, key.len()),
        };
        if is_long {
            words[KEY_BYTES].store(key.len() as u64, Relaxed);
        }
        store_bytes(&words[self.key..self.value], key);
        store_bytes(&words[self.value..self.end], value);
        words[0].store(ObjectHeader::new(generation, kind, lengths as u32).word(), Relaxed);
    }
}

/// Lengths of key and value that are known to fit into the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLengths {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    layout: EntryLayout,
}

impl EntryLengths {
    /// Reads the lengths of an object of this kind. Until the read is settled the lengths may be
    /// nonsense, but they never exceed the object.
    #[inline]
    pub(crate) fn of(
        object: &ObjectView<'_>,
        text: EntryKind,
    ) -> Result<EntryLengths, ObjectReadError> {
        let header = object.header();
        let lengths = header.lengths() as usize;
        let short = (lengths & ((1 << SHORT_KEY_BITS) - 1), lengths >> SHORT_KEY_BITS);
        let (key_bytes, value_bytes) = match (text, header.kind()) {
            (EntryKind::Entry, Some(ObjectKind::ShortEntry))
            | (EntryKind::Separator, Some(ObjectKind::Separator)) => short,
            (EntryKind::Entry, Some(ObjectKind::LongEntry)) => {
                (object.word(KEY_BYTES)? as usize, lengths)
            }
            _ => return Err(ObjectReadError::Damaged("an object has the wrong kind")),
        };
        if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(ObjectReadError::Damaged("an entry exceeds the maximum length"));
        }
        let layout = EntryLayout::of(key_bytes, value_bytes);
        if header.kind() == Some(ObjectKind::LongEntry) && layout.key <= KEY_BYTES {
            return Err(ObjectReadError::Damaged(
                "an entry of the long kind has a value so short that the short kind would hold it",
            ));
        }
        if layout.end > object.words().len() {
            return Err(ObjectReadError::Damaged("an entry is longer than its object"));
        }
        Ok(EntryLengths { key_bytes, value_bytes, layout })
    }

    pub(crate) fn key_words<'a>(&self, object: &ObjectView<'a>) -> &'a [AtomicU64] {
        &object.words()[self.layout.key..self.layout.value]
    }

    pub(crate) fn value_words<'a>(&self, object: &ObjectView<'a>) -> &'a [AtomicU64] {
        &object.words()[self.layout.value..self.layout.end]
    }

    /// Compares the entry's key with `key`; the first `equal_bytes` are known to be equal.
    #[inline]
    pub(crate) fn compare(
        &self,
        object: &ObjectView<'_>,
        key: &[u8],
        equal_bytes: usize,
    ) -> Ordering {
        compare_words(self.key_words(object), self.key_bytes, key, equal_bytes)
    }

    /// Whether `key` is the entry's key.
    #[inline]
    pub(crate) fn is_key(&self, object: &ObjectView<'_>, key: &[u8]) -> bool {
        self.key_bytes == key.len() && equals_words(self.key_words(object), key)
    }

    pub(crate) fn compare_value(&self, object: &ObjectView<'_>, value: &[u8]) -> Ordering {
        compare_words(self.value_words(object), self.value_bytes, value, 0)
    }

    #[inline]
    pub(crate) fn copy_key(&self, object: &ObjectView<'_>, out: &mut Vec<u8>) {
        copy_words(self.key_words(object), self.key_bytes, out);
    }

    #[inline]
    pub(crate) fn copy_value(&self, object: &ObjectView<'_>, out: &mut Vec<u8>) {
        copy_words(self.value_words(object), self.value_bytes, out);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{EntryLayout, KEY_BYTES_MAX, SHORT_VALUE_BYTES_MAX};

    #[test]
    fn an_entry_takes_one_word_beside_key_and_value_or_two() {
        let cases = [
            ((0, 0), 1),
            ((8, 8), 3),
            ((8, 32), 6),
            ((9, 31), 7),
            ((KEY_BYTES_MAX, 1), 1026),
            ((8, SHORT_VALUE_BYTES_MAX), 2 + 32 * 1024),
            ((8, SHORT_VALUE_BYTES_MAX + 1), 3 + 32 * 1024),
        ];
        for ((key_bytes, value_bytes), words) in cases {
            let layout = EntryLayout::of(key_bytes, value_bytes);
            assert_eq!(layout.end, words, "{key_bytes} {value_bytes}");
        }
    }
}
