//! What lies where in memory, told to the profile as it turns up.
//!
//! No ordering is needed: a range that is not seen yet is looked for once more than needed.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use forebay_sync::profile::Profile;

use crate::calls::CallPermit;
use crate::errno;
use crate::proc::{self, Mapping};

/// Ranges that are remembered.
const KNOWN_MAX: usize = 1024;

/// The modules that the profile has been told of: none if all is zero.
#[derive(Debug)]
pub(crate) struct ModuleTable {
    is_busy: AtomicBool,
    /// A library was taken out of memory since somebody looked.
    is_in_doubt: AtomicBool,
    /// How often somebody looked.
    looks: AtomicU64,
    count: AtomicUsize,
    known: [KnownModule; KNOWN_MAX],
}

/// A module; none if `end` is 0.
#[derive(Debug)]
struct KnownModule {
    start: AtomicU64,
    end: AtomicU64,
    /// [Which file](Mapping::identity).
    file: AtomicU64,
    /// The look by which it was last seen.
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
    /// Is the module known that an address lies in?
    pub(crate) fn knows(&self, address: u64) -> bool {
        let is_in_doubt = self.is_in_doubt.load(Relaxed);
        !is_in_doubt && self.all().iter().any(|known| known.range().contains(&address))
    }

    fn all(&self) -> &[KnownModule] {
        &self.known[..self.count.load(Relaxed).min(KNOWN_MAX)]
    }

    /// What is known may be there no more, and something else in its place.
    pub(crate) fn doubt(&self) {
        self.is_in_doubt.store(true, Relaxed);
    }

    /// Tells the profile what lies in memory now and did not before, and what did and does not now,
    /// if that can be found out; does nothing if somebody does so.
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
        // First: what is taken out meanwhile is in doubt again.
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

    /// Tells the profile what is there no more, where nothing else lies now.
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
