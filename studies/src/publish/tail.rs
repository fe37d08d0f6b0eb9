//! The end of a chain, where its producer appends.

use std::ptr::NonNull;

use super::chunk::{Chunk, ChunkMark};

/// The last chunk of a chain, and its published length.
///
/// Invariants:
/// - The chunk is the last of its chain, and only this value writes into it.
/// - A reader frees a chunk only after it has moved on to the next chunk. So it never frees the
///   last chunk of the chain.
#[derive(Debug)]
pub(super) struct Tail {
    chunk: NonNull<Chunk>,
    length: usize,
    is_open: bool,
}

// SAFETY: a tail is the only writer of its chunk, whichever thread owns it.
unsafe impl Send for Tail {}
// SAFETY: a shared tail can only read its own plain fields.
unsafe impl Sync for Tail {}

impl Tail {
    /// Begins a chain with an open chunk.
    pub(super) fn open(mut first: Box<Chunk>) -> Tail {
        first.start(&[]);
        Tail { chunk: NonNull::from(Box::leak(first)), length: 0, is_open: true }
    }

    /// Begins a chain with a stub: a chunk that counts as read. So there is always a chunk to which
    /// the producer can link the next one, and a reader never takes the last chunk away from the
    /// producer.
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

    /// Appends and publishes as many of `bytes` as fit into the last chunk. Returns their number.
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        if self.is_full() || bytes.is_empty() {
            return 0;
        }
        // SAFETY: this is the producer, and `length` is the published length.
        let count = unsafe { self.last().append(self.length, bytes) };
        self.length += count;
        self.publish(ChunkMark::Open);
        count
    }

    /// Continues in another chunk with as many of `bytes` as fit. Returns their number. Begins a
    /// message if none is open.
    pub(super) fn extend(&mut self, mut chunk: Box<Chunk>, bytes: &[u8]) -> usize {
        let count = chunk.start(bytes);
        let next = NonNull::from(Box::leak(chunk));
        // The last access to the old chunk is the store that allows a reader to move on: the link
        // if the message of the chunk has ended, otherwise the mark.
        // SAFETY: by the invariants the last chunk is not freed before this store.
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

    /// Closes the chain, so that no message follows.
    pub(super) fn close(&self) {
        self.last().close();
    }

    fn publish(&self, mark: ChunkMark) {
        // SAFETY: by the invariants the last chunk is not freed before this store. In `extend`, a
        // reader of an open message moves on only when it sees the mark.
        unsafe { Chunk::publish(self.chunk, self.length, mark) };
    }

    fn last(&self) -> &Chunk {
        // SAFETY: by the invariants the last chunk is not freed.
        unsafe { self.chunk.as_ref() }
    }
}
