//! The policies that decide which objects are evicted. All but the segments evict single objects.

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
    /// Which object.
    pub(crate) key: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// How many requests came before.
    pub(crate) now: u32,
    /// A stored copy is stale, so the object is fetched and replaces the copy.
    pub(crate) is_stale: bool,
    /// When it becomes stale if it is fetched now.
    pub(crate) stale_from: u32,
}

/// A cache without bytes.
pub(crate) trait Policy {
    /// Looks the object up, and stores it if it is absent. Returns how many of its bytes were
    /// there.
    fn request(&mut self, request: &Request) -> u32;

    /// The costs of a policy of segments; `None` for the others.
    fn costs(&self) -> Option<segments::Costs> {
        None
    }
}

/// A policy that a trace can be given to.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    make: fn(&Trace, u64) -> Box<dyn Policy>,
}

/// The policy that the segments are to come near.
pub(crate) const REFERENCE: &str = "S3-FIFO";

/// All that hold single objects.
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
        about: "a window of 1 %, then a two-part LRU; victims leave only for more popular objects",
        make: |trace, budget| Box::new(tiny_lfu::TinyLfu::new(trace, budget)),
    },
    Entry {
        name: "quick_cache",
        about: "the crate as it is: a form of Clock-PRO",
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
