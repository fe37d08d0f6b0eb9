//! The eviction policies. All except the segments evict single objects.

mod fifo;
mod links;
mod lru;
mod quick;
pub(crate) mod segments;
mod sieve;
mod sketch;
mod small_main;
mod tiny_lfu;

use crate::traces::Trace;

/// A request, as a policy sees it.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// The number of the object.
    pub(crate) key: u32,
    /// The length of the object in bytes.
    pub(crate) bytes: u32,
    /// The number of earlier requests.
    pub(crate) now: u32,
    /// Whether a stored copy is stale, so that the object is fetched and replaces the copy.
    pub(crate) is_stale: bool,
    /// The time from which the object is stale if it is fetched now.
    pub(crate) stale_from: u32,
}

/// A cache that stores no bytes, only decisions.
pub(crate) trait Policy {
    /// Looks the object up, and stores it if it is absent. Returns how many of its bytes were
    /// stored.
    fn request(&mut self, request: &Request) -> u32;

    /// Returns the costs of a policy of segments, and `None` for other policies.
    fn costs(&self) -> Option<segments::Costs> {
        None
    }
}

/// A policy that can run over a trace.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    make: fn(&Trace, u64) -> Box<dyn Policy>,
}

/// The policy with which the segments are compared.
pub(crate) const REFERENCE: &str = "S3-FIFO";

/// All policies that evict single objects.
pub(crate) const SINGLE: &[Entry] = &[
    Entry {
        name: "LRU",
        about: "evicts the least recently used object",
        make: |trace, budget| Box::new(lru::Lru::new(trace.bytes.len(), budget)),
    },
    Entry {
        name: "FIFO",
        about: "evicts the object that was stored first",
        make: |trace, budget| Box::new(fifo::Fifo::new(trace.bytes.len(), budget)),
    },
    Entry {
        name: "SIEVE",
        about: "a hand moves over a queue, from old to new; used objects keep their place",
        make: |trace, budget| Box::new(sieve::Sieve::new(trace.bytes.len(), budget)),
    },
    Entry {
        name: "W-TinyLFU",
        about: "a window of 1 %, then a two-part LRU; only more popular objects replace a victim",
        make: |trace, budget| Box::new(tiny_lfu::TinyLfu::new(trace, budget)),
    },
    Entry {
        name: "quick_cache",
        about: "the crate quick_cache, unchanged: a form of Clock-PRO",
        make: |trace, budget| Box::new(quick::Quick::new(trace, budget)),
    },
    Entry {
        name: "S3-FIFO, 2 uses",
        about: "S3-FIFO, but two uses are needed to get from small to main",
        make: |trace, budget| Box::new(small_main::SmallMain::new(trace, budget, 2)),
    },
    Entry {
        name: REFERENCE,
        about: "10 % small queue, one use promotes, ghosts for as many bytes as main",
        make: |trace, budget| Box::new(small_main::SmallMain::new(trace, budget, 1)),
    },
];

impl Entry {
    pub(crate) fn make(&self, trace: &Trace, budget_bytes: u64) -> Box<dyn Policy> {
        (self.make)(trace, budget_bytes)
    }
}

/// The entry with this name.
pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    SINGLE.iter().find(|entry| entry.name == name)
}
