//! The events that a recorder records, and the state of a hold.

use super::clock::Stamp;
use super::shared::SiteDescription;

/// A call site at which a lock is taken.
pub trait ProfiledSite {
    /// The key of the site, from [`hash_words`](super::hash_words): different sites have different
    /// keys. Never 0.
    fn key(&self) -> u64;

    /// The description for tools; called once, when a thread first records the site.
    fn describe(&self) -> SiteDescription<'_>;

    /// Fills in the return addresses of the calls that led here, the innermost first, and returns
    /// their number. Called for samples only.
    fn callers(&self, _out: &mut [u64]) -> usize {
        0
    }
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
pub struct LockWait {
    /// The start of the wait.
    pub since: Stamp,
    /// The key of the call site of the holder; 0 if unknown.
    pub holder: u64,
}

/// A lock that was just acquired.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acquisition {
    /// The address of the lock.
    pub lock: usize,
    /// The wait, if the lock was found held.
    pub wait: Option<LockWait>,
    /// Whether it was acquired for reading, which others may share.
    pub is_shared: bool,
    /// Whether its last owner died while holding it.
    pub has_owner_died: bool,
}

/// The state of a hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldRecord {
    pub(super) key: u64,
    pub(super) since: Stamp,
    /// Low half of the generation in which it began.
    pub(super) generation: u32,
    pub(super) row: u32,
}
