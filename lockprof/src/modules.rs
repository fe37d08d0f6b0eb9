//! The modules in memory, added to the profile as they appear.
//!
//! No ordering is needed: a range that is not seen yet only causes one more scan.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use forebay_sync::profile::Profile;

use crate::calls::CallPermit;
use crate::errno;
use crate::proc::{self, Mapping};

/// The largest number of modules that are remembered.
const KNOWN_MAX: usize = 1024;

/// The modules that the profile has. A table whose words are all zero has none.
#[derive(Debug)]
pub(crate) struct ModuleTable {
    is_busy: AtomicBool,
    /// Whether a library was unloaded since the last scan.
    is_in_doubt: AtomicBool,
    /// The number of scans.
    looks: AtomicU64,
    count: AtomicUsize,
    known: [KnownModule; KNOWN_MAX],
}

/// A module; unused if `end` is 0.
#[derive(Debug)]
struct KnownModule {
    start: AtomicU64,
    end: AtomicU64,
    /// The [identity](Mapping::identity) of the file.
    file: AtomicU64,
    /// The number of the scan that last saw the module.
    seen: AtomicU64,
}

impl KnownModule {
    fn range(&self) -> Range<u64> {
        self.start.load(Relaxed)..self.end.load(Relaxed)
    }

    fn is(&self, range: &Range<u64>, file: u64) -> bool {
        self.range() == *range && self.file.load(Relaxed) == file
    }

    fn set(&self, range: Range<u64>, file: u64) {
        self.start.store(range.start, Relaxed);
        self.end.store(range.end, Relaxed);
        self.file.store(file, Relaxed);
    }
}

impl ModuleTable {
    /// Whether the profile has the module of this address, for certain.
    pub(crate) fn knows(&self, address: u64) -> bool {
        let is_in_doubt = self.is_in_doubt.load(Relaxed);
        !is_in_doubt && self.all().iter().any(|known| known.range().contains(&address))
    }

    fn all(&self) -> &[KnownModule] {
        &self.known[..self.count.load(Relaxed).min(KNOWN_MAX)]
    }

    /// Marks the known modules as doubtful: they may be unloaded, and others loaded in their place.
    pub(crate) fn doubt(&self) {
        self.is_in_doubt.store(true, Relaxed);
    }

    /// Scans the mapped memory: adds new modules to the profile, and marks modules that were
    /// unloaded. Does nothing if system calls are forbidden, or if another thread is scanning.
    #[cold]
    pub(crate) fn look(&self, profile: &Profile) {
        if let Some(calls) = CallPermit::begin() {
            errno::preserved(|| self.look_by(&calls, profile));
        }
    }

    pub(crate) fn look_by(&self, calls: &CallPermit, profile: &Profile) {
        if self.is_busy.swap(true, Relaxed) {
            return;
        }
        // Cleared before the scan: a module that is unloaded during the scan is in doubt again.
        self.is_in_doubt.store(false, Relaxed);
        let look = self.looks.load(Relaxed) + 1;
        self.looks.store(look, Relaxed);
        let is_whole = proc::mappings(calls, |mapping| {
            if mapping.is_code && !mapping.path.is_empty() {
                self.learn(profile, mapping, look);
            }
            true
        });
        if is_whole {
            self.forget_all_but(profile, look);
        }
        self.is_busy.store(false, Relaxed);
    }

    fn learn(&self, profile: &Profile, mapping: &Mapping<'_>, look: u64) {
        let range = mapping.range.start as u64..mapping.range.end as u64;
        let file = mapping.identity();
        if let Some(same) = self.all().iter().find(|known| known.is(&range, file)) {
            return same.seen.store(look, Relaxed);
        }
        let lies_here = |known: &&KnownModule| {
            let other = known.range();
            other.start < range.end && range.start < other.end
        };
        for gone in self.all().iter().filter(lies_here) {
            gone.set(0..0, 0);
        }
        let path = str::from_utf8(mapping.path).unwrap_or("?");
        profile.add_module(range.start, range.end, mapping.file_offset, path);
        self.remember(range, file, look);
    }

    fn remember(&self, range: Range<u64>, file: u64, look: u64) {
        let count = self.count.load(Relaxed);
        let free = self.all().iter().find(|known| known.range().is_empty());
        let Some(known) = free.or_else(|| self.known.get(count)) else {
            return;
        };
        known.set(range, file);
        known.seen.store(look, Relaxed);
        if free.is_none() {
            self.count.store(count + 1, Relaxed);
        }
    }

    /// Marks modules that the scan `look` did not see, and whose addresses no other module has
    /// taken.
    fn forget_all_but(&self, profile: &Profile, look: u64) {
        let is_gone =
            |known: &&KnownModule| known.seen.load(Relaxed) != look && !known.range().is_empty();
        for gone in self.all().iter().filter(is_gone) {
            let range = gone.range();
            profile.add_module(range.start, range.end, 0, "");
            gone.set(0..0, 0);
        }
    }
}
