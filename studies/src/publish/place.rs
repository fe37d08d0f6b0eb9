//! Where a reader of a chain stands.

use std::ptr::NonNull;

use super::chunk::{Chunk, Mark, Next};

/// A chunk and how much of it has been read.
///
/// Invariants:
/// - Who has a place keeps its chunk and all that follow from being freed.
/// - `offset <= seen_length`, which `ahead` has seen to be published.
#[derive(Debug)]
pub(super) struct Place {
    chunk: NonNull<Chunk>,
    offset: usize,
    seen_length: usize,
}

/// What comes next in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// So many bytes; and if the message ends with them.
    Bytes { count: usize, is_end: bool },
    /// The message goes on in the next chunk.
    Chunk,
    /// The message has ended.
    Ended,
    /// The message has been given up.
    Aborted,
}

// SAFETY: a place only reads what is published, which any thread may.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// The beginning of a chain.
    ///
    /// # Safety
    /// - `first` and all chunks that follow live as long as the place, or until it has gone on to
    ///   a later one.
    pub(super) unsafe fn new(first: NonNull<Chunk>) -> Place {
        Place { chunk: first, offset: 0, seen_length: 0 }
    }

    /// What comes next; nothing yet: `None`.
    pub(super) fn ahead(&mut self) -> Option<Ahead> {
        let state = self.chunk().state();
        self.seen_length = state.length;
        let count = state.length - self.offset;
        let is_end = state.mark == Mark::Ended;
        match state.mark {
            _ if count > 0 => Some(Ahead::Bytes { count, is_end }),
            Mark::Open => None,
            Mark::Continues => Some(Ahead::Chunk),
            Mark::Ended => Some(Ahead::Ended),
            Mark::Aborted => Some(Ahead::Aborted),
        }
    }

    /// What comes after this chunk.
    pub(super) fn next(&self) -> Next {
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
        // SAFETY: this reader has seen the length, and while it stands here nobody starts the
        // chunk again.
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
