//! The side of a queue that appends.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::chunk::ChunkMark;
use super::queue::{QueueState, SenderRoom};
use super::store::{Chunks, Heap};
use super::tail::Tail;
use crate::waiters::Waiter;

/// The sender of a queue, which appends messages. Dropping the sender aborts the open message and
/// closes the queue.
#[derive(Debug)]
pub struct Sender<S: Chunks = Heap> {
    shared: Arc<QueueState>,
    tail: Tail,
    source: S,
    /// The number of chunks that were taken from the source, the first stub included.
    taken_count: u64,
    waiter: Waiter,
}

/// The error of an append to a queue whose receiver was dropped: no further bytes will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the queue is closed: its receiver was dropped")
    }
}

impl std::error::Error for Closed {}

impl<S: Chunks> Sender<S> {
    pub(super) fn new(shared: Arc<QueueState>, tail: Tail, source: S) -> Sender<S> {
        Sender { shared, tail, source, taken_count: 1, waiter: Waiter::new() }
    }

    /// Appends to the open message, or begins a message. Returns the number of bytes that were
    /// appended, which is less than `bytes.len()` if the queue is full.
    ///
    /// # Errors
    /// The receiver was dropped. This is noticed only when another chunk is needed.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        let taken = self.append_what_fits(bytes);
        self.shared.readable.wake_all();
        taken
    }

    fn append_what_fits(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        let mut taken_bytes = self.tail.append(bytes);
        while taken_bytes < bytes.len() {
            match self.shared.find_room(self.taken_count) {
                None => break,
                Some(SenderRoom::Deserted) => return Err(Closed),
                Some(SenderRoom::Free) => {}
            }
            self.taken_count += 1;
            taken_bytes += self.tail.extend(self.source.take(), &bytes[taken_bytes..]);
        }
        Ok(taken_bytes)
    }

    /// Ends the open message. Does nothing if no message is open.
    pub fn end_message(&mut self) {
        self.end(ChunkMark::Ended);
    }

    /// Aborts the open message. The receiver learns of it after the appended bytes.
    pub fn abort_message(&mut self) {
        self.end(ChunkMark::Aborted);
    }

    fn end(&mut self, mark: ChunkMark) {
        if self.tail.is_open() {
            self.tail.end(mark);
            self.shared.readable.wake_all();
        }
    }

    /// Whether there is room for at least one byte. If there is not, the task is woken when there
    /// may be.
    ///
    /// # Errors
    /// The receiver was dropped.
    pub fn poll_room(&mut self, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let Sender { shared, tail, taken_count, waiter, .. } = self;
        waiter.poll(shared.room(), cx, || find_room(shared, tail, *taken_count))
    }

    /// Sleeps until there is room for at least one byte.
    ///
    /// # Errors
    /// The receiver was dropped.
    pub fn wait_for_room(&mut self) -> Result<(), Closed> {
        let Sender { shared, tail, taken_count, waiter, .. } = self;
        waiter.wait(shared.room(), || find_room(shared, tail, *taken_count))
    }
}

fn find_room(shared: &QueueState, tail: &Tail, taken_count: u64) -> Option<Result<(), Closed>> {
    match shared.find_room(taken_count) {
        Some(SenderRoom::Deserted) => Some(Err(Closed)),
        Some(SenderRoom::Free) => Some(Ok(())),
        None => (!tail.is_full()).then_some(Ok(())),
    }
}

impl<S: Chunks> Drop for Sender<S> {
    fn drop(&mut self) {
        self.tail.end(ChunkMark::Aborted);
        self.tail.close();
        self.shared.readable.wake_all();
        self.waiter.leave(self.shared.room());
    }
}
