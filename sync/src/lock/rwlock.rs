//! A reader-writer lock with a class, over any raw reader-writer lock.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;

use lock_api::{GuardNoSend, RawRwLock, RawRwLockTimed};

use super::observe::{LockMode, is_on};
use super::watch::{AcquireStep, Watch, WatchedHold};
use crate::class::LockClass;

/// A reader-writer lock that belongs to a [`LockClass`].
///
/// The lock is not poisoned: a thread that panics while writing leaves the value as it is.
pub struct RwLock<T, R: RawRwLock = parking_lot::RawRwLock> {
    watch: Watch,
    inner: lock_api::RwLock<R, T>,
}

/// Read access to the value of an [`RwLock`]; dropping it releases the lock. A guard cannot be sent
/// to another thread.
#[must_use = "the lock is released at once"]
pub struct RwLockReadGuard<'a, T, R: RawRwLock = parking_lot::RawRwLock> {
    // Fields are dropped in this order: the observer is called while the lock is still held.
    _hold: WatchedHold<'a>,
    inner: lock_api::RwLockReadGuard<'a, R, T>,
    _stays: PhantomData<GuardNoSend>,
}

/// Write access to the value of an [`RwLock`]; dropping it releases the lock. A guard cannot be
/// sent to another thread.
#[must_use = "the lock is released at once"]
pub struct RwLockWriteGuard<'a, T, R: RawRwLock = parking_lot::RawRwLock> {
    // Fields are dropped in this order: the observer is called while the lock is still held.
    _hold: WatchedHold<'a>,
    inner: lock_api::RwLockWriteGuard<'a, R, T>,
    _stays: PhantomData<GuardNoSend>,
}

impl<T, R: RawRwLock> RwLock<T, R> {
    /// A free lock around `value`.
    pub const fn new(class: LockClass, value: T) -> RwLock<T, R> {
        RwLock { watch: Watch::new(class), inner: lock_api::RwLock::new(value) }
    }

    /// The class of this lock.
    pub fn class(&self) -> LockClass {
        self.watch.class()
    }

    /// Waits until this thread has the lock for reading.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T, R> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Shared, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_read(),
                    AcquireStep::Wait => Some(self.inner.read()),
                };
                inner.is_some()
            });
            if let Some(inner) = inner {
                return RwLockReadGuard::new(hold, inner);
            }
        }
        RwLockReadGuard::new(WatchedHold::SILENT, self.inner.read())
    }

    /// Waits until this thread has the lock for writing.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, R> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Exclusive, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_write(),
                    AcquireStep::Wait => Some(self.inner.write()),
                };
                inner.is_some()
            });
            if let Some(inner) = inner {
                return RwLockWriteGuard::new(hold, inner);
            }
        }
        RwLockWriteGuard::new(WatchedHold::SILENT, self.inner.write())
    }

    /// Takes the lock for reading if no writer has it.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T, R>> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.try_acquire((LockMode::Shared, Location::caller()), || {
                inner = self.inner.try_read();
                inner.is_some()
            });
            return inner.map(|inner| RwLockReadGuard::new(hold, inner));
        }
        Some(RwLockReadGuard::new(WatchedHold::SILENT, self.inner.try_read()?))
    }

    /// Takes the lock for writing if no thread has it.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T, R>> {
        if is_on() {
            let mut inner = None;
            let hold = self.watch.try_acquire((LockMode::Exclusive, Location::caller()), || {
                inner = self.inner.try_write();
                inner.is_some()
            });
            return inner.map(|inner| RwLockWriteGuard::new(hold, inner));
        }
        Some(RwLockWriteGuard::new(WatchedHold::SILENT, self.inner.try_write()?))
    }

    /// The value. The exclusive borrow of the lock makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T, R: RawRwLockTimed<Duration = Duration>> RwLock<T, R> {
    /// Takes the lock for reading, waiting for at most `wait_max`.
    #[inline]
    #[track_caller]
    pub fn try_read_for(&self, wait_max: Duration) -> Option<RwLockReadGuard<'_, T, R>> {
        let wait = || self.inner.try_read_for(wait_max);
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Shared, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_read(),
                    AcquireStep::Wait => wait(),
                };
                inner.is_some()
            });
            return inner.map(|inner| RwLockReadGuard::new(hold, inner));
        }
        Some(RwLockReadGuard::new(WatchedHold::SILENT, wait()?))
    }

    /// Takes the lock for writing, waiting for at most `wait_max`.
    #[inline]
    #[track_caller]
    pub fn try_write_for(&self, wait_max: Duration) -> Option<RwLockWriteGuard<'_, T, R>> {
        let wait = || self.inner.try_write_for(wait_max);
        if is_on() {
            let mut inner = None;
            let hold = self.watch.acquire((LockMode::Exclusive, Location::caller()), |step| {
                inner = match step {
                    AcquireStep::Try => self.inner.try_write(),
                    AcquireStep::Wait => wait(),
                };
                inner.is_some()
            });
            return inner.map(|inner| RwLockWriteGuard::new(hold, inner));
        }
        Some(RwLockWriteGuard::new(WatchedHold::SILENT, wait()?))
    }
}

impl<'a, T, R: RawRwLock> RwLockReadGuard<'a, T, R> {
    #[inline]
    fn new(hold: WatchedHold<'a>, inner: lock_api::RwLockReadGuard<'a, R, T>) -> Self {
        RwLockReadGuard { _hold: hold, inner, _stays: PhantomData }
    }
}

impl<'a, T, R: RawRwLock> RwLockWriteGuard<'a, T, R> {
    #[inline]
    fn new(hold: WatchedHold<'a>, inner: lock_api::RwLockWriteGuard<'a, R, T>) -> Self {
        RwLockWriteGuard { _hold: hold, inner, _stays: PhantomData }
    }
}

impl<T: fmt::Debug, R: RawRwLock> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("RwLock");
        out.field("watch", &self.watch).field("inner", &self.inner).finish()
    }
}

impl<T: fmt::Debug, R: RawRwLock> fmt::Debug for RwLockReadGuard<'_, T, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl<T: fmt::Debug, R: RawRwLock> fmt::Debug for RwLockWriteGuard<'_, T, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl<T, R: RawRwLock> Deref for RwLockReadGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, R: RawRwLock> Deref for RwLockWriteGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, R: RawRwLock> DerefMut for RwLockWriteGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
