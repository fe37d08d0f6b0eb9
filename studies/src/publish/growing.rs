//! A record that grows while any number of followers read it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::chunk::{Chunk, Mark, Next, free_chain};
use super::place::{Ahead, Place};
use super::tail::Tail;
use crate::waiters::{Waiter, Waiters};

/// A growing record. Its chunks double from `first_bytes` to `chunk_bytes_max`.
#[must_use]
pub fn growing(first_bytes: usize, chunk_bytes_max: usize) -> (Producer, Growing) {
    let first_bytes = first_bytes.max(1);
    let tail = Tail::open(Chunk::new(first_bytes));
    let shared = Arc::new(Shared { first: tail.chunk(), waiters: Waiters::new() });
    let record = Growing { shared: Arc::clone(&shared) };
    let producer = Producer {
        shared,
        tail,
        last_bytes: first_bytes,
        chunk_bytes_max: chunk_bytes_max.max(first_bytes),
        held_bytes: first_bytes,
    };
    (producer, record)
}

/// Appends to a growing record. Dropping it before [`finish`](Producer::finish) aborts the record.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    tail: Tail,
    /// The size of the last chunk.
    last_bytes: usize,
    chunk_bytes_max: usize,
    held_bytes: usize,
}

/// A growing record, for those who may want to follow it.
#[derive(Clone, Debug)]
pub struct Growing {
    shared: Arc<Shared>,
}

/// Reads a growing record from its start, at its own pace.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    place: Place,
    waiter: Waiter,
}

/// What a follower finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// Bytes that it has not passed, as far as they lie in one piece.
    Bytes(&'a [u8]),
    /// It has passed all of the record.
    Done,
    /// It has passed all that there is; the rest will not come.
    Aborted,
}

/// What a follower finds, without the bytes.
#[derive(Clone, Copy, Debug)]
enum Found {
    Bytes(usize),
    Done,
    Aborted,
}

/// What producer and followers share; `first` never changes, and no chunk is freed before this.
#[derive(Debug)]
struct Shared {
    first: NonNull<Chunk>,
    waiters: Waiters,
}

// SAFETY: chunks may be read by any thread, and are freed by the one that drops the last count.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the producer and all followers hold a count, so nobody is left in the chain.
        unsafe { free_chain(self.first) };
    }
}

impl Producer {
    /// Appends and publishes.
    pub fn append(&mut self, bytes: &[u8]) {
        let mut taken_bytes = self.tail.append(bytes);
        while taken_bytes < bytes.len() {
            self.last_bytes = self.last_bytes.saturating_mul(2).min(self.chunk_bytes_max);
            self.held_bytes += self.last_bytes;
            taken_bytes += self.tail.extend(Chunk::new(self.last_bytes), &bytes[taken_bytes..]);
        }
        self.shared.waiters.wake_all();
    }

    /// All has been appended.
    pub fn finish(mut self) {
        self.end(Mark::Ended);
    }

    /// The memory of all chunks so far.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn end(&mut self, mark: Mark) {
        if self.tail.is_open() {
            self.tail.end(mark);
            self.shared.waiters.wake_all();
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.end(Mark::Aborted);
    }
}

impl Growing {
    /// One more follower. It may join at any time, also after the end.
    #[must_use]
    pub fn follow(&self) -> Follower {
        let shared = Arc::clone(&self.shared);
        // SAFETY: the follower's count keeps all chunks.
        let place = unsafe { Place::new(shared.first) };
        Follower { shared, place, waiter: Waiter::new() }
    }
}

impl Follower {
    /// What comes next; nothing yet: `None`. It comes again until it is passed.
    pub fn peek(&mut self) -> Option<Peek<'_>> {
        let found = find(&mut self.place)?;
        Some(show(&self.place, found))
    }

    /// Passes `count` bytes.
    ///
    /// # Panics
    /// If that is more than the last look has shown.
    pub fn advance(&mut self, count: usize) {
        self.place.advance(count);
    }

    /// As [`peek`](Follower::peek); the task is woken when there may be something.
    pub fn poll_peek(&mut self, cx: &Context<'_>) -> Poll<Peek<'_>> {
        let Follower { shared, place, waiter } = self;
        let found = waiter.poll(&shared.waiters, cx, || find(place));
        found.map(|found| show(place, found))
    }

    /// As [`peek`](Follower::peek); the thread sleeps until there is something.
    pub fn wait_peek(&mut self) -> Peek<'_> {
        let Follower { shared, place, waiter } = self;
        let found = waiter.wait(&shared.waiters, || find(place));
        show(place, found)
    }
}

/// Goes over ends of chunks until there is something for the follower.
fn find(place: &mut Place) -> Option<Found> {
    loop {
        match place.ahead()? {
            Ahead::Bytes { count, .. } => return Some(Found::Bytes(count)),
            Ahead::Ended => return Some(Found::Done),
            Ahead::Aborted => return Some(Found::Aborted),
            Ahead::Chunk => {}
        }
        let Next::Chunk(next) = place.next() else {
            return None;
        };
        place.pass_to(next);
    }
}

fn show(place: &Place, found: Found) -> Peek<'_> {
    match found {
        Found::Bytes(count) => Peek::Bytes(place.bytes(count)),
        Found::Done => Peek::Done,
        Found::Aborted => Peek::Aborted,
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.waiter.leave(&self.shared.waiters);
    }
}
