//! Counts the events at each call site of a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_sync::observe::{LockSite, LockState, LockUse, Observer};

/// The largest number of call sites that are counted. The example has fewer.
const SITES_MAX: usize = 32;

/// The observer of the process.
pub(crate) static SITES: Sites = Sites::new();

/// The counters of each call site, in the order in which the sites first locked.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: [Site; SITES_MAX],
}

#[derive(Debug)]
struct Site {
    place: OnceLock<LockSite>,
    count: AtomicU64,
    hold_count: AtomicU64,
    lock_count: AtomicU64,
}

/// The counts of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) place: LockSite,
    /// The number of times that the lock was taken here.
    pub(crate) count: u64,
    /// The number of holds from here during which another thread wanted the lock (`cnt_hold`).
    pub(crate) hold_count: u64,
    /// The number of times that the lock was held when it was requested here (`cnt_lock`).
    pub(crate) lock_count: u64,
}

impl Sites {
    const fn new() -> Sites {
        Sites { sites: [const { Site::new() }; SITES_MAX] }
    }

    /// Returns the counts since the last call, by call site.
    pub(crate) fn take(&self) -> Vec<Counts> {
        let mut counts: Vec<Counts> = self.sites.iter().filter_map(Site::take).collect();
        counts.sort_by_key(|counts| (counts.place.file(), counts.place.line()));
        counts
    }

    fn site(&self, place: LockSite) -> Option<&Site> {
        self.sites.iter().find(|site| *site.place.get_or_init(|| place) == place)
    }
}

impl Site {
    const fn new() -> Site {
        Site {
            place: OnceLock::new(),
            count: AtomicU64::new(0),
            hold_count: AtomicU64::new(0),
            lock_count: AtomicU64::new(0),
        }
    }

    fn take(&self) -> Option<Counts> {
        let counts = Counts {
            place: self.place.get()?,
            count: self.count.swap(0, Relaxed),
            hold_count: self.hold_count.swap(0, Relaxed),
            lock_count: self.lock_count.swap(0, Relaxed),
        };
        (counts.count > 0).then_some(counts)
    }
}

impl Observer for Sites {
    fn waiting(&self, _: &LockUse, _: Option<LockSite>) {}

    fn acquired(&self, hold: &LockUse, found: LockState) {
        if let Some(site) = self.site(hold.site) {
            site.count.fetch_add(1, Relaxed);
            site.lock_count.fetch_add(u64::from(found != LockState::Free), Relaxed);
        }
    }

    fn released(&self, hold: &LockUse, was_wanted: bool) {
        if let Some(site) = self.site(hold.site) {
            site.hold_count.fetch_add(u64::from(was_wanted), Relaxed);
        }
    }

    fn try_failed(&self, _: &LockUse, _: Option<LockSite>) {}
}
