//! The part of a lock that reports to an observer or a profile.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `class` | only `new` | all threads |
//! | `state` | observed attempts and holds | the release of an observed hold |
//! | `holder` | start and end of an observed hold | attempts that find the lock held |
//!
//! `state` and `holder` are written only for an observer that is on. A profile keeps holds in the
//! blocks of its threads. No ordering is needed: the lock itself orders its holders, and the other
//! contents are counts. The bits of `state`:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | an attempt failed, or began to wait, during the present holds |
//! | 1–31 | the number of attempts that wait now |
//! | 32–63 | the number of observed holds now: at most one writer, or any number of readers |
//!
//! When an observed hold begins and no other observed hold exists, it clears bit 0. An attempt sets
//! bit 0 after it failed. By then the next hold may have begun, and the bit counts for that hold.

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

/// The part of a lock that reports the lock's events to the watcher. Each lock has one.
#[derive(Debug)]
pub struct Watch {
    class: LockClass,
    state: AtomicU64,
    /// The call site of the observed hold that began last; null if a later acquisition was not
    /// reported, or if all observed holds have ended.
    holder: AtomicPtr<Location<'static>>,
}

impl Watch {
    /// The reporting part of a lock of this class.
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

    /// Acquires the lock while the watcher is on. For an attempt that is reported, calls `take` to
    /// try, and calls it again to wait if the try failed; otherwise calls `take` only once, to
    /// wait. `take` returns whether it acquired the lock, and stores the guard itself, so that this
    /// function returns only the hold.
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

    /// Tries to acquire the lock while the watcher is on. `take` is as in
    /// [`acquire`](Watch::acquire), and is called once.
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

    /// Notes that an attempt that was not reported has acquired the lock, so that the call site of
    /// the holder is unknown from now on.
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
    /// Waits for the lock, at most until the time limit of the caller.
    Wait,
}

/// A reported attempt to acquire a lock.
///
/// The attempt ends with [`acquired`](WatchedAttempt::acquired),
/// [`try_failed`](WatchedAttempt::try_failed) or [`timed_out`](WatchedAttempt::timed_out).
pub struct WatchedAttempt<'a> {
    told: AttemptInfo<'a>,
    watcher: Watcher,
}

/// A reported wait that has begun: for an observer, the call site of the holder; for a profile, the
/// start of the wait.
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
                // The lock is marked as wanted before the observer is called: if the observer lets
                // the holder continue, the release must find the mark.
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

    /// Reports that this thread has acquired the lock; `way` says how.
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
    /// The lock was free.
    Free,
    /// The attempt waited for the lock.
    Waited(ObservedWait),
    /// The last owner of the lock died. The attempt may have waited before.
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
    /// The value of `is_last` for a lock between threads, whose holder is always the thread that
    /// took it last.
    const KNOWN: bool = true;

    fn lock_use(self) -> LockUse {
        let address = self.watch.address();
        LockUse { class: self.watch.class, address, site: self.site, mode: self.mode }
    }
}

/// The part of a guard that reports the release, if the acquisition was reported. A guard drops
/// this part before it releases the lock. It is small and passed by value, so that it stays in
/// registers.
pub struct WatchedHold<'a> {
    /// The reporting part of the lock; `None` if the acquisition was not reported.
    watch: Option<&'a Watch>,
    /// The index of the slot in which the thread keeps the other facts of the hold.
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
    /// Called when the lock is dropped. The thread forgets its failed try-locks of this lock, so
    /// that they do not count for the next lock at the same address.
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
