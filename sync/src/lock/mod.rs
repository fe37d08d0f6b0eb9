//! Locks with a class: a mutex and a reader-writer lock, both without poisoning.
//!
//! Invariants:
//! - While no observer and no profile is on, a lock adds to the cost of its raw lock two relaxed
//!   loads and a predictable branch at an acquisition, and a predictable branch at a release.
//! - A guard stays on its thread.
//! - A thread that holds a read lock must not take a read lock of the same lock again: if a writer
//!   waits at that moment, the thread may wait for ever.
//! - A read lock cannot become a write lock: two threads that tried would wait for each other.

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

/// A reader-writer lock for data that is read much more often than written: while no writer comes,
/// readers write no memory that other readers write.
#[cfg(not(loom))]
pub type BravoRwLock<T> = RwLock<T, crate::bravo::Bravo<parking_lot::RawRwLock>>;
