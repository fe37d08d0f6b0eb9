//! What a lock keeps for the observer, and how the observer is told.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `class` | nobody | everybody |
//! | `state` | told attempts and holds | who leaves a told hold |
//! | `holder` | who enters or leaves a told hold | attempts that found the lock held |
//!
//! Nothing is written while off, and no ordering is needed: the lock itself orders its holders, and
//! the rest are counts.
//!
//! `state`, bit by bit:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | somebody failed to get the lock, or began to wait, during the present holds |
//! | 1–31 | attempts that wait now |
//! | 32–63 | told holds now: at most one, or the readers |
//!
//! The mark in bit 0 is wiped by the first told hold that finds no other. An attempt marks after it
//! failed, so a mark may fall on the hold after the one that was in the way.

use std::ptr::null_mut;

use super::observe::{Found, LockMode, LockSite, LockUse, Observer, observer};
use crate::atomic::{AtomicPtr, AtomicU64, Relaxed};
use crate::class::LockClass;

const WANTED: u64 = 1;
const WAITER: u64 = 1 << 1;
const HOLD: u64 = 1 << 32;

/// The part of a lock that belongs to the observer.
#[derive(Debug)]
pub(super) struct Watch {
    class: LockClass,
    state: AtomicU64,
    /// Where the lock was taken by the told hold that came last; null if there is none.
    holder: AtomicPtr<std::panic::Location<'static>>,
}

impl Watch {
    pub(super) const fn new(class: LockClass) -> Watch {
        Watch { class, state: AtomicU64::new(0), holder: AtomicPtr::new(null_mut()) }
    }

    pub(super) fn class(&self) -> LockClass {
        self.class
    }

    /// Begins an attempt that is told; none if there is nobody to tell.
    #[cold]
    #[inline(never)]
    pub(super) fn attempt(&self, mode: LockMode, site: LockSite) -> Option<Attempt<'_>> {
        let told = Told { watch: self, site, mode };
        Some(Attempt { told, lock_use: told.lock_use(), observer: observer()? })
    }

    fn holder(&self) -> Option<LockSite> {
        let holder = self.holder.load(Relaxed);
        // SAFETY:
        // - it is null or came from a `LockSite`, which is valid for ever;
        // - nobody writes to a `Location`.
        unsafe { holder.as_ref() }
    }
}

/// An attempt at a lock that is told to the observer.
pub(super) struct Attempt<'a> {
    told: Told<'a>,
    lock_use: LockUse,
    observer: &'static dyn Observer,
}

impl<'a> Attempt<'a> {
    /// Tries, and if that fails, waits.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire<G>(
        self,
        try_once: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> G,
    ) -> (Hold<'a>, G) {
        if let Some(guard) = try_once() {
            return (self.acquired(Found::Free), guard);
        }
        let by = self.begin_wait();
        let guard = wait();
        self.end_wait();
        (self.acquired(Found::Held { by }), guard)
    }

    /// Tries, and if that fails, waits for a time.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire_timed<G>(
        self,
        try_once: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> Option<G>,
    ) -> Option<(Hold<'a>, G)> {
        if let Some(guard) = try_once() {
            return Some((self.acquired(Found::Free), guard));
        }
        let by = self.begin_wait();
        let waited = wait();
        self.end_wait();
        let Some(guard) = waited else {
            self.observer.try_failed(&self.lock_use, by);
            return None;
        };
        Some((self.acquired(Found::Held { by }), guard))
    }

    /// Tries only.
    #[cold]
    #[inline(never)]
    pub(super) fn try_acquire<G>(
        self,
        try_once: impl FnOnce() -> Option<G>,
    ) -> Option<(Hold<'a>, G)> {
        let Some(guard) = try_once() else {
            self.told.watch.state.fetch_or(WANTED, Relaxed);
            self.observer.try_failed(&self.lock_use, self.told.watch.holder());
            return None;
        };
        Some((self.acquired(Found::Free), guard))
    }

    /// Marks the lock as wanted before the observer is told: what the observer sets free by that is
    /// known to be wanted.
    fn begin_wait(&self) -> Option<LockSite> {
        self.told.watch.state.update(Relaxed, Relaxed, |state| (state | WANTED) + WAITER);
        let holder = self.told.watch.holder();
        self.observer.waiting(&self.lock_use, holder);
        holder
    }

    fn end_wait(&self) {
        self.told.watch.state.fetch_sub(WAITER, Relaxed);
    }

    fn acquired(self, found: Found) -> Hold<'a> {
        self.told.watch.state.update(Relaxed, Relaxed, |state| {
            let is_alone = state < HOLD;
            (if is_alone { state & !WANTED } else { state }) + HOLD
        });
        self.told.watch.holder.store(std::ptr::from_ref(self.lock_use.site).cast_mut(), Relaxed);
        self.observer.acquired(&self.lock_use, found);
        Hold(Some(self.told))
    }
}

/// What a told hold has to remember.
#[derive(Clone, Copy)]
struct Told<'a> {
    watch: &'a Watch,
    site: LockSite,
    mode: LockMode,
}

impl Told<'_> {
    fn lock_use(self) -> LockUse {
        let address = std::ptr::from_ref(self.watch).addr();
        LockUse { class: self.watch.class, address, site: self.site, mode: self.mode }
    }

    #[cold]
    #[inline(never)]
    fn released(self) {
        let state = self.watch.state.fetch_sub(HOLD, Relaxed);
        if state < 2 * HOLD {
            self.watch.holder.store(null_mut(), Relaxed);
        }
        if let Some(observer) = observer() {
            observer.released(&self.lock_use(), state & (HOLD - 1) != 0);
        }
    }
}

/// A part of every guard, dropped before the lock is left: how the lock was taken, if that was
/// told. By value throughout, so that it stays in registers while off.
pub(super) struct Hold<'a>(Option<Told<'a>>);

impl Hold<'_> {
    /// The hold began while off.
    pub(super) const SILENT: Hold<'static> = Hold(None);
}

impl std::fmt::Debug for Hold<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_some() { "Told" } else { "Silent" })
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(told) = self.0 {
            told.released();
        }
    }
}
