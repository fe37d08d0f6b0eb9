//! The store: keys to records, in memory, bounded, shared by all workers.
//!
//! It knows no HTTP: a key is bytes, a head is bytes, a body is fragments. It has no clock (time
//! is an argument, in monotonic milliseconds) and no runtime (who waits leaves a `Waker`).
//!
//! Three parts that know nothing of each other: `segment` has the records, `index` finds them by
//! their keys, and `flight` has the responses that are arriving, which many requests may follow.
//!
//! Invariants:
//! - Unsafe code is in `segment/` and `index/` and nowhere else.
//!
//! Under `--cfg loom` only the protocols that threads share without a lock are compiled.
#![deny(unsafe_code)]

#[cfg(not(loom))]
#[expect(dead_code, unused_imports, reason = "the store in a region is not whole yet")]
mod flight;
#[doc(hidden)] // For measurements and stress tests, until the store in a region is whole.
pub mod index;
#[expect(dead_code, unused_imports, reason = "the store in a region is not whole yet")]
mod segment;

#[cfg(not(loom))]
pub use flight::{Base, Follower, NobodyListens, Outcome, ReadEvent, Reader, Refused, Renewed};
