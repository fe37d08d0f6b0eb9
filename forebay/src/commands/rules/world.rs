//! The environment of rules that are tried without a server.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};

use forebay_rules::ast::{AddressKind, PortKind};
use forebay_rules::run::{CacheResult, RuleEnvironment};

/// The environment of one request, with fixed values.
#[derive(Debug)]
pub(super) struct TrialWorld {
    pub(super) client: IpAddr,
    /// The result that the lookup will have.
    pub(super) found: CacheResult,
    /// The time, in seconds since 1970.
    pub(super) now: u64,
    /// The random number from which `%{RANDOM}` is computed.
    pub(super) random: u64,
    /// The current result of the lookup: `CacheResult::None` before the lookup.
    pub(super) cache: Cell<CacheResult>,
    /// Indexes of the counters that rules increased.
    pub(super) counted: RefCell<Vec<u32>>,
}

impl Default for TrialWorld {
    fn default() -> TrialWorld {
        TrialWorld {
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            found: CacheResult::Miss,
            now: forebay_server::clock::unix_seconds(),
            random: 0,
            cache: Cell::default(),
            counted: RefCell::default(),
        }
    }
}

/// All results of a lookup.
pub(super) const LOOKUPS: [CacheResult; 4] =
    [CacheResult::Miss, CacheResult::HitStale, CacheResult::HitFresh, CacheResult::Skipped];

impl RuleEnvironment for TrialWorld {
    fn address(&self, which: AddressKind) -> Option<IpAddr> {
        let local = match self.client {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        };
        match which {
            AddressKind::Client => Some(self.client),
            AddressKind::Inbound => Some(local),
            AddressKind::Server | AddressKind::Outbound => None,
        }
    }

    fn port(&self, which: PortKind) -> u16 {
        match which {
            PortKind::Local => 80,
            PortKind::Remote => 40_000,
        }
    }

    fn cache(&self) -> CacheResult {
        self.cache.get()
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn random(&self) -> u64 {
        self.random
    }

    fn request_number(&self) -> u64 {
        1
    }

    fn process_id(&self) -> &str {
        "00000000-0000-4000-8000-000000000000"
    }

    fn transaction_count(&self) -> u64 {
        1
    }

    fn next_hop_host(&self) -> &str {
        "origin.example"
    }

    fn next_hop_port(&self) -> u16 {
        80
    }

    fn count(&self, counter: u32) {
        self.counted.borrow_mut().push(counter);
    }
}
