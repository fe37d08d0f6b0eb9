//! The bytes of map entries.

use crate::tags::{TAG_BYTES_MAX, tags_of};

/// The number of bytes that a sequence has in an entry.
const SEQUENCE_BYTES: usize = 6;

/// The number of bytes behind the primary key of an entry: NUL and sequence.
const SUFFIX_BYTES: usize = 1 + SEQUENCE_BYTES;

/// The longest primary key that can be stored: an entry of the map of tags, which has a tag before
/// the key, must fit into a map.
pub(crate) const KEY_BYTES_MAX: usize =
    forebay_ordmap::KEY_BYTES_MAX - SUFFIX_BYTES - TAG_BYTES_MAX - 1;

/// The parts of a record from which its entries in the maps are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordKeys<'a> {
    pub(crate) primary: &'a [u8],
    /// Whether the record is stored under the primary key itself.
    pub(crate) has_key: bool,
    pub(crate) sequence: u64,
    /// The tags, as the record holds them.
    pub(crate) tags: &'a [u8],
}

impl<'a> RecordKeys<'a> {
    /// Whether the record has no entry in either map.
    pub(crate) fn is_nowhere(&self) -> bool {
        !self.has_key && self.tags.is_empty()
    }

    /// The number of the record's entries in both maps.
    pub(crate) fn entry_count(&self) -> u32 {
        u32::from(self.has_key) + tags_of(self.tags).count() as u32
    }

    /// The record's entries in the map of tags.
    pub(crate) fn tag_entries(&self) -> impl Iterator<Item = Vec<u8>> + use<'a> {
        let RecordKeys { primary, sequence, tags, .. } = *self;
        tags_of(tags).map(move |tag| {
            let mut entry = tag_head(tag);
            entry.reserve_exact(primary.len() + SUFFIX_BYTES);
            write_entry(&mut entry, primary, sequence);
            entry
        })
    }
}

/// The entry of a record in the map of keys.
pub(crate) fn key_entry(primary: &[u8], sequence: u64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(primary.len() + SUFFIX_BYTES);
    write_entry(&mut entry, primary, sequence);
    entry
}

fn write_entry(entry: &mut Vec<u8>, primary: &[u8], sequence: u64) {
    entry.extend_from_slice(primary);
    entry.push(0);
    // The highest byte first, so that entries are in the order of their sequences.
    let [_, _, low @ ..] = sequence.swap_bytes().to_le_bytes();
    entry.extend_from_slice(&low);
}

/// The common prefix of all entries of a tag.
pub(crate) fn tag_head(tag: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(tag.len() + 1);
    head.extend_from_slice(tag);
    head.push(0);
    head
}

/// Completes `entry`, which holds the bytes before the primary key, to an upper bound of all
/// entries of this primary key.
pub(super) fn write_end_of(entry: &mut Vec<u8>, primary: &[u8]) {
    entry.extend_from_slice(primary);
    entry.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

/// Splits an entry into primary key and sequence; `None` if it is not an entry.
pub(crate) fn split_key_entry(entry: &[u8]) -> Option<(&[u8], u64)> {
    let (rest, low) = entry.split_last_chunk::<SEQUENCE_BYTES>()?;
    let primary = rest.strip_suffix(&[0])?;
    let mut sequence = [0; 8];
    sequence[2..].copy_from_slice(low);
    Some((primary, u64::from_le_bytes(sequence).swap_bytes()))
}

/// Splits an entry of the map of tags into primary key and sequence; `None` if it is not an entry.
pub(crate) fn split_tag_entry(entry: &[u8]) -> Option<(&[u8], u64)> {
    let nul = entry.iter().position(|byte| *byte == 0)?;
    split_key_entry(entry.get(nul + 1..)?)
}
