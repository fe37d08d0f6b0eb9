//! Mutual exclusion with a class; parking_lot's mutex inside, loom's in a model.

use std::ops::{Deref, DerefMut};

use crate::class::LockClass;

#[cfg(loom)]
use loom::sync as raw;

/// A mutex that belongs to a [`LockClass`].
#[derive(Debug)]
pub struct Mutex<T> {
    class: LockClass,
    #[cfg(not(loom))]
    inner: parking_lot::Mutex<T>,
    #[cfg(loom)]
    inner: raw::Mutex<T>,
}

/// The right to use what a [`Mutex`] protects, until it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    #[cfg(not(loom))]
    inner: parking_lot::MutexGuard<'a, T>,
    #[cfg(loom)]
    inner: raw::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// An open mutex around `value`.
    #[cfg(not(loom))]
    pub const fn new(class: LockClass, value: T) -> Mutex<T> {
        Mutex { class, inner: parking_lot::Mutex::new(value) }
    }

    /// An open mutex around `value`.
    #[cfg(loom)]
    pub fn new(class: LockClass, value: T) -> Mutex<T> {
        Mutex { class, inner: raw::Mutex::new(value) }
    }

    /// What kind of lock this is.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// Waits until the mutex is this thread's.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(not(loom))]
        let inner = self.inner.lock();
        #[cfg(loom)]
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard { inner }
    }

    /// The mutex, if nobody has it now.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(loom))]
        let inner = self.inner.try_lock();
        #[cfg(loom)]
        let inner = self.inner.try_lock().ok();
        inner.map(|inner| MutexGuard { inner })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
