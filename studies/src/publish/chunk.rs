//! One chunk of a chain: bytes, how many of them are published, and what follows.

use std::ptr::{self, NonNull};

use super::memory::Memory;
use forebay_sync::atomic::{AtomicPtr, AtomicU64, Relaxed, acquire, release};

/// A piece of memory that one producer fills and publishes byte by byte.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `memory` up to the published length | nobody any more | readers |
/// | `memory` behind it | producer | nobody |
/// | `state` | producer | readers |
/// | `next` | producer, once | readers |
///
/// `state` is `length << 2 | mark`. It goes from (n, open) to (m, open) with m > n, and ends as
/// (m, continues), (m, ended) or (m, aborted). `next` is null, then the chunk that follows; or the
/// chunk itself when no other will follow.
#[derive(Debug)]
pub struct Chunk {
    next: AtomicPtr<Chunk>,
    state: AtomicU64,
    memory: Memory,
}

/// What the producer says of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Bytes that may be read.
    pub(super) length: usize,
    pub(super) mark: Mark,
}

/// What comes after the published bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is not known yet.
    Open = 0,
    /// The message goes on in the next chunk, which is linked.
    Continues = 1,
    /// The end of the message.
    Ended = 2,
    /// The producer has given the message up.
    Aborted = 3,
}

const MARK_BITS: u32 = 2;

impl State {
    const EMPTY: State = State { length: 0, mark: Mark::Open };

    fn word(self) -> u64 {
        (self.length as u64) << MARK_BITS | self.mark as u64
    }

    fn of(word: u64) -> State {
        let mark = match word & ((1 << MARK_BITS) - 1) {
            0 => Mark::Open,
            1 => Mark::Continues,
            2 => Mark::Ended,
            _ => Mark::Aborted,
        };
        State { length: (word >> MARK_BITS) as usize, mark }
    }
}

/// What a reader finds behind a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing yet.
    None,
    Chunk(NonNull<Chunk>),
    /// There will be no other.
    Closed,
}

impl Chunk {
    /// An empty chunk with room for `capacity` bytes, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Box<Chunk> {
        Box::new(Chunk {
            next: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU64::new(State::EMPTY.word()),
            memory: Memory::new(capacity.max(1)),
        })
    }

    /// How many bytes it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Makes a chunk that has been used as good as new, with `bytes` for a beginning, as far as
    /// there is room. They are published with the chunk, when it is linked.
    pub(super) fn start(&mut self, bytes: &[u8]) -> usize {
        // SAFETY: nobody else has this chunk.
        let length = unsafe { self.memory.write(0, bytes) };
        self.next.store(ptr::null_mut(), Relaxed);
        self.state.store(State { length, mark: Mark::Open }.word(), Relaxed);
        length
    }

    /// Copies as many of `bytes` behind the first `length` ones as there is room for.
    ///
    /// # Safety
    /// - The caller is the producer of this chunk.
    /// - `length` is what it has published.
    pub(super) unsafe fn append(&self, length: usize, bytes: &[u8]) -> usize {
        // SAFETY: only the producer writes, and readers stay below the published length.
        unsafe { self.memory.write(length, bytes) }
    }

    /// Says what there is to read. After a mark other than `Open` a reader may free the chunk, even
    /// before this returns: so no reference to the chunk is taken, only to its word.
    ///
    /// # Safety
    /// - The chunk lives until this stores.
    pub(super) unsafe fn publish(chunk: NonNull<Chunk>, length: usize, mark: Mark) {
        // SAFETY: it still lives (contract).
        let state = unsafe { &(*chunk.as_ptr()).state };
        // ORDER: pairs with the load in `state`: the bytes, and with `Continues` the link, are
        // there before the word that tells of them.
        state.store(State { length, mark }.word(), release("publish.length"));
    }

    /// What there is to read.
    pub(super) fn state(&self) -> State {
        // ORDER: pairs with the store in `publish`.
        State::of(self.state.load(acquire("publish.read")))
    }

    /// Bytes that `state` has shown to be there.
    ///
    /// # Safety
    /// - This thread has seen a length of at least `to`, or has the chunk from one that has.
    /// - The chunk is not started again while the slice is in use.
    pub(super) unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        // SAFETY: the acquire in `state` comes after the writes, which are never done again.
        unsafe { self.memory.read(from, to) }
    }

    /// Says what follows. After `Ended` or `Aborted` a reader may free this chunk, even before this
    /// returns, as in `publish`.
    ///
    /// # Safety
    /// - The chunk lives until this stores.
    pub(super) unsafe fn link(chunk: NonNull<Chunk>, next: NonNull<Chunk>) {
        // SAFETY: it still lives (contract).
        let link = unsafe { &(*chunk.as_ptr()).next };
        // ORDER: pairs with the load in `next`: the chunk and its first bytes are there before
        // the link to it.
        link.store(next.as_ptr(), release("publish.link"));
    }

    /// Says that nothing follows, ever.
    pub(super) fn close(&self) {
        self.next.store(ptr::from_ref(self).cast_mut(), Relaxed);
    }

    /// What follows.
    pub(super) fn next(&self) -> Next {
        // ORDER: pairs with the store in `link`.
        let next = self.next.load(acquire("publish.next"));
        match NonNull::new(next) {
            None => Next::None,
            Some(_) if ptr::eq(next, self) => Next::Closed,
            Some(next) => Next::Chunk(next),
        }
    }
}

/// Frees a chain from `first` to its end.
///
/// # Safety
/// - Nobody else has any chunk of it, or will ask for one.
/// - All of them come from boxes.
pub(super) unsafe fn free_chain(first: NonNull<Chunk>) {
    let mut next = Next::Chunk(first);
    while let Next::Chunk(chunk) = next {
        // SAFETY: a chunk of the chain, which is ours (contract).
        let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
        next = chunk.next();
    }
}
