//! What threads need to share memory rightly, below everything that shares any.
//!
//! Protocols are written against [`atomic`], which is std's or loom's, and against [`Words`], an
//! array of words that may lie in mapped memory. Each ordering that a protocol stands on has a
//! name ([`atomic::order`]), and a model that fails when just this one is weakened: the table is
//! `docs/why/orderings.md`.
//!
//! Invariants:
//! - Every lock between threads is made here and has a [`LockClass`]. (The lock between processes
//!   lies in a region: `forebay_shm::RobustLock`.)
//! - What happens at these locks can be recorded: [`profile`].
//! - Nothing here knows of HTTP, of caches or of files.
#![deny(missing_docs)]

pub mod atomic;
mod barrier;
pub mod bravo;
mod class;
pub mod leases;
mod lock;
#[cfg(loom)]
pub mod model;
pub mod pins;
#[allow(missing_docs)]
pub mod profile;
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
