//! The position of a reader in a chain.

use std::ptr::NonNull;

use super::chunk::{Chunk, ChunkLink, ChunkMark};

/// A chunk and how much of it has been read.
///
/// Invariants:
/// - The owner of a position keeps its chunk and all later ones from being freed.
/// - `offset <= seen_length`, which `ahead` has seen to be published.
#[derive(Debug)]
pub(super) struct ReadPosition {
    chunk: NonNull<Chunk>,
    offset: usize,
    seen_length: usize,
}

/// The next item in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextItem {
    /// So many bytes; and if the message ends with them.
    Bytes { count: usize, is_end: bool },
    /// The message goes on in the next chunk.
    Chunk,
    /// The message has ended.
    Ended,
    /// The message has been given up.
    Aborted,
}

// SAFETY: a position only reads published bytes, which any thread may.
unsafe impl Send for ReadPosition {}
// SAFETY: as above.
unsafe impl Sync for ReadPosition {}

impl ReadPosition {
    /// The beginning of a chain.
    ///
    /// # Safety
    /// - `first` and all chunks that follow live as long as the place, or until it has gone on to
    ///   a later one.
    pub(super) unsafe fn new(first: NonNull<Chunk>) -> ReadPosition {
        ReadPosition { chunk: first, offset: 0, seen_length: 0 }
    }

    /// The next item; `None` if there is none yet.
    pub(super) fn ahead(&mut self) -> Option<NextItem> {
        let state = self.chunk().state();
        self.seen_length = state.length;
        let count = state.length - self.offset;
        let is_end = state.mark == ChunkMark::Ended;
        match state.mark {
            _ if count > 0 => Some(NextItem::Bytes { count, is_end }),
            ChunkMark::Open => None,
            ChunkMark::Continues => Some(NextItem::Chunk),
            ChunkMark::Ended => Some(NextItem::Ended),
            ChunkMark::Aborted => Some(NextItem::Aborted),
        }
    }

    /// The link of this chunk.
    pub(super) fn next(&self) -> ChunkLink {
        self.chunk().next()
    }

    /// Goes to `next`, which `next()` has shown; returns the chunk that has been passed.
    pub(super) fn pass_to(&mut self, next: NonNull<Chunk>) -> NonNull<Chunk> {
        (self.offset, self.seen_length) = (0, 0);
        std::mem::replace(&mut self.chunk, next)
    }

    /// The next `count` bytes, no more than `ahead` has shown; they are not passed yet.
    pub(super) fn bytes(&self, count: usize) -> &[u8] {
        let end = self.offset + count;
        assert!(end <= self.seen_length, "bytes that have not been seen");
        // SAFETY: this reader has seen the length, and no thread resets the chunk while the reader
        // stands here.
        unsafe { self.chunk().bytes(self.offset, end) }
    }

    /// The same bytes, passed at once.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.offset;
        self.advance(count);
        // SAFETY: as in `bytes`.
        unsafe { self.chunk().bytes(from, self.offset) }
    }

    /// Passes `count` bytes, no more than `ahead` has shown.
    pub(super) fn advance(&mut self, count: usize) {
        assert!(count <= self.seen_length - self.offset, "bytes that have not been seen");
        self.offset += count;
    }

    pub(super) fn chunk_pointer(&self) -> NonNull<Chunk> {
        self.chunk
    }

    fn chunk(&self) -> &Chunk {
        // SAFETY: it lives as long as a place stands at it (contract of `new`).
        unsafe { self.chunk.as_ref() }
    }
}
