//! The side of a queue that reads.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::chunk::{Chunk, ChunkLink};
use super::place::{NextItem, ReadPosition};
use super::queue::QueueState;
use super::store::{Chunks, Heap};
use crate::waiters::Waiter;

/// Reads the messages of a queue in parts of any size.
#[derive(Debug)]
pub struct Receiver<S: Chunks = Heap> {
    shared: Arc<QueueState>,
    front: QueueFront<S>,
    waiter: Waiter,
}

/// The bytes or the end that a receiver sees next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The next bytes of the message at the head of the queue.
    Part {
        /// The bytes. They are empty only if no byte was requested, or if the message ended after
        /// all its bytes had been read.
        bytes: &'a [u8],
        /// Whether the message ends with these bytes.
        is_end: bool,
    },
    /// The sender has aborted the message whose bytes were read last.
    Aborted,
    /// The sender is dropped, and all messages have been read.
    Closed,
}

/// The head of the queue.
#[derive(Debug)]
struct QueueFront<S> {
    place: ReadPosition,
    /// Whether the message of the current chunk has been read to its end, which makes the chunk a
    /// stub.
    is_between: bool,
    sink: S,
    /// The number of chunks that were given to the sink.
    passed_count: u64,
}

/// A [`Read`] without its bytes.
#[derive(Clone, Copy, Debug)]
enum ReadKind {
    Bytes { count: usize, is_end: bool },
    Ended,
    Aborted,
    Closed,
}

impl<S: Chunks> Receiver<S> {
    /// Makes a receiver. `first` is the stub of a chain that has no other reader.
    pub(super) fn new(shared: Arc<QueueState>, first: NonNull<Chunk>, sink: S) -> Receiver<S> {
        // SAFETY: only this receiver frees chunks, and only chunks that it has passed.
        let place = unsafe { ReadPosition::new(first) };
        let front = QueueFront { place, is_between: true, sink, passed_count: 0 };
        Receiver { shared, front, waiter: Waiter::new() }
    }

    /// Takes at most `bytes_max` bytes of the message at the head, up to the end of a chunk at
    /// most. Returns `None` if there is nothing to read yet.
    pub fn read(&mut self, bytes_max: usize) -> Option<Read<'_>> {
        let found = self.front.find(&self.shared)?;
        Some(self.front.take(found, bytes_max))
    }

    /// Does the same as [`read`](Receiver::read). If there is nothing yet, the task is woken when
    /// there may be bytes or an end.
    pub fn poll_read(&mut self, bytes_max: usize, cx: &Context<'_>) -> Poll<Read<'_>> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.poll(&shared.readable, cx, || front.find(shared));
        found.map(|found| front.take(found, bytes_max))
    }

    /// Does the same as [`read`](Receiver::read), but the thread sleeps until there are bytes or an
    /// end.
    pub fn wait_read(&mut self, bytes_max: usize) -> Read<'_> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.wait(&shared.readable, || front.find(shared));
        front.take(found, bytes_max)
    }

    /// Fills `packet` with bytes of the message at the head, also across the ends of chunks, until
    /// the packet is full, the message ends or no further bytes are published. Returns `None` if
    /// there is nothing to read yet.
    pub fn fill<'a>(&mut self, packet: &'a mut [u8]) -> Option<Read<'a>> {
        let found = self.front.find(&self.shared)?;
        Some(self.front.fill(found, packet, &self.shared))
    }

    /// Does the same as [`fill`](Receiver::fill). If there is nothing yet, the task is woken when
    /// there may be bytes or an end.
    pub fn poll_fill<'a>(&mut self, packet: &'a mut [u8], cx: &Context<'_>) -> Poll<Read<'a>> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.poll(&shared.readable, cx, || front.find(shared));
        found.map(|found| front.fill(found, packet, shared))
    }

    /// Does the same as [`fill`](Receiver::fill), but the thread sleeps until there are bytes or an
    /// end.
    pub fn wait_fill<'a>(&mut self, packet: &'a mut [u8]) -> Read<'a> {
        let Receiver { shared, front, waiter } = self;
        let found = waiter.wait(&shared.readable, || front.find(shared));
        front.fill(found, packet, shared)
    }
}

impl<S: Chunks> QueueFront<S> {
    /// Finds the next item. If chunks were passed on the way, tells the sender once about all of
    /// them.
    fn find(&mut self, shared: &QueueState) -> Option<ReadKind> {
        let passed_count = self.passed_count;
        let found = self.go_on();
        if self.passed_count != passed_count {
            shared.make_room(self.passed_count);
        }
        found
    }

    /// Advances over the ends of chunks to the next item.
    fn go_on(&mut self) -> Option<ReadKind> {
        loop {
            if !self.is_between {
                match self.place.ahead()? {
                    NextItem::Bytes { count, is_end } => {
                        return Some(ReadKind::Bytes { count, is_end });
                    }
                    NextItem::Ended => return Some(ReadKind::Ended),
                    NextItem::Aborted => return Some(ReadKind::Aborted),
                    NextItem::Chunk => {}
                }
            }
            match self.place.next() {
                ChunkLink::None => return None,
                ChunkLink::Closed => return Some(ReadKind::Closed),
                ChunkLink::Chunk(next) => self.pass_to(next),
            }
        }
    }

    fn pass_to(&mut self, next: NonNull<Chunk>) {
        let passed = self.place.pass_to(next);
        self.is_between = false;
        // SAFETY: chunks come from boxes, the sender has moved on to the next chunk, and slices of
        // this chunk ended with the borrow of the receiver.
        self.sink.give(unsafe { Box::from_raw(passed.as_ptr()) });
        self.passed_count += 1;
    }

    fn take(&mut self, found: ReadKind, bytes_max: usize) -> Read<'_> {
        match found {
            ReadKind::Bytes { count, is_end } => {
                let taken_count = count.min(bytes_max);
                self.is_between = is_end && taken_count == count;
                let is_end = self.is_between;
                Read::Part { bytes: self.place.take(taken_count), is_end }
            }
            ReadKind::Ended => {
                self.is_between = true;
                Read::Part { bytes: &[], is_end: true }
            }
            ReadKind::Aborted => {
                self.is_between = true;
                Read::Aborted
            }
            ReadKind::Closed => Read::Closed,
        }
    }
}

impl<S: Chunks> QueueFront<S> {
    /// Copies bytes until the packet is full, the message ends or no further bytes are published.
    fn fill<'a>(&mut self, first: ReadKind, packet: &'a mut [u8], shared: &QueueState) -> Read<'a> {
        let mut found = Some(first);
        let mut length = 0;
        let mut is_end = false;
        while let Some(next @ (ReadKind::Bytes { .. } | ReadKind::Ended)) = found {
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
            ReadKind::Bytes { .. } | ReadKind::Ended => {
                Read::Part { bytes: &packet[..length], is_end }
            }
            ReadKind::Closed => Read::Closed,
            ReadKind::Aborted => {
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
