//! What a recorder is told of attempts at locks, and what it knows of holds.

use super::clock::Stamp;
use super::shared::SiteDescription;

/// A place where a lock is taken.
pub trait ProfiledSite {
    /// What stands for it: by [`hash_words`](super::hash_words), so that different places have
    /// different keys. Never 0.
    fn key(&self) -> u64;

    /// What tools are told of it; asked for once, when the thread first comes by.
    fn describe(&self) -> SiteDescription<'_>;

    /// How the thread came here, as return addresses, the innermost first: fills them in and says
    /// how many. Asked for in samples only.
    fn callers(&self, _out: &mut [u64]) -> usize {
        0
    }
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
pub struct LockWait {
    /// When.
    pub since: Stamp,
    /// The key of the site at which the holder took the lock; 0 if nobody knows.
    pub holder: u64,
}

/// A lock that was just taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acquisition {
    /// Where it lies.
    pub lock: usize,
    /// How long it was waited for, if it was found held.
    pub wait: Option<LockWait>,
    /// It was taken beside others, for reading.
    pub is_shared: bool,
    /// Its last owner died while it had the lock.
    pub has_owner_died: bool,
}

/// What is known of a hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldRecord {
    pub(super) key: u64,
    pub(super) since: Stamp,
    /// Low half of that in which it began.
    pub(super) generation: u32,
    pub(super) row: u32,
}
