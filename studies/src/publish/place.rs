//! The position of a reader in a chain.

use std::ptr::NonNull;

use super::chunk::{Chunk, ChunkLink, ChunkMark};

/// A chunk, and the number of its bytes that have been read.
///
/// Invariants:
/// - The owner of a position keeps its chunk and all later chunks from being freed.
/// - `offset <= seen_length`, and `ahead` has seen `seen_length` bytes published.
#[derive(Debug)]
pub(super) struct ReadPosition {
    chunk: NonNull<Chunk>,
    offset: usize,
    seen_length: usize,
}

/// The next step of a reader in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextItem {
    /// `count` bytes can be read; `is_end` says whether the message ends with them.
    Bytes { count: usize, is_end: bool },
    /// The message continues in the next chunk.
    Chunk,
    /// The message has ended.
    Ended,
    /// The message has been aborted.
    Aborted,
}

// SAFETY: a position only reads published bytes, which any thread may.
unsafe impl Send for ReadPosition {}
// SAFETY: as above.
unsafe impl Sync for ReadPosition {}

impl ReadPosition {
    /// The position at the beginning of a chain.
    ///
    /// # Safety
    /// - `first` and all chunks that follow it live as long as the position, or until the position
    ///   has moved to a later chunk.
    pub(super) unsafe fn new(first: NonNull<Chunk>) -> ReadPosition {
        ReadPosition { chunk: first, offset: 0, seen_length: 0 }
    }

    /// Returns the next item, or `None` if nothing more has been published.
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

    /// Returns the link of the current chunk.
    pub(super) fn next(&self) -> ChunkLink {
        self.chunk().next()
    }

    /// Moves to `next`, which `next()` has returned. Returns the chunk that was passed.
    pub(super) fn pass_to(&mut self, next: NonNull<Chunk>) -> NonNull<Chunk> {
        (self.offset, self.seen_length) = (0, 0);
        std::mem::replace(&mut self.chunk, next)
    }

    /// Returns the next `count` bytes without passing them. `count` is at most the number that
    /// `ahead` has returned.
    pub(super) fn bytes(&self, count: usize) -> &[u8] {
        let end = self.offset + count;
        assert!(end <= self.seen_length, "the reader has not seen these bytes published");
        // SAFETY: this reader has seen the length, and no thread resets the chunk while the reader
        // is in it.
        unsafe { self.chunk().bytes(self.offset, end) }
    }

    /// Returns the next `count` bytes and passes them.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.offset;
        self.advance(count);
        // SAFETY: as in `bytes`.
        unsafe { self.chunk().bytes(from, self.offset) }
    }

    /// Passes `count` bytes, at most the number that `ahead` has returned.
    pub(super) fn advance(&mut self, count: usize) {
        assert!(
            count <= self.seen_length - self.offset,
            "the reader has not seen these bytes published"
        );
        self.offset += count;
    }

    pub(super) fn chunk_pointer(&self) -> NonNull<Chunk> {
        self.chunk
    }

    fn chunk(&self) -> &Chunk {
        // SAFETY: the chunk lives as long as a position points to it (contract of `new`).
        unsafe { self.chunk.as_ref() }
    }
}
