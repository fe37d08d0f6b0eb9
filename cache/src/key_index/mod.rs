//! The order of keys, and of tags: so that purging and listing by prefix or tag cost what they
//! touch.
//!
//! Two ordered maps lie in the region beside the records. One has an entry for each record that
//! stands under a primary key, the other one for each tag of each record:
//!
//! | map | key of an entry | what has one |
//! |---|---|---|
//! | `keys` | primary key, NUL, sequence | whole records, long heads, bases |
//! | `tags` | tag, NUL, primary key, NUL, sequence | each tag of a record, variants too |
//!
//! The sequence has six bytes, the highest first. Values are empty. No primary key is another one
//! with a NUL and more behind it: else entries of the two would not stand apart.
//!
//! Invariant: who is in the index is in both maps. So entries are made before a record's word is
//! published, and taken out after its word is. In between they are legal left-overs: who walks over
//! the maps looks into the index for what an entry names. What a death leaves is taken out by a
//! sweep (`store/key_index_sweep.rs`), which must not mistake a record that is about to be
//! published for a left-over:
//!
//! | who stores | who sweeps |
//! |---|---|
//! | its row says the sequence (release, `order.entering`) | loads an entry (acquire, in the map) |
//! | entries (release, in the map) | reads all rows (acquire, `order.rows`) |
//! | the index word, or nothing | looks into the index |
//! | the row is cleared (release, `order.entered`) | takes exactly that entry out |
//!
//! Who sees the entry sees the row; who sees the row cleared sees the word.

mod entry;
#[cfg(not(loom))]
mod maps;
mod rows;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
#[cfg(not(loom))]
mod walk;

pub(crate) use entry::{KEY_BYTES_MAX, RecordKeys, key_entry, split_key_entry, split_tag_entry};
#[cfg(not(loom))]
pub(crate) use maps::{KeyIndex, KeyIndexHandle, KeyMap, areas, config};
pub(crate) use rows::{Leftovers, PendingInserts};
#[cfg(not(loom))]
pub(crate) use walk::KeyWalk;
