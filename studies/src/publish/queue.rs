//! The state that the sender and the receiver of a queue of messages share.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `passed_count` | receiver, when it has passed a chunk | sender that looks for room |
//! | `is_deserted` | receiver, when it is dropped | sender that looks for room |
//! | `first` | receiver, when it is dropped | the side that is dropped last |
//! | `readable` | the receiver waits there: see [`Waiters`] | the sender wakes the receiver |
//! | `room` | the sender waits there: see [`Waiters`] | the receiver wakes the sender |

use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::chunk::{Chunk, free_chain};
use super::receiver::Receiver;
use super::sender::Sender;
use super::store::{Chunks, Heap};
use super::tail::Tail;
use crate::waiters::Waiters;
use forebay_sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Relaxed};

/// The smallest limit of a queue's chunks: one chunk that has been read but is still needed for its
/// link, and one chunk that is being written.
const CHUNK_COUNT_MIN: u64 = 2;

/// The limits of a queue's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a chunk. A message occupies at least one chunk. A packet that begins at the
    /// start of a chunk and is no longer than a chunk lies in one piece.
    pub chunk_bytes: usize,
    /// The largest total size of the queue's chunks. Two chunks are always allowed.
    pub bytes_max: usize,
}

/// Makes a queue of messages whose chunks come from the heap. Dropping the sender closes the queue.
#[must_use]
pub fn queue(limits: Limits) -> (Sender, Receiver) {
    let heap = Heap { chunk_bytes: limits.chunk_bytes };
    queue_with(limits.bytes_max / limits.chunk_bytes.max(1), heap, heap)
}

/// Makes a queue of messages with at most `chunk_count_max` chunks, but at least two. The sender
/// takes chunks from `source`, and the receiver gives them to `sink`.
#[must_use]
pub fn queue_with<S: Chunks, R: Chunks>(
    chunk_count_max: usize,
    mut source: S,
    sink: R,
) -> (Sender<S>, Receiver<R>) {
    let tail = Tail::stub(source.take());
    let first = tail.chunk();
    let shared = Arc::new(QueueState {
        readable: Waiters::new(),
        from_receiver: ReceiverLine {
            room: Waiters::new(),
            passed_count: AtomicU64::new(0),
            is_deserted: AtomicBool::new(false),
            first: AtomicPtr::new(ptr::null_mut()),
        },
        chunk_count_max: (chunk_count_max as u64).max(CHUNK_COUNT_MIN),
    });
    let receiver = Receiver::new(Arc::clone(&shared), first, sink);
    (Sender::new(shared, tail, source), receiver)
}

/// The state that sender and receiver share. The side that is dropped last frees this state and all
/// remaining chunks.
#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) readable: Waiters,
    from_receiver: ReceiverLine,
    chunk_count_max: u64,
}

/// The words that the receiver writes, on other cache lines than the words that the sender reads
/// for every message.
#[derive(Debug)]
#[repr(align(128))]
struct ReceiverLine {
    room: Waiters,
    passed_count: AtomicU64,
    is_deserted: AtomicBool,
    first: AtomicPtr<Chunk>,
}

/// The answer to a sender that needs another chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderRoom {
    Free,
    Deserted,
}

impl QueueState {
    /// Whether the sender may take another chunk after `taken_count` chunks. `None` if the queue is
    /// full.
    ///
    /// The loads are relaxed because they only grant permission. A recycled chunk reaches the
    /// sender through the sink and the source, which order its old use before its new use.
    pub(super) fn find_room(&self, taken_count: u64) -> Option<SenderRoom> {
        let from = &self.from_receiver;
        if from.is_deserted.load(Relaxed) {
            return Some(SenderRoom::Deserted);
        }
        let held_count = taken_count - from.passed_count.load(Relaxed);
        (held_count < self.chunk_count_max).then_some(SenderRoom::Free)
    }

    pub(super) fn room(&self) -> &Waiters {
        &self.from_receiver.room
    }

    /// Records that the receiver has passed `passed_count` chunks, and wakes the sender.
    pub(super) fn make_room(&self, passed_count: u64) {
        self.from_receiver.passed_count.store(passed_count, Relaxed);
        self.from_receiver.room.wake_all();
    }

    /// Records that the receiver is dropped. `first` is the chunk that the receiver was reading.
    pub(super) fn desert(&self, first: NonNull<Chunk>) {
        self.from_receiver.first.store(first.as_ptr(), Relaxed);
        self.from_receiver.is_deserted.store(true, Relaxed);
        self.from_receiver.room.wake_all();
    }
}

impl Drop for QueueState {
    fn drop(&mut self) {
        if let Some(first) = NonNull::new(self.from_receiver.first.load(Relaxed)) {
            // SAFETY: both sides are dropped, and the last count of the `Arc` orders their accesses
            // before this one. `first` is the chunk that the receiver was reading.
            unsafe { free_chain(first) };
        }
    }
}
