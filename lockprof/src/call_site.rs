//! The call site of an attempt at a lock: the callers, and the kind of lock.

use std::cell::Cell;
use std::mem::MaybeUninit;

use forebay_sync::profile::{ProfiledSite, SiteDescription, hash_words};

use crate::stack::FRAMES_MAX;

/// The kind of lock, and how it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Mutex = 1,
    MutexAfterSleep,
    RwlockForReading,
    RwlockForWriting,
    Spinlock,
}

impl LockKind {
    /// The name that tools show.
    fn name(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::MutexAfterSleep => "mutex, after a condition",
            LockKind::RwlockForReading => "rwlock, reading",
            LockKind::RwlockForWriting => "rwlock, writing",
            LockKind::Spinlock => "spinlock",
        }
    }

    /// Whether other threads may hold the lock at the same time.
    pub(crate) fn is_shared(self) -> bool {
        self == LockKind::RwlockForReading
    }
}

/// The caller of a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The return address of the hook.
    pub(crate) address: usize,
    /// The caller's frame pointer, if it keeps one.
    pub(crate) frame: usize,
}

/// The call site of an attempt at a lock.
#[repr(C)]
pub(crate) struct CallSite {
    pub(crate) kind: LockKind,
    pub(crate) lock: usize,
    pub(crate) caller: Caller,
    key: u64,
    is_by_lock: bool,
    /// Whether a description of the site was just requested for the profile. The site's callers may
    /// then lie in modules that the profile does not have yet.
    is_new: Cell<bool>,
    /// The number of `frames` that are filled in.
    frame_count: usize,
    frames: [MaybeUninit<u64>; FRAMES_MAX],
}

impl CallSite {
    #[inline]
    pub(crate) fn new(kind: LockKind, lock: usize, caller: Caller) -> CallSite {
        CallSite {
            kind,
            lock,
            caller,
            key: 0,
            is_by_lock: false,
            is_new: Cell::new(false),
            frame_count: 0,
            frames: [const { MaybeUninit::uninit() }; FRAMES_MAX],
        }
    }

    /// Computes the key from the kind of lock and the callers. If the callers were not looked up,
    /// only the nearest caller counts. With `is_by_lock` the lock's address is part of the key too.
    #[inline(always)]
    pub(crate) fn seal(&mut self, is_by_lock: bool) {
        // Addresses of programs have 47 bits, so the kind uses higher bits.
        let kind = (self.kind as u64) << 56;
        if self.frame_count == 0 && !is_by_lock {
            let address = self.caller.address as u64;
            self.frames[0].write(address);
            self.frame_count = 1;
            self.key = hash_words(&[address ^ kind]);
        } else {
            self.seal_in_full(is_by_lock, kind);
        }
    }

    #[cold]
    #[inline(never)]
    fn seal_in_full(&mut self, is_by_lock: bool, kind: u64) {
        if self.frame_count == 0 {
            self.frames[0].write(self.caller.address as u64);
            self.frame_count = 1;
        }
        self.is_by_lock = is_by_lock;
        self.key = match self.frames() {
            // This is the key that `seal` computes: a site with one caller has one key, whether its
            // callers were looked up or not.
            [address] if !is_by_lock => hash_words(&[address ^ kind]),
            frames => {
                let lock = if is_by_lock { self.lock as u64 } else { 0 };
                frames.iter().fold(hash_words(&[kind, lock]), |key, at| hash_words(&[key, *at]))
            }
        };
    }

    /// Fills in the frames: `fill` writes the callers and returns their number.
    #[cold]
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [u64; FRAMES_MAX]) -> usize) {
        let mut frames = [0; FRAMES_MAX];
        self.frame_count = fill(&mut frames).min(FRAMES_MAX);
        self.frames = frames.map(MaybeUninit::new);
    }

    pub(crate) fn frames(&self) -> &[u64] {
        let filled = &self.frames[..self.frame_count];
        // SAFETY: this many frames are initialised.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }

    /// Returns whether a description was requested since the last call of this function.
    #[inline]
    pub(crate) fn take_is_new(&self) -> bool {
        self.is_new.take()
    }
}

impl ProfiledSite for CallSite {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }

    fn describe(&self) -> SiteDescription<'_> {
        self.is_new.set(true);
        SiteDescription {
            name: self.kind.name(),
            lock: if self.is_by_lock { self.lock as u64 } else { 0 },
            frames: self.frames(),
            ..SiteDescription::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_kinds_and_on_demand_locks_tell_call_sites_apart() {
        let site = |kind, lock, address, callers: &[u64], is_by_lock| {
            let mut site = CallSite::new(kind, lock, Caller { address, frame: 0 });
            if !callers.is_empty() {
                site.fill(|frames| {
                    frames[..callers.len()].copy_from_slice(callers);
                    callers.len()
                });
            }
            site.seal(is_by_lock);
            site.key()
        };
        let one = site(LockKind::Mutex, 64, 5, &[], false);
        assert_eq!(
            one,
            site(LockKind::Mutex, 128, 5, &[], false),
            "two locks at one call site have different keys"
        );
        let by_lock = site(LockKind::Mutex, 64, 5, &[], true);
        let keys = [
            one,
            by_lock,
            site(LockKind::Mutex, 128, 5, &[], true),
            site(LockKind::Spinlock, 64, 5, &[], false),
            site(LockKind::Mutex, 64, 6, &[], false),
            site(LockKind::Mutex, 64, 5, &[5, 6], false),
            site(LockKind::Mutex, 64, 5, &[5, 7], false),
            site(LockKind::Mutex, 64, 5, &[5, 6], true),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(*key != 0 && !keys[..index].contains(key), "{index}: {keys:?}");
        }
    }
}
