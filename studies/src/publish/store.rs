//! Sources and sinks of chunks.

use super::chunk::Chunk;
use crate::magazine::Magazines;

/// A source and a sink of chunks: the heap, or a free list that recycles them.
///
/// Each side of a queue has its own value of this trait, so the common case needs no lock. A chunk
/// may come back with any contents, because its next user resets it.
pub trait Chunks {
    /// Returns a chunk with any contents.
    fn take(&mut self) -> Box<Chunk>;

    /// Takes back a chunk that has been read.
    fn give(&mut self, chunk: Box<Chunk>);
}

/// The heap: every chunk is allocated and freed.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// The size of each chunk.
    pub chunk_bytes: usize,
}

/// A free list of used chunks: the pair of magazines of one side of a queue. The chunks that the
/// receiver gives back reach the sender through the depot that both sides share, a magazine at a
/// time.
#[derive(Debug)]
pub struct Recycled {
    magazines: Magazines<Box<Chunk>>,
    chunk_bytes: usize,
}

impl Chunks for Heap {
    fn take(&mut self) -> Box<Chunk> {
        Chunk::new(self.chunk_bytes)
    }

    fn give(&mut self, chunk: Box<Chunk>) {
        drop(chunk);
    }
}

impl Recycled {
    /// Takes chunks from `magazines` and gives them back there. A new chunk has `chunk_bytes`
    /// bytes.
    #[must_use]
    pub fn new(magazines: Magazines<Box<Chunk>>, chunk_bytes: usize) -> Recycled {
        Recycled { magazines, chunk_bytes }
    }
}

impl Chunks for Recycled {
    fn take(&mut self) -> Box<Chunk> {
        self.magazines.take_or_make(|| Chunk::new(self.chunk_bytes))
    }

    fn give(&mut self, chunk: Box<Chunk>) {
        self.magazines.give(chunk);
    }
}
