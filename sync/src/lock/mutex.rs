//! Mutual exclusion with a class.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;

use lock_api::GuardNoSend;
use parking_lot::RawMutex;

use super::observe::{LockMode, is_on};
use super::watch::{AcquireStep, Watch, WatchedHold};
use crate::class::LockClass;

/// A mutex that belongs to a [`LockClass`].
///
/// The mutex is not poisoned: a thread that panics while it holds the mutex leaves the value as it
/// is.
#[derive(Debug)]
pub struct Mutex<T> {
    watch: Watch,
    inner: lock_api::Mutex<RawMutex, T>,
}

/// Access to the value of a [`Mutex`]; dropping it releases the mutex.
///
/// A guard cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// fn send(_: impl Send) {}
/// let mutex = forebay_sync::Mutex::new(forebay_sync::LockClass::Test, 0);
/// send(mutex.lock());
/// ```
#[derive(Debug)]
#[must_use = "the mutex is released at once"]
pub struct MutexGuard<'a, T> {
    // Fields are dropped in this order: the observer is called while the mutex is still held.
    _hold: WatchedHold<'a>,
    inner: lock_api::MutexGuard<'a, RawMutex, T>,
    _stays: PhantomData<GuardNoSend>,
}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub const fn new(class: LockClass, value: T) -> Mutex<T> {
        Mutex { watch: Watch::new(class), inner: lock_api::Mutex::new(value) }
    }

    /// The class of this lock.
    pub fn class(&self) -> LockClass {
        self.watch.class()
    }

    /// Waits until this thread has the mutex.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Exclusive, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_lock(),
                    AcquireStep::Wait => Some(self.inner.lock()),
                };
                inner.is_some()
            });
            if let Some(inner) = inner {
                return MutexGuard::new(hold, inner);
            }
        }
        MutexGuard::new(WatchedHold::SILENT, self.inner.lock())
    }

    /// Takes the mutex if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.try_acquire((LockMode::Exclusive, Location::caller()), || {
                inner = self.inner.try_lock();
                inner.is_some()
            });
            return inner.map(|inner| MutexGuard::new(hold, inner));
        }
        Some(MutexGuard::new(WatchedHold::SILENT, self.inner.try_lock()?))
    }

    /// Takes the mutex, waiting for at most `wait_max`.
    #[inline]
    #[track_caller]
    pub fn try_lock_for(&self, wait_max: Duration) -> Option<MutexGuard<'_, T>> {
        let wait = || self.inner.try_lock_for(wait_max);
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Exclusive, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_lock(),
                    AcquireStep::Wait => wait(),
                };
                inner.is_some()
            });
            return inner.map(|inner| MutexGuard::new(hold, inner));
        }
        Some(MutexGuard::new(WatchedHold::SILENT, wait()?))
    }

    /// The value. The exclusive borrow of the mutex makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<'a, T> MutexGuard<'a, T> {
    #[inline]
    fn new(
        hold: WatchedHold<'a>,
        inner: lock_api::MutexGuard<'a, RawMutex, T>,
    ) -> MutexGuard<'a, T> {
        MutexGuard { _hold: hold, inner, _stays: PhantomData }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
