//! Many readers or one writer, with a class, over any raw lock.

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
/// It is not poisoned: who panics while writing leaves what it protects as it is.
pub struct RwLock<T, R: RawRwLock = parking_lot::RawRwLock> {
    watch: Watch,
    inner: lock_api::RwLock<R, T>,
}

/// The right to read what an [`RwLock`] protects, until it is dropped. It stays on its thread.
#[must_use = "the lock is left at once"]
pub struct RwLockReadGuard<'a, T, R: RawRwLock = parking_lot::RawRwLock> {
    // Fields are dropped in this order: the observer is told while the lock is still held.
    _hold: WatchedHold<'a>,
    inner: lock_api::RwLockReadGuard<'a, R, T>,
    _stays: PhantomData<GuardNoSend>,
}

/// The right to change what an [`RwLock`] protects, until it is dropped. It stays on its thread.
#[must_use = "the lock is left at once"]
pub struct RwLockWriteGuard<'a, T, R: RawRwLock = parking_lot::RawRwLock> {
    // As in the guard of a reader.
    _hold: WatchedHold<'a>,
    inner: lock_api::RwLockWriteGuard<'a, R, T>,
    _stays: PhantomData<GuardNoSend>,
}

impl<T, R: RawRwLock> RwLock<T, R> {
    /// An open lock around `value`.
    pub const fn new(class: LockClass, value: T) -> RwLock<T, R> {
        RwLock { watch: Watch::new(class), inner: lock_api::RwLock::new(value) }
    }

    /// The same over a raw lock that was made with settings of its own.
    pub const fn with_raw(class: LockClass, raw: R, value: T) -> RwLock<T, R> {
        RwLock { watch: Watch::new(class), inner: lock_api::RwLock::from_raw(raw, value) }
    }

    /// What kind of lock this is.
    pub fn class(&self) -> LockClass {
        self.watch.class()
    }

    /// Waits until no writer is in the way.
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

    /// Waits until nobody else has the lock.
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

    /// The lock for reading, if no writer is in the way now.
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

    /// The lock for writing, if nobody has it now.
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

    /// The value, which nobody else can reach now.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T, R: RawRwLockTimed<Duration = Duration>> RwLock<T, R> {
    /// The lock for reading, if no writer is in the way within a time.
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

    /// The lock for writing, if it becomes this thread's within a time.
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
