//! Objects: pieces of memory that are written once, named by references with a generation, and
//! freed.
//!
//! Memory is divided into chunks of 16 KiB, a chunk into objects of one size. Freeing an object
//! raises the generation in its first word before the memory is written again.
//!
//! Invariants:
//! - The generation of a memory location only grows, even when its chunk is divided into other
//!   sizes.
//! - Following a reference never reads outside of the data, whatever the memory holds.
//! - Readers never see objects that the owner of a shard had not published when it died.

mod alloc;
mod class;
mod entry;
mod header;
mod lists;
mod pool;
mod reference;
mod view;

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;

pub(crate) use alloc::{Allocator, FreeObject, LIST_WORDS, MARK_WORDS, POOL_WORDS};
pub(crate) use class::{CHUNK_UNITS, CHUNK_WORDS, ChunkClass, ChunkWord};
#[cfg(test)]
pub(crate) use class::{SIZES, SPAN_CHUNKS_MAX};
pub use entry::KEY_BYTES_MAX;
pub(crate) use entry::{EntryKind, EntryLayout, EntryLengths, VALUE_BYTES_MAX};
pub(crate) use header::{ObjectHeader, ObjectKind};
pub(crate) use reference::{ObjectRef, UNIT_WORDS};
pub(crate) use view::{
    ObjectReadError, ObjectView, ShardView, compare_words, copy_words, equals_words, follow,
    head_of, prefetch, publish, store_bytes,
};
