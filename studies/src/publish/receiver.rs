//! The side of a queue that reads.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::chunk::{Chunk, Next};
use super::place::{Ahead, Place};
use super::queue::Shared;
use super::store::{Chunks, Heap};
use crate::waiters::Waiter;

/// Reads the messages of a queue, in whatever parts it likes.
#[derive(Debug)]
pub struct Receiver<S: Chunks = Heap> {
    shared: Arc<Shared>,
    front: Front<S>,
    waiter: Waiter,
}

/// What a receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// Bytes of the message at the head, as far as they lie in one piece.
    Part {
        /// Empty only if the message has ended since all of it was read, or if no byte was asked
        /// for.
        bytes: &'a [u8],
        /// Does the message end with them?
        is_end: bool,
    },
    /// The sender has given up the message whose bytes were read last.
    Aborted,
    /// The sender is gone, and all has been read.
    Closed,
}

/// The head of the queue.
#[derive(Debug)]
struct Front<S> {
    place: Place,
    /// The message of this chunk has been read to its end: the chunk is a stub.
    is_between: bool,
    sink: S,
    /// Chunks that have been given to the sink.
    passed_count: u64,
}

/// What comes next for the receiver, without its bytes.
#[derive(Clone, Copy, Debug)]
enum Found {
    Bytes { count: usize, is_end: bool },
    Ended,
    Aborted,
    Closed,
}

impl<S: Chunks> Receiver<S> {
    /// # Invariant
    /// `first` is the stub of a chain that nobody else reads.
    pub(super) fn new(shared: Arc<Shared>, first: NonNull<Chunk>, sink: S) -> Receiver<S> {
        // SAFETY: this receiver alone frees chunks, and only those that it has passed.
        let place = unsafe { Place::new(first) };
        let front = Front { place, is_between: true, sink, passed_count: 0 };
        Receiver { shared, front, waiter: Waiter::new() }
    }

    /// Takes at most `bytes_max` bytes of the message at the head; nothing there yet: `None`.
    pub fn read(&mut self, bytes_max: usize) -> Option<Read<'_>> {
        let found = self.front.find(&self.shared)?;
        Some(self.front.take(found, bytes_max))
    }

    /// The same; the task is woken when there may be something.
    pub fn poll_read(&mut self, bytes_max: usize, cx: &Context<'_>) -> Poll<Read<'_>> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.poll(&shared.readable, cx, || front.find(shared));
        found.map(|found| front.take(found, bytes_max))
    }

    /// The same; the thread sleeps until there is something.
    pub fn wait_read(&mut self, bytes_max: usize) -> Read<'_> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.wait(&shared.readable, || front.find(shared));
        front.take(found, bytes_max)
    }

    /// Copies what there is of the message at the head into `packet`, over the ends of chunks;
    /// nothing there yet: `None`.
    pub fn fill<'a>(&mut self, packet: &'a mut [u8]) -> Option<Read<'a>> {
        let found = self.front.find(&self.shared)?;
        Some(self.front.fill(found, packet, &self.shared))
    }

    /// The same; the task is woken when there may be something.
    pub fn poll_fill<'a>(&mut self, packet: &'a mut [u8], cx: &Context<'_>) -> Poll<Read<'a>> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.poll(&shared.readable, cx, || front.find(shared));
        found.map(|found| front.fill(found, packet, shared))
    }

    /// The same; the thread sleeps until there is something.
    pub fn wait_fill<'a>(&mut self, packet: &'a mut [u8]) -> Read<'a> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.wait(&shared.readable, || front.find(shared));
        front.fill(found, packet, shared)
    }
}

impl<S: Chunks> Front<S> {
    /// What there is for the reader; tells the sender once of all chunks passed on the way.
    fn find(&mut self, shared: &Shared) -> Option<Found> {
        let passed_count = self.passed_count;
        let found = self.go_on();
        if self.passed_count != passed_count {
            shared.make_room(self.passed_count);
        }
        found
    }

    /// Goes over ends of chunks until there is something for the reader.
    fn go_on(&mut self) -> Option<Found> {
        loop {
            if !self.is_between {
                match self.place.ahead()? {
                    Ahead::Bytes { count, is_end } => return Some(Found::Bytes { count, is_end }),
                    Ahead::Ended => return Some(Found::Ended),
                    Ahead::Aborted => return Some(Found::Aborted),
                    Ahead::Chunk => {}
                }
            }
            match self.place.next() {
                Next::None => return None,
                Next::Closed => return Some(Found::Closed),
                Next::Chunk(next) => self.pass_to(next),
            }
        }
    }

    fn pass_to(&mut self, next: NonNull<Chunk>) {
        let passed = self.place.pass_to(next);
        self.is_between = false;
        // SAFETY: chunks come from boxes, the sender has gone on to the next, and slices of this
        // one ended with the borrow of the receiver.
        self.sink.give(unsafe { Box::from_raw(passed.as_ptr()) });
        self.passed_count += 1;
    }

    fn take(&mut self, found: Found, bytes_max: usize) -> Read<'_> {
        match found {
            Found::Bytes { count, is_end } => {
                let taken_count = count.min(bytes_max);
                self.is_between = is_end && taken_count == count;
                let is_end = self.is_between;
                Read::Part { bytes: self.place.take(taken_count), is_end }
            }
            Found::Ended => {
                self.is_between = true;
                Read::Part { bytes: &[], is_end: true }
            }
            Found::Aborted => {
                self.is_between = true;
                Read::Aborted
            }
            Found::Closed => Read::Closed,
        }
    }
}

impl<S: Chunks> Front<S> {
    /// Takes bytes until the packet is full, the message ends or nothing more is there.
    fn fill<'a>(&mut self, first: Found, packet: &'a mut [u8], shared: &Shared) -> Read<'a> {
        let mut found = Some(first);
        let mut length = 0;
        let mut is_end = false;
        while let Some(next @ (Found::Bytes { .. } | Found::Ended)) = found {
            let room = &mut packet[length..];
            if let Read::Part { bytes, is_end: ends_here } = self.take(next, room.len()) {
                room[..bytes.len()].copy_from_slice(bytes);
                length += bytes.len();
                is_end = ends_here;
            }
            if is_end || length == packet.len() {
                break;
            }
            found = self.find(shared);
        }
        match first {
            Found::Bytes { .. } | Found::Ended => Read::Part { bytes: &packet[..length], is_end },
            Found::Closed => Read::Closed,
            Found::Aborted => {
                self.is_between = true;
                Read::Aborted
            }
        }
    }
}

impl<S: Chunks> Drop for Receiver<S> {
    fn drop(&mut self) {
        self.shared.desert(self.front.place.chunk_pointer());
        self.waiter.leave(&self.shared.readable);
    }
}
