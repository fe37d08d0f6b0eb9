//! An environment for rules in tests, also used by the fuzz target `rules_run`.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
};

use forebay_rules::{
    ast::{AddressKind, PortKind},
    run::{CacheResult, RuleEnvironment},
};

/// The values that rules read from their environment.
pub(crate) struct World {
    pub(crate) client: Option<IpAddr>,
    pub(crate) cache: CacheResult,
    pub(crate) now: u64,
    /// The next random number. Each number is one larger than the previous one.
    pub(crate) random: Cell<u64>,
    /// The index of the counter that each call of `count` names, in order.
    pub(crate) counted: RefCell<Vec<u32>>,
}

impl Default for World {
    fn default() -> World {
        World {
            client: Some(IpAddr::from([192, 0, 2, 77])),
            cache: CacheResult::HitFresh,
            // Thursday, 1 January 2026, 00:00 UTC.
            now: 1_767_225_600,
            random: Cell::default(),
            counted: RefCell::default(),
        }
    }
}

impl RuleEnvironment for World {
    fn address(&self, which: AddressKind) -> Option<IpAddr> {
        match which {
            AddressKind::Client => self.client,
            AddressKind::Inbound => "198.51.100.1".parse().ok(),
            AddressKind::Server | AddressKind::Outbound => None,
        }
    }
    fn port(&self, which: PortKind) -> u16 {
        match which {
            PortKind::Local => 8080,
            PortKind::Remote => 40_000,
        }
    }
    fn cache(&self) -> CacheResult {
        self.cache
    }
    fn now(&self) -> u64 {
        self.now
    }
    fn random(&self) -> u64 {
        self.random.replace(self.random.get().wrapping_add(1))
    }
    fn request_number(&self) -> u64 {
        42
    }
    fn process_id(&self) -> &str {
        "0f8e"
    }
    fn transaction_count(&self) -> u64 {
        3
    }
    fn next_hop_host(&self) -> &str {
        "origin.example"
    }
    fn next_hop_port(&self) -> u16 {
        8081
    }
    fn count(&self, counter: u32) {
        self.counted.borrow_mut().push(counter);
    }
}
