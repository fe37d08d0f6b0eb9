//! The mutex of models: loom's mutex behind the interface of `mutex.rs`. It reports no events.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use loom::sync as raw;

use crate::class::LockClass;

/// A mutex that belongs to a [`LockClass`].
#[derive(Debug)]
pub struct Mutex<T> {
    class: LockClass,
    inner: raw::Mutex<T>,
}

/// Access to the value of a [`Mutex`]; dropping it releases the mutex.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: raw::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub fn new(class: LockClass, value: T) -> Mutex<T> {
        Mutex { class, inner: raw::Mutex::new(value) }
    }

    /// The class of this lock.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// Waits until this thread has the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().ok().map(|inner| MutexGuard { inner })
    }

    /// Takes the mutex if it is free. It never waits, since no time passes in a model.
    pub fn try_lock_for(&self, _wait_max: Duration) -> Option<MutexGuard<'_, T>> {
        self.try_lock()
    }

    /// The value. The exclusive borrow of the mutex makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
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
