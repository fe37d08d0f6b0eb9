//! Where a lock is taken: by whom, and what kind of lock.

use std::cell::Cell;
use std::mem::MaybeUninit;

use forebay_sync::profile::{ProfiledSite, SiteDescription, hash_words};

use crate::stack::FRAMES_MAX;

/// What kind of lock, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Mutex = 1,
    MutexAfterSleep,
    RwlockForReading,
    RwlockForWriting,
    Spinlock,
}

impl LockKind {
    /// As tools show it.
    fn name(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::MutexAfterSleep => "mutex, after a condition",
            LockKind::RwlockForReading => "rwlock, reading",
            LockKind::RwlockForWriting => "rwlock, writing",
            LockKind::Spinlock => "spinlock",
        }
    }

    /// May others have the lock at the same time?
    pub(crate) fn is_shared(self) -> bool {
        self == LockKind::RwlockForReading
    }
}

/// Who called a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Where the hook returns to.
    pub(crate) address: usize,
    /// The register that points to the caller's frame, if it keeps one.
    pub(crate) frame: usize,
}

/// A place where a lock is taken, from the attempt on.
#[repr(C)]
pub(crate) struct CallSite {
    pub(crate) kind: LockKind,
    pub(crate) lock: usize,
    pub(crate) caller: Caller,
    key: u64,
    is_by_lock: bool,
    /// Somebody asked what this place is: its modules may have to be looked for.
    is_new: Cell<bool>,
    /// How many of the frames are filled in.
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

    /// Its callers are known now: the nearest one, if nothing else was filled in.
    #[inline(always)]
    pub(crate) fn seal(&mut self, is_by_lock: bool) {
        // Addresses of programs have 47 bits.
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
            // As above: one caller is one place, however it was found.
            [address] if !is_by_lock => hash_words(&[address ^ kind]),
            frames => {
                let lock = if is_by_lock { self.lock as u64 } else { 0 };
                frames.iter().fold(hash_words(&[kind, lock]), |key, at| hash_words(&[key, *at]))
            }
        };
    }

    /// Room for more callers: what is filled in, `count` of it, are the callers.
    #[cold]
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [u64; FRAMES_MAX]) -> usize) {
        let mut frames = [0; FRAMES_MAX];
        self.frame_count = fill(&mut frames).min(FRAMES_MAX);
        self.frames = frames.map(MaybeUninit::new);
    }

    pub(crate) fn frames(&self) -> &[u64] {
        let filled = &self.frames[..self.frame_count];
        // SAFETY: these are filled in, and as such are numbers.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }

    /// Was it described since this was last asked?
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
    fn other_callers_other_kinds_and_on_demand_other_locks_are_other_places() {
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
        assert_eq!(one, site(LockKind::Mutex, 128, 5, &[], false), "any lock");
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
