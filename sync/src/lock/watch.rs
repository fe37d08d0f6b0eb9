//! What a lock keeps for an observer or a profile, and how these are told.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `class` | nobody | everybody |
//! | `state` | attempts and holds that an observer is told | who leaves a told hold |
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

use std::panic::Location;
use std::ptr::null_mut;

use super::observe::{Found, LockMode, LockSite, LockUse, Observer, Watcher, profile, watcher};
use crate::atomic::{AtomicPtr, AtomicU64, Relaxed};
use crate::class::LockClass;
use crate::profile::current::{self, Place};
use crate::profile::{Held, Profile, Taken, Wait};

const WANTED: u64 = 1;
const WAITER: u64 = 1 << 1;
const HOLD: u64 = 1 << 32;

/// The part of a lock that belongs to who watches it.
#[derive(Debug)]
pub(super) struct Watch {
    class: LockClass,
    state: AtomicU64,
    /// Where the lock was taken by the told hold that came last; null if there is none.
    holder: AtomicPtr<Location<'static>>,
}

impl Watch {
    pub(super) const fn new(class: LockClass) -> Watch {
        Watch { class, state: AtomicU64::new(0), holder: AtomicPtr::new(null_mut()) }
    }

    pub(super) fn class(&self) -> LockClass {
        self.class
    }

    /// Begins an attempt that is told; none if there is nobody to tell, or if this one is passed
    /// over.
    #[cold]
    #[inline(never)]
    pub(super) fn attempt(&self, mode: LockMode, site: LockSite) -> Option<Attempt<'_>> {
        let watcher = watcher()?;
        if let Watcher::Profile(profile) = watcher
            && !current::begin(profile)
        {
            return None;
        }
        Some(Attempt { told: Told { watch: self, site, mode }, watcher })
    }

    fn holder(&self) -> Option<LockSite> {
        let holder = self.holder.load(Relaxed);
        // SAFETY:
        // - it is null or came from a `LockSite`, which is valid for ever;
        // - nobody writes to a `Location`.
        unsafe { holder.as_ref() }
    }

    fn place(&self, site: LockSite) -> Place {
        Place { site, class: self.class }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// An attempt at a lock that is told.
pub(super) struct Attempt<'a> {
    told: Told<'a>,
    watcher: Watcher,
}

/// A wait that was told: who is in the way, and since when if somebody measures.
#[derive(Clone, Copy)]
struct Begun {
    by: Option<LockSite>,
    wait: Option<Wait>,
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
            return (self.acquired(None), guard);
        }
        let begun = self.begin_wait();
        let guard = wait();
        self.end_wait();
        (self.acquired(Some(begun)), guard)
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
            return Some((self.acquired(None), guard));
        }
        let begun = self.begin_wait();
        let waited = wait();
        self.end_wait();
        let Some(guard) = waited else {
            self.timed_out(begun);
            return None;
        };
        Some((self.acquired(Some(begun)), guard))
    }

    /// Tries only.
    #[cold]
    #[inline(never)]
    pub(super) fn try_acquire<G>(
        self,
        try_once: impl FnOnce() -> Option<G>,
    ) -> Option<(Hold<'a>, G)> {
        let Some(guard) = try_once() else {
            self.try_failed();
            return None;
        };
        Some((self.acquired(None), guard))
    }

    /// Marks the lock as wanted before the observer is told: what the observer sets free by that is
    /// known to be wanted.
    fn begin_wait(&self) -> Begun {
        let watch = self.told.watch;
        match self.watcher {
            Watcher::Observer(observer) => {
                watch.state.update(Relaxed, Relaxed, |state| (state | WANTED) + WAITER);
                let by = watch.holder();
                observer.waiting(&self.told.lock_use(), by);
                Begun { by, wait: None }
            }
            Watcher::Profile(profile) => {
                let by = watch.holder();
                let wait = current::begin_wait(profile, by.map(|by| watch.place(by)));
                Begun { by, wait: Some(wait) }
            }
        }
    }

    fn end_wait(&self) {
        if let Watcher::Observer(_) = self.watcher {
            self.told.watch.state.fetch_sub(WAITER, Relaxed);
        }
    }

    fn try_failed(&self) {
        let Told { watch, site, .. } = self.told;
        match self.watcher {
            Watcher::Observer(observer) => {
                watch.state.fetch_or(WANTED, Relaxed);
                observer.try_failed(&self.told.lock_use(), watch.holder());
            }
            Watcher::Profile(profile) => {
                let by = watch.holder().map(|by| watch.place(by));
                current::try_failed(profile, watch.place(site), watch.address(), by);
            }
        }
    }

    fn timed_out(&self, begun: Begun) {
        let Told { watch, site, .. } = self.told;
        match (self.watcher, begun.wait) {
            (Watcher::Observer(observer), _) => {
                observer.try_failed(&self.told.lock_use(), begun.by);
            }
            (Watcher::Profile(profile), Some(wait)) => {
                current::timed_out(profile, watch.place(site), watch.address(), wait);
            }
            (Watcher::Profile(_), None) => {}
        }
    }

    fn acquired(self, begun: Option<Begun>) -> Hold<'a> {
        match self.watcher {
            Watcher::Observer(observer) => self.acquired_observed(observer, begun),
            Watcher::Profile(profile) => self.acquired_profiled(profile, begun),
        }
    }

    fn acquired_observed(self, observer: &dyn Observer, begun: Option<Begun>) -> Hold<'a> {
        let watch = self.told.watch;
        watch.state.update(Relaxed, Relaxed, |state| {
            let is_alone = state < HOLD;
            (if is_alone { state & !WANTED } else { state }) + HOLD
        });
        watch.holder.store(std::ptr::from_ref(self.told.site).cast_mut(), Relaxed);
        let found = begun.map_or(Found::Free, |begun| Found::Held { by: begun.by });
        observer.acquired(&self.told.lock_use(), found);
        Hold::Told(self.told)
    }

    fn acquired_profiled(self, profile: &Profile, begun: Option<Begun>) -> Hold<'a> {
        let Told { watch, site, mode } = self.told;
        let taken = Taken {
            lock: watch.address(),
            wait: begun.and_then(|begun| begun.wait),
            is_shared: mode == LockMode::Shared,
            has_owner_died: false,
        };
        let Some(held) = current::acquired(profile, watch.place(site), &taken) else {
            return Hold::Silent;
        };
        // Readers of one place write the line of the lock once.
        let holder = std::ptr::from_ref(site).cast_mut();
        if watch.holder.load(Relaxed) != holder {
            watch.holder.store(holder, Relaxed);
        }
        Hold::Profiled(Profiled { watch, site, held })
    }
}

/// What a told hold has to remember.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    watch: &'a Watch,
    site: LockSite,
    mode: LockMode,
}

impl Told<'_> {
    fn lock_use(self) -> LockUse {
        let address = self.watch.address();
        LockUse { class: self.watch.class, address, site: self.site, mode: self.mode }
    }

    #[cold]
    #[inline(never)]
    fn released(self) {
        let state = self.watch.state.fetch_sub(HOLD, Relaxed);
        if state < 2 * HOLD {
            self.watch.holder.store(null_mut(), Relaxed);
        }
        if let Some(Watcher::Observer(observer)) = watcher() {
            observer.released(&self.lock_use(), state & (HOLD - 1) != 0);
        }
    }
}

/// What a hold in a profile has to remember.
#[derive(Clone, Copy)]
pub(super) struct Profiled<'a> {
    watch: &'a Watch,
    site: LockSite,
    held: Held,
}

impl Profiled<'_> {
    #[cold]
    #[inline(never)]
    fn released(self) {
        // Another reader may have come since, and is the one whom a writer finds in its way.
        if std::ptr::eq(self.watch.holder.load(Relaxed), self.site) {
            self.watch.holder.store(null_mut(), Relaxed);
        }
        if let Some(profile) = profile() {
            current::released(profile, &self.held);
        }
    }
}

/// A part of every guard, dropped before the lock is left: how the lock was taken, if that was
/// told. By value throughout, so that it stays in registers while off.
pub(super) enum Hold<'a> {
    /// The hold began while off.
    Silent,
    Told(Told<'a>),
    Profiled(Profiled<'a>),
}

impl std::fmt::Debug for Hold<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if matches!(self, Hold::Silent) { "Silent" } else { "Told" })
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        match self {
            Hold::Silent => {}
            Hold::Told(told) => told.released(),
            Hold::Profiled(profiled) => profiled.released(),
        }
    }
}
