//! The call sites, waits, acquisitions and holds that a recorder records.

use super::clock::Stamp;
use super::shared::SiteDescription;

/// A call site at which a lock is taken.
pub trait ProfiledSite {
    /// The key of the site: a hash that differs between sites, and is never 0.
    fn key(&self) -> u64;

    /// The description of the site for tools. Called when a thread first records the site.
    fn describe(&self) -> SiteDescription<'_>;

    /// Fills in the return addresses of the calls that led to the site, the innermost first, and
    /// returns their number. Called for samples only.
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
    /// Whether the lock was acquired for reading, so that other readers may hold it too.
    pub is_shared: bool,
    /// Whether the last owner of the lock died while it held the lock.
    pub has_owner_died: bool,
}

/// The facts about a hold that are needed when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldRecord {
    pub(super) key: u64,
    pub(super) since: Stamp,
    /// The low half of the generation in which the hold began.
    pub(super) generation: u32,
    pub(super) row: u32,
}
