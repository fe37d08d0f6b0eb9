//! The key index: keys and tags in order, so that a purge or a listing by prefix or tag costs no
//! more than the entries that it touches.
//!
//! It consists of two ordered maps in the region beside the records. The map `keys` has an entry
//! for each record that is stored under a primary key; the map `tags` has an entry for each tag of
//! each record:
//!
//! | map | key of an entry | records |
//! |---|---|---|
//! | `keys` | primary key, NUL, sequence | whole responses, heads of long bodies, base records |
//! | `tags` | tag, NUL, primary key, NUL, sequence | all records with tags, including variants |
//!
//! The sequence has six bytes, the highest first. Values are empty. No primary key is another
//! primary key followed by NUL and more bytes: otherwise the entries of the two keys would overlap.
//!
//! Invariant: a record that the index names has its entries in both maps. So the entries are
//! inserted before the word is published, and removed after the word is removed. In between,
//! surplus entries are legal: every walk checks an entry against the index. A death leaves surplus
//! entries behind. A sweep (`store/key_index_sweep.rs`) removes them, and must not mistake the
//! entries of a record that is about to be published for surplus entries:
//!
//! | fill | sweep |
//! |---|---|
//! | announces the sequence in its row (release, `order.entering`) | loads an entry (acquire) |
//! | inserts entries (release, in the map) | reads all rows (acquire, `order.rows`) |
//! | publishes the index word, or does not | reads the index |
//! | clears the row (release, `order.entered`) | removes exactly that entry |
//!
//! A sweep that sees the entry sees the row; a sweep that sees the row cleared sees the word.

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
