//! A record that grows while any number of followers read it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::chunk::{Chunk, ChunkLink, ChunkMark, free_chain};
use super::place::{NextItem, ReadPosition};
use super::tail::Tail;
use crate::waiters::{Waiter, Waiters};

/// Makes a growing record. Its chunks double in size from `first_bytes` to `chunk_bytes_max`.
#[must_use]
pub fn growing(first_bytes: usize, chunk_bytes_max: usize) -> (Producer, GrowingRecord) {
    let first_bytes = first_bytes.max(1);
    let tail = Tail::open(Chunk::new(first_bytes));
    let shared = Arc::new(RecordState { first: tail.chunk(), waiters: Waiters::new() });
    let record = GrowingRecord { shared: Arc::clone(&shared) };
    let producer = Producer {
        shared,
        tail,
        last_bytes: first_bytes,
        chunk_bytes_max: chunk_bytes_max.max(first_bytes),
        held_bytes: first_bytes,
    };
    (producer, record)
}

/// The producer of a growing record, which appends to it. Dropping the producer without
/// [`finish`](Producer::finish) aborts the record.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<RecordState>,
    tail: Tail,
    /// The size of the last chunk.
    last_bytes: usize,
    chunk_bytes_max: usize,
    held_bytes: usize,
}

/// A handle of a growing record, from which followers are made.
#[derive(Clone, Debug)]
pub struct GrowingRecord {
    shared: Arc<RecordState>,
}

/// A reader of a growing record, which starts at the beginning and reads at its own pace.
#[derive(Debug)]
pub struct RecordFollower {
    shared: Arc<RecordState>,
    place: ReadPosition,
    waiter: Waiter,
}

/// The bytes or the end that a follower sees next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// The next bytes that the follower has not passed, up to the end of a chunk at most.
    Bytes(&'a [u8]),
    /// The follower has passed the whole record.
    Done,
    /// The follower has passed all that was appended, and the producer has aborted the record.
    Aborted,
}

/// A [`Peek`] with the number of bytes in place of the bytes.
#[derive(Clone, Copy, Debug)]
enum PeekKind {
    Bytes(usize),
    Done,
    Aborted,
}

/// The state that producer and followers share. `first` never changes, and no chunk is freed before
/// this state is dropped.
#[derive(Debug)]
struct RecordState {
    first: NonNull<Chunk>,
    waiters: Waiters,
}

// SAFETY: any thread may read chunks, and the thread that drops the last count frees them.
unsafe impl Send for RecordState {}
// SAFETY: as above.
unsafe impl Sync for RecordState {}

impl Drop for RecordState {
    fn drop(&mut self) {
        // SAFETY: the producer and all followers hold a count, so no reader is left in the chain.
        unsafe { free_chain(self.first) };
    }
}

impl Producer {
    /// Appends bytes and publishes them.
    pub fn append(&mut self, bytes: &[u8]) {
        let mut taken_bytes = self.tail.append(bytes);
        while taken_bytes < bytes.len() {
            self.last_bytes = self.last_bytes.saturating_mul(2).min(self.chunk_bytes_max);
            self.held_bytes += self.last_bytes;
            taken_bytes += self.tail.extend(Chunk::new(self.last_bytes), &bytes[taken_bytes..]);
        }
        self.shared.waiters.wake_all();
    }

    /// Ends the record, which is then whole.
    pub fn finish(mut self) {
        self.end(ChunkMark::Ended);
    }

    /// The total size of the record's chunks, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn end(&mut self, mark: ChunkMark) {
        if self.tail.is_open() {
            self.tail.end(mark);
            self.shared.waiters.wake_all();
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.end(ChunkMark::Aborted);
    }
}

impl GrowingRecord {
    /// Returns a new follower, which reads from the beginning. A follower may be made at any time,
    /// even after the end of the record.
    #[must_use]
    pub fn follow(&self) -> RecordFollower {
        let shared = Arc::clone(&self.shared);
        // SAFETY: the follower's count keeps all chunks alive.
        let place = unsafe { ReadPosition::new(shared.first) };
        RecordFollower { shared, place, waiter: Waiter::new() }
    }
}

impl RecordFollower {
    /// Returns the next bytes or the end, or `None` if there is neither yet. Bytes are returned
    /// again until [`advance`](RecordFollower::advance) passes them.
    pub fn peek(&mut self) -> Option<Peek<'_>> {
        let found = find(&mut self.place)?;
        Some(show(&self.place, found))
    }

    /// Passes `count` bytes.
    ///
    /// # Panics
    /// If `count` is more than the last peek returned.
    pub fn advance(&mut self, count: usize) {
        self.place.advance(count);
    }

    /// Does the same as [`peek`](RecordFollower::peek). If there is nothing yet, the task is woken
    /// when there may be bytes or an end.
    pub fn poll_peek(&mut self, cx: &Context<'_>) -> Poll<Peek<'_>> {
        let RecordFollower { shared, place, waiter } = self;
        let found = waiter.poll(&shared.waiters, cx, || find(place));
        found.map(|found| show(place, found))
    }

    /// Does the same as [`peek`](RecordFollower::peek), but the thread sleeps until there are bytes
    /// or an end.
    pub fn wait_peek(&mut self) -> Peek<'_> {
        let RecordFollower { shared, place, waiter } = self;
        let found = waiter.wait(&shared.waiters, || find(place));
        show(place, found)
    }
}

/// Advances over the ends of chunks to the next bytes or the end. Returns `None` if there is
/// neither yet.
fn find(place: &mut ReadPosition) -> Option<PeekKind> {
    loop {
        match place.ahead()? {
            NextItem::Bytes { count, .. } => return Some(PeekKind::Bytes(count)),
            NextItem::Ended => return Some(PeekKind::Done),
            NextItem::Aborted => return Some(PeekKind::Aborted),
            NextItem::Chunk => {}
        }
        let ChunkLink::Chunk(next) = place.next() else {
            return None;
        };
        place.pass_to(next);
    }
}

fn show(place: &ReadPosition, found: PeekKind) -> Peek<'_> {
    match found {
        PeekKind::Bytes(count) => Peek::Bytes(place.bytes(count)),
        PeekKind::Done => Peek::Done,
        PeekKind::Aborted => Peek::Aborted,
    }
}

impl Drop for RecordFollower {
    fn drop(&mut self) {
        self.waiter.leave(&self.shared.waiters);
    }
}
