//! One chunk of a chain: its bytes, its published length, and the link to the next chunk.

use std::ptr::{self, NonNull};

use super::memory::Memory;
use forebay_sync::atomic::{AtomicPtr, AtomicU64, Relaxed, acquire, release};

/// A piece of memory that one producer fills and publishes piece by piece.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `memory` up to the published length | never again | readers |
/// | `memory` after the published length | producer | – |
/// | `state` | producer | readers |
/// | `next` | producer, once | readers |
///
/// `state` is `length << 2 | mark`. It changes from (n, open) to (m, open) with m > n, and at last
/// to (m, continues), (m, ended) or (m, aborted). `next` is null at first, and then points to the
/// next chunk, or to the chunk itself if no other chunk will follow.
#[derive(Debug)]
pub struct Chunk {
    next: AtomicPtr<Chunk>,
    state: AtomicU64,
    memory: Memory,
}

/// The published state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkState {
    /// The number of bytes that may be read.
    pub(super) length: usize,
    pub(super) mark: ChunkMark,
}

/// The mark after the published bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkMark {
    /// More bytes or an end may follow.
    Open = 0,
    /// The message continues in the next chunk, which is already linked.
    Continues = 1,
    /// The message ends here.
    Ended = 2,
    /// The producer has aborted the message.
    Aborted = 3,
}

const MARK_BITS: u32 = 2;

impl ChunkState {
    const EMPTY: ChunkState = ChunkState { length: 0, mark: ChunkMark::Open };

    fn word(self) -> u64 {
        (self.length as u64) << MARK_BITS | self.mark as u64
    }

    fn of(word: u64) -> ChunkState {
        let mark = match word & ((1 << MARK_BITS) - 1) {
            0 => ChunkMark::Open,
            1 => ChunkMark::Continues,
            2 => ChunkMark::Ended,
            _ => ChunkMark::Aborted,
        };
        ChunkState { length: (word >> MARK_BITS) as usize, mark }
    }
}

/// The link of a chunk, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkLink {
    /// No chunk is linked yet.
    None,
    Chunk(NonNull<Chunk>),
    /// No other chunk will follow.
    Closed,
}

impl Chunk {
    /// Makes an empty chunk with room for `capacity` bytes, but at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Box<Chunk> {
        Box::new(Chunk {
            next: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU64::new(ChunkState::EMPTY.word()),
            memory: Memory::new(capacity.max(1)),
        })
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Resets a used chunk and fills it with as many of `bytes` as fit. Returns their number.
    /// Linking the chunk publishes the bytes.
    pub(super) fn start(&mut self, bytes: &[u8]) -> usize {
        // SAFETY: no other thread has this chunk.
        let length = unsafe { self.memory.write(0, bytes) };
        self.next.store(ptr::null_mut(), Relaxed);
        self.state.store(ChunkState { length, mark: ChunkMark::Open }.word(), Relaxed);
        length
    }

    /// Copies as many of `bytes` as fit after the first `length` bytes. Returns their number.
    ///
    /// # Safety
    /// - The caller is the producer of this chunk.
    /// - `length` is the length that the producer has published.
    pub(super) unsafe fn append(&self, length: usize, bytes: &[u8]) -> usize {
        // SAFETY: only the producer writes, and readers stay below the published length.
        unsafe { self.memory.write(length, bytes) }
    }

    /// Publishes a state. With a mark other than `Open`, a reader may free the chunk even before
    /// this function returns. So the function makes no reference to the chunk, only to its state
    /// word.
    ///
    /// # Safety
    /// - The chunk is not freed before the store.
    pub(super) unsafe fn publish(chunk: NonNull<Chunk>, length: usize, mark: ChunkMark) {
        // SAFETY: the chunk is not freed before the store (contract).
        let state = unsafe { &(*chunk.as_ptr()).state };
        // ORDER: pairs with the load in `state`: the bytes, and with `Continues` the link, are
        // written before the word that announces them.
        state.store(ChunkState { length, mark }.word(), release("publish.length"));
    }

    /// The published state.
    pub(super) fn state(&self) -> ChunkState {
        // ORDER: pairs with the store in `publish`.
        ChunkState::of(self.state.load(acquire("publish.read")))
    }

    /// The bytes from `from` to `to`, which a published state has announced.
    ///
    /// # Safety
    /// - This thread has seen a length of at least `to`, or got the chunk from a thread that has.
    /// - The chunk is not reset while the slice is in use.
    pub(super) unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        // SAFETY: the acquire in `state` comes after the writes, and published bytes are not
        // written again.
        unsafe { self.memory.read(from, to) }
    }

    /// Links the next chunk. If this chunk is marked `Ended` or `Aborted`, a reader may free it
    /// even before this function returns, as in `publish`.
    ///
    /// # Safety
    /// - The chunk is not freed before the store.
    pub(super) unsafe fn link(chunk: NonNull<Chunk>, next: NonNull<Chunk>) {
        // SAFETY: the chunk is not freed before the store (contract).
        let link = unsafe { &(*chunk.as_ptr()).next };
        // ORDER: pairs with the load in `next`: the next chunk and its first bytes are written
        // before the link to it.
        link.store(next.as_ptr(), release("publish.link"));
    }

    /// Closes the chain, so that no chunk ever follows.
    pub(super) fn close(&self) {
        self.next.store(ptr::from_ref(self).cast_mut(), Relaxed);
    }

    /// Returns the link to the next chunk.
    pub(super) fn next(&self) -> ChunkLink {
        // ORDER: pairs with the store in `link`.
        let next = self.next.load(acquire("publish.next"));
        match NonNull::new(next) {
            None => ChunkLink::None,
            Some(_) if ptr::eq(next, self) => ChunkLink::Closed,
            Some(next) => ChunkLink::Chunk(next),
        }
    }
}

/// Frees a chain from `first` to its end.
///
/// # Safety
/// - No other thread has any chunk of the chain, or will get one.
/// - All chunks of the chain come from boxes.
pub(super) unsafe fn free_chain(first: NonNull<Chunk>) {
    let mut next = ChunkLink::Chunk(first);
    while let ChunkLink::Chunk(chunk) = next {
        // SAFETY: the chunk belongs to the chain, which is ours (contract).
        let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
        next = chunk.next();
    }
}
