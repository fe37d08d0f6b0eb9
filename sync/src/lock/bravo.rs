//! A reader-writer lock with the interface of the reader-biased one.

use crate::class::LockClass;

/// A reader-writer lock that belongs to a [`LockClass`].
#[derive(Debug)]
pub struct BravoRwLock<T> {
    class: LockClass,
    inner: parking_lot::RwLock<T>,
}

impl<T> BravoRwLock<T> {
    /// An open lock around `value`.
    pub const fn new(class: LockClass, value: T) -> BravoRwLock<T> {
        BravoRwLock { class, inner: parking_lot::RwLock::new(value) }
    }

    /// What kind of lock this is.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// Waits until nobody writes.
    #[track_caller]
    pub fn read(&self) -> parking_lot::RwLockReadGuard<'_, T> {
        self.inner.read()
    }

    /// Waits until the lock is this thread's alone.
    #[track_caller]
    pub fn write(&self) -> parking_lot::RwLockWriteGuard<'_, T> {
        self.inner.write()
    }
}
