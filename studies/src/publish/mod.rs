//! Bytes that one thread appends while others read them, with no lock on either side.
//!
//! The bytes lie in a chain of chunks. The producer copies bytes into the last chunk and then
//! publishes the new length. If the last chunk is full, the producer links another chunk to it.
//! Chunks never move, and published bytes are never written again, so a reader may hold a slice of
//! them while the producer appends.
//!
//! Two structures use this chain:
//! - [`queue`](fn@queue): messages for one reader, which frees each chunk that it has passed.
//! - [`growing`](fn@growing): one record for any number of followers, each of which reads the whole
//!   record at its own pace. No chunk is freed before the producer and all followers are dropped.
//!
//! Invariants:
//! - A chunk contains bytes of one message. The published length and the end of the message are in
//!   one word, so that a reader sees both or neither, and no end is lost between two reads.
//! - Only the producer links to the last chunk of a chain. A reader that has read the whole last
//!   chunk keeps this chunk, and so never competes with the producer for it.
//! - A dropped producer aborts the message or record that it has not ended.
//!
//! Waiting receivers, senders and followers are on a stack of waiters (`waiters.rs`). The
//! counter-example in `racy_model.rs` is the usual repair of a queue behind a lock. `README.md`
//! compares this repair with the lock-free queue.

mod chunk;
mod growing;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod place;
mod queue;
#[cfg(all(test, loom))]
mod racy_model;
mod receiver;
mod sender;
mod store;
mod tail;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use chunk::Chunk;
pub use growing::{GrowingRecord, Peek, Producer, RecordFollower, growing};
pub use queue::{Limits, queue, queue_with};
pub use receiver::{Read, Receiver};
pub use sender::{Closed, Sender};
pub use store::{Chunks, Heap, Recycled};
