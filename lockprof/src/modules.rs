//! What lies where in memory, told to the profile as it turns up.
//!
//! No ordering is needed: a range that is not seen yet is looked for once more than needed.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use forebay_sync::profile::Profile;

use crate::proc;

/// Ranges that are remembered.
const KNOWN_MAX: usize = 1024;

/// The modules that the profile has been told of: none if all is zero.
#[derive(Debug)]
pub(crate) struct Modules {
    is_busy: AtomicBool,
    count: AtomicUsize,
    known: [(AtomicU64, AtomicU64); KNOWN_MAX],
}

impl Modules {
    /// Is the module known that an address lies in?
    pub(crate) fn knows(&self, address: u64) -> bool {
        let count = self.count.load(Relaxed).min(KNOWN_MAX);
        let lies_in = |(start, end): &(AtomicU64, AtomicU64)| {
            (start.load(Relaxed)..end.load(Relaxed)).contains(&address)
        };
        self.known[..count].iter().any(lies_in)
    }

    /// Tells the profile of all modules that it does not know; does nothing if somebody does so.
    #[cold]
    pub(crate) fn look(&self, profile: &Profile) {
        if self.is_busy.swap(true, Relaxed) {
            return;
        }
        proc::mappings(|mapping| {
            let (start, end) = (mapping.range.start as u64, mapping.range.end as u64);
            if mapping.is_code && !mapping.path.is_empty() && !self.knows(start) {
                let path = str::from_utf8(mapping.path).unwrap_or("");
                profile.add_module(start, end, mapping.file_offset, path);
                self.remember(start, end);
            }
            true
        });
        self.is_busy.store(false, Relaxed);
    }

    fn remember(&self, start: u64, end: u64) {
        let index = self.count.load(Relaxed);
        if let Some((known_start, known_end)) = self.known.get(index) {
            known_start.store(start, Relaxed);
            known_end.store(end, Relaxed);
            self.count.store(index + 1, Relaxed);
        }
    }
}
