//! Memory shared by threads: atomics, locks with classes and a profiler, pins and leases.
//!
//! Protocols are written against [`atomic`], which is std's or loom's, and against [`Words`], an
//! array of words that may lie in mapped memory. Each ordering that a protocol needs has a name
//! ([`atomic::order`]) and a model that fails when only this ordering is weakened:
//! `docs/why/orderings.md` has the table.
//!
//! Invariants:
//! - Every lock between threads is made here and has a [`LockClass`]. (The lock between processes
//!   lies in a region: `forebay_shm::RobustLock`.)
//! - The profiler can record each of these locks: [`profile`].
//! - Nothing here knows HTTP, caches or files.
#![deny(missing_docs)]

pub mod atomic;
mod barrier;
pub mod bravo;
mod class;
pub mod concurrency;
pub mod leases;
mod lock;
#[cfg(loom)]
pub mod model;
pub mod pins;
#[allow(missing_docs)]
pub mod profile;
pub mod rates;
mod rows;
mod thread_index;
mod words;

pub use barrier::Barrier;
pub use class::LockClass;
#[cfg(not(loom))]
pub use lock::{BravoRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard, observe, watch};
pub use lock::{Mutex, MutexGuard};
pub use rows::{PinHolder, TableError};
pub use thread_index::{THREAD_INDEX_COUNT, thread_index};
pub use words::{LINE_WORDS, LineWords, Words, boxed_words};
