//! The part of a lock that reports to an observer or a profile.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `class` | never | all threads |
//! | `state` | observed attempts and holds | the release of an observed hold |
//! | `holder` | start and end of an observed hold | attempts that find the lock held |
//!
//! Nothing is written while the watcher is off, nor for a profile, which keeps holds in the blocks
//! of its threads. No ordering is needed: the lock itself orders its holders, and the rest are
//! counts. The bits of `state`:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | an attempt failed, or began to wait, during the present holds |
//! | 1–31 | attempts that wait now |
//! | 32–63 | observed holds now: at most one, or the readers |
//!
//! An observed hold clears bit 0 if it finds no other hold. An attempt sets bit 0 after it failed,
//! so the bit may count for the hold after the one that made the attempt fail.

use std::panic::Location;
use std::ptr::null_mut;

use super::observe::{LockMode, LockSite, LockState, LockUse, Observer, Watcher, is_on, watcher};
use crate::atomic::{AtomicPtr, AtomicU64, Relaxed};
use crate::class::LockClass;
use crate::profile::current::{self, ClassSite};
use crate::profile::{Acquisition, LockWait, Profile};

const WANTED: u64 = 1;
const WAITER: u64 = 1 << 1;
const HOLD: u64 = 1 << 32;

/// The watched part of a lock: each lock has one, wherever it lies.
#[derive(Debug)]
pub struct Watch {
    class: LockClass,
    state: AtomicU64,
    /// The call site of the last observed hold; null if a later acquisition was not reported, or if
    /// all holds have ended.
    holder: AtomicPtr<Location<'static>>,
}

impl Watch {
    /// The watched part of a lock of this class.
    #[must_use]
    pub const fn new(class: LockClass) -> Watch {
        Watch { class, state: AtomicU64::new(0), holder: AtomicPtr::new(null_mut()) }
    }

    /// The class of the lock.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// Begins an attempt that is reported. Returns `None` if there is no watcher, or if the watcher
    /// skips this attempt. Call it only while [`is_on`](super::observe::is_on).
    #[inline(always)]
    pub fn attempt(&self, mode: LockMode, site: LockSite) -> Option<WatchedAttempt<'_>> {
        let watcher = watcher()?;
        let is_told = match watcher {
            Watcher::Profile(profile) => current::begin(profile),
            Watcher::Observer(_) => current::has_room(),
        };
        is_told.then_some(WatchedAttempt { told: AttemptInfo { watch: self, site, mode }, watcher })
    }

    /// Acquires the lock while the watcher is on: tries, and waits if that fails. `take` returns
    /// whether it has the lock; it keeps the guard itself, so that only the hold comes back through
    /// memory.
    #[inline(never)]
    pub(super) fn acquire(
        &self,
        (mode, site): (LockMode, LockSite),
        mut take: impl FnMut(AcquireStep) -> bool,
    ) -> WatchedHold<'_> {
        let Some(attempt) = self.attempt(mode, site) else {
            if take(AcquireStep::Wait) {
                self.acquired_silently();
            }
            return WatchedHold::SILENT;
        };
        if take(AcquireStep::Try) {
            return attempt.acquired(AcquiredHow::Free);
        }
        let begun = attempt.begin_wait(AttemptInfo::KNOWN);
        if take(AcquireStep::Wait) {
            return attempt.acquired(AcquiredHow::Waited(begun));
        }
        attempt.timed_out(begun);
        WatchedHold::SILENT
    }

    /// As [`acquire`](Watch::acquire), but only tries.
    #[inline(never)]
    pub(super) fn try_acquire(
        &self,
        (mode, site): (LockMode, LockSite),
        take: impl FnOnce() -> bool,
    ) -> WatchedHold<'_> {
        let Some(attempt) = self.attempt(mode, site) else {
            if take() {
                self.acquired_silently();
            }
            return WatchedHold::SILENT;
        };
        if take() {
            return attempt.acquired(AcquiredHow::Free);
        }
        attempt.try_failed(AttemptInfo::KNOWN);
        WatchedHold::SILENT
    }

    /// Notes that an attempt that was not reported has acquired the lock: the call site of the
    /// holder is unknown.
    pub fn acquired_silently(&self) {
        match watcher() {
            Some(Watcher::Profile(profile)) => current::acquired_silently(profile, self.address()),
            Some(Watcher::Observer(_)) => self.holder.store(null_mut(), Relaxed),
            None => {}
        }
    }

    fn holder(&self) -> Option<LockSite> {
        let holder = self.holder.load(Relaxed);
        // SAFETY:
        // - the pointer is null or came from a `LockSite`, which is valid for ever;
        // - a `Location` is never written.
        unsafe { holder.as_ref() }
    }

    fn place(&self, site: LockSite) -> ClassSite {
        ClassSite { site, class: self.class }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// The next step of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcquireStep {
    /// Takes the lock if it is free.
    Try,
    /// Waits, for as long as it was asked to.
    Wait,
}

/// An attempt at a lock that is reported.
///
/// It ends with [`acquired`](WatchedAttempt::acquired),
/// [`try_failed`](WatchedAttempt::try_failed) or [`timed_out`](WatchedAttempt::timed_out).
pub struct WatchedAttempt<'a> {
    told: AttemptInfo<'a>,
    watcher: Watcher,
}

/// A reported wait: the call site of the holder, for an observer, and the start time, for a
/// profile.
#[derive(Clone, Copy, Debug)]
pub struct ObservedWait {
    by: Option<LockSite>,
    wait: Option<LockWait>,
}

impl<'a> WatchedAttempt<'a> {
    /// Reports that another thread holds the lock, and that this attempt waits from now on.
    /// `is_last` says whether the holder is the thread that took the lock last, as far as the watch
    /// knows.
    #[cold]
    pub fn begin_wait(&self, is_last: bool) -> ObservedWait {
        let watch = self.told.watch;
        match self.watcher {
            Watcher::Observer(observer) => {
                // Marked as wanted before the observer is called: if the observer lets the holder
                // go on, the holder must find the lock wanted.
                watch.state.update(Relaxed, Relaxed, |state| (state | WANTED) + WAITER);
                let by = watch.holder().filter(|_| is_last);
                observer.waiting(&self.told.lock_use(), by);
                ObservedWait { by, wait: None }
            }
            Watcher::Profile(profile) => {
                let place = watch.place(self.told.site);
                let wait = current::begin_wait(profile, place, watch.address());
                ObservedWait { by: None, wait: Some(wait) }
            }
        }
    }

    fn end_wait(&self) {
        if let Watcher::Observer(_) = self.watcher {
            self.told.watch.state.fetch_sub(WAITER, Relaxed);
        }
    }

    /// Reports a failed try-lock: another thread holds the lock. `is_last` is as in
    /// [`begin_wait`](WatchedAttempt::begin_wait).
    #[cold]
    pub fn try_failed(self, is_last: bool) {
        let AttemptInfo { watch, site, .. } = self.told;
        match self.watcher {
            Watcher::Observer(observer) => {
                watch.state.fetch_or(WANTED, Relaxed);
                let by = watch.holder().filter(|_| is_last);
                observer.try_failed(&self.told.lock_use(), by);
            }
            Watcher::Profile(profile) => {
                current::try_failed(profile, watch.place(site), watch.address());
            }
        }
    }

    /// Reports that the wait reached its time limit.
    #[cold]
    pub fn timed_out(self, begun: ObservedWait) {
        self.end_wait();
        let AttemptInfo { watch, site, .. } = self.told;
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

    /// Reports that this thread has the lock.
    #[inline(always)]
    #[must_use = "the hold is over when this is dropped"]
    pub fn acquired(self, way: AcquiredHow) -> WatchedHold<'a> {
        match self.watcher {
            Watcher::Observer(observer) => self.acquired_observed(observer, way),
            Watcher::Profile(profile) => self.acquired_profiled(profile, way),
        }
    }

    #[cold]
    fn acquired_observed(self, observer: &dyn Observer, way: AcquiredHow) -> WatchedHold<'a> {
        let watch = self.told.watch;
        if way.begun().is_some() {
            self.end_wait();
        }
        watch.state.update(Relaxed, Relaxed, |state| {
            let is_alone = state < HOLD;
            (if is_alone { state & !WANTED } else { state }) + HOLD
        });
        watch.holder.store(std::ptr::from_ref(self.told.site).cast_mut(), Relaxed);
        let found = way.begun().map_or(LockState::Free, |begun| LockState::Held { by: begun.by });
        observer.acquired(&self.told.lock_use(), found);
        let slot = current::hold(self.told.site, self.told.mode);
        WatchedHold { watch: Some(watch), slot }
    }

    #[inline(always)]
    fn acquired_profiled(self, profile: &Profile, way: AcquiredHow) -> WatchedHold<'a> {
        let AttemptInfo { watch, site, mode } = self.told;
        let taken = Acquisition {
            lock: watch.address(),
            wait: way.begun().and_then(|begun| begun.wait),
            is_shared: mode == LockMode::Shared,
            has_owner_died: matches!(way, AcquiredHow::OwnerDied(_)),
        };
        let slot = current::acquired(profile, watch.place(site), &taken);
        WatchedHold { watch: Some(watch), slot }
    }
}

/// How this thread acquired a lock.
#[derive(Clone, Copy, Debug)]
pub enum AcquiredHow {
    /// It was free.
    Free,
    /// After a wait.
    Waited(ObservedWait),
    /// Its last owner died; the attempt may have waited.
    OwnerDied(Option<ObservedWait>),
}

impl AcquiredHow {
    fn begun(self) -> Option<ObservedWait> {
        match self {
            AcquiredHow::Free => None,
            AcquiredHow::Waited(begun) => Some(begun),
            AcquiredHow::OwnerDied(begun) => begun,
        }
    }
}

/// The facts of an attempt.
#[derive(Clone, Copy)]
struct AttemptInfo<'a> {
    watch: &'a Watch,
    site: LockSite,
    mode: LockMode,
}

impl AttemptInfo<'_> {
    /// The holder of a lock between threads is always the last thread that took it.
    const KNOWN: bool = true;

    fn lock_use(self) -> LockUse {
        let address = self.watch.address();
        LockUse { class: self.watch.class, address, site: self.site, mode: self.mode }
    }
}

/// A part of every guard, dropped before the lock is released: whether its acquisition was
/// reported. It is passed by value and small, so that it stays in registers.
pub struct WatchedHold<'a> {
    /// `None` if the acquisition was not reported.
    watch: Option<&'a Watch>,
    /// The slot in which the thread keeps the other facts of the hold.
    slot: u32,
}

impl WatchedHold<'_> {
    /// A hold whose acquisition was not reported.
    pub const SILENT: WatchedHold<'static> = WatchedHold { watch: None, slot: 0 };
}

impl Drop for Watch {
    #[inline]
    fn drop(&mut self) {
        if is_on() {
            self.end();
        }
    }
}

impl Watch {
    /// Called when the lock is dropped: this thread's failed try-locks of it must not count for the
    /// next lock at its address.
    #[cold]
    fn end(&self) {
        current::destroyed(self.address());
    }

    #[inline(never)]
    fn released(&self, slot: u32) {
        match watcher() {
            Some(Watcher::Profile(profile)) => current::released(profile, slot),
            Some(Watcher::Observer(observer)) => self.released_observed(observer, slot),
            None => {}
        }
    }

    #[cold]
    fn released_observed(&self, observer: &dyn Observer, slot: u32) {
        let state = self.state.fetch_sub(HOLD, Relaxed);
        if state < 2 * HOLD {
            self.holder.store(null_mut(), Relaxed);
        }
        if let Some((site, mode)) = current::unhold(slot) {
            let told = AttemptInfo { watch: self, site, mode };
            observer.released(&told.lock_use(), state & (HOLD - 1) != 0);
        }
    }
}

impl std::fmt::Debug for WatchedHold<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.watch.is_some() { "Reported" } else { "Silent" })
    }
}

impl Drop for WatchedHold<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            watch.released(self.slot);
        }
    }
}
