//! The end of a chain at which its producer appends.

use std::ptr::NonNull;

use super::chunk::{Chunk, ChunkMark};

/// The last chunk, and its published length.
///
/// Invariants:
/// - The chunk is the last of its chain; only this value writes into it.
/// - Readers free a chunk only when they have gone on to the next, which they find only when it is
///   no longer the last.
#[derive(Debug)]
pub(super) struct Tail {
    chunk: NonNull<Chunk>,
    length: usize,
    is_open: bool,
}

// SAFETY: a tail is the only writer of its chunk, on whatever thread it is.
unsafe impl Send for Tail {}
// SAFETY: a shared tail can do nothing but look at its own plain fields.
unsafe impl Sync for Tail {}

impl Tail {
    /// Begins a chain whose first chunk is an open one.
    pub(super) fn open(mut first: Box<Chunk>) -> Tail {
        first.start(&[]);
        Tail { chunk: NonNull::from(Box::leak(first)), length: 0, is_open: true }
    }

    /// Begins a chain with a stub: a chunk that has been read already, so that there is always one
    /// to link the next to, and a reader never has to take the last away from the producer.
    pub(super) fn stub(first: Box<Chunk>) -> Tail {
        let mut tail = Tail::open(first);
        tail.end(ChunkMark::Ended);
        tail
    }

    pub(super) fn chunk(&self) -> NonNull<Chunk> {
        self.chunk
    }

    /// Whether a message is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the next byte needs another chunk.
    pub(super) fn is_full(&self) -> bool {
        !self.is_open || self.length == self.last().capacity()
    }

    /// Appends and publishes as many of `bytes` as fit into the last chunk; returns how many.
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        if self.is_full() || bytes.is_empty() {
            return 0;
        }
        // SAFETY: we are the producer, and `length` is what we have published.
        let count = unsafe { self.last().append(self.length, bytes) };
        self.length += count;
        self.publish(ChunkMark::Open);
        count
    }

    /// Goes on in another chunk with as many of `bytes` as fit; returns how many. If no message is
    /// open this begins one.
    pub(super) fn extend(&mut self, mut chunk: Box<Chunk>, bytes: &[u8]) -> usize {
        let count = chunk.start(bytes);
        let next = NonNull::from(Box::leak(chunk));
        // The last access to a chunk is the one that allows a reader to go on: the link after an
        // end, the mark within a message.
        // SAFETY: by the invariants the last chunk is not freed before this.
        unsafe { Chunk::link(self.chunk, next) };
        if self.is_open {
            self.publish(ChunkMark::Continues);
        }
        *self = Tail { chunk: next, length: count, is_open: true };
        count
    }

    /// Ends the open message, if there is one.
    pub(super) fn end(&mut self, mark: ChunkMark) {
        if self.is_open {
            self.is_open = false;
            self.publish(mark);
        }
    }

    /// Closes the chain: no message follows.
    pub(super) fn close(&self) {
        self.last().close();
    }

    fn publish(&self, mark: ChunkMark) {
        // SAFETY: by the invariants the last chunk is not freed before this: in `extend`, a reader
        // of an open message goes on only when it sees the mark.
        unsafe { Chunk::publish(self.chunk, self.length, mark) };
    }

    fn last(&self) -> &Chunk {
        // SAFETY: by the invariants the last chunk is not freed.
        unsafe { self.chunk.as_ref() }
    }
}
