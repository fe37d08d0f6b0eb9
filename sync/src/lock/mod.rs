//! Locks with a class: a mutex and a reader-writer lock, both without poisoning.
//!
//! Invariants:
//! - While there is no observer and no profile is on, a lock costs its raw lock plus one
//!   predictable branch at each acquisition and each release.
//! - A guard stays on its thread.
//! - No thread takes a read lock of the same lock twice at a time: with a writer between the two it
//!   may wait for ever. A read lock cannot become a write lock either: two threads that tried would
//!   wait for each other.

#[cfg(loom)]
mod model_mutex;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
pub mod observe;
#[cfg(not(loom))]
mod rwlock;
#[cfg(not(loom))]
pub mod watch;

#[cfg(loom)]
pub use model_mutex::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use mutex::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A reader-writer lock for data that is read much more often than written: readers write no memory
/// that other readers write.
#[cfg(not(loom))]
pub type BravoRwLock<T> = RwLock<T, crate::bravo::Bravo<parking_lot::RawRwLock>>;
