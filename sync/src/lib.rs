//! What threads need to share memory rightly, below everything that shares any.
//!
//! Protocols are written against [`atomic`], which is std's or loom's, and against [`Words`], an
//! array of words that may lie in mapped memory. Each ordering that a protocol stands on has a
//! name ([`atomic::order`]), and a model that fails when just this one is weakened: the table is
//! `docs/why/orderings.md`.
//!
//! Invariants:
//! - Every lock of Forebay is made here and has a [`LockClass`].
//! - Nothing here knows of HTTP, of caches or of files.
#![deny(missing_docs)]

pub mod atomic;
mod barrier;
mod class;
mod lock;
#[cfg(loom)]
pub mod model;
pub mod publish;
mod waiters;
mod words;

pub use barrier::Barrier;
pub use class::LockClass;
pub use lock::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use lock::{RwLock, RwLockReadGuard, RwLockWriteGuard, observe};
pub use words::{Words, boxed_words};
