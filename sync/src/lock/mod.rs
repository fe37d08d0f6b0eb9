//! Locks with a class: a mutex and a reader-writer lock, both without poisoning.
//!
//! Invariants:
//! - While nobody observes, a lock costs its raw lock and one predictable branch, once when it is
//!   taken and once when it is left.
//! - A guard stays on its thread.
//! - A reader that waits for another read lock of the same lock may wait for ever if a writer came
//!   between: nobody reads the same lock twice at a time. A read lock does not become a write lock
//!   either; two threads that try would wait for each other.

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

/// A reader-writer lock for what is read much more often than written: its readers write no memory
/// that other readers write.
#[cfg(not(loom))]
pub type BravoRwLock<T> = RwLock<T, crate::bravo::Bravo<parking_lot::RawRwLock>>;
