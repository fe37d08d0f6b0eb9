//! What is known of one name, and what follows from it. Time is an argument, in monotonic
//! milliseconds.

use std::net::SocketAddr;

use super::table::Done;
use crate::config::ServerSettings;
use crate::limits::{ADDRESS_FAILED_MS, HOST_ADDRESSES_MAX, HOST_RETRY_MS};

/// How old the addresses of a name may be that one connection uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// When the connection was asked for: what was found after that is new enough, whatever else.
    pub(super) since_ms: u64,
    /// Without another thought.
    pub(super) fresh_ms: u64,
    /// Beyond that, while there are no newer ones.
    pub(super) stale_ms: u64,
}

/// One name and port.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// In the order of the resolver; empty until the name was resolved once.
    addresses: Vec<Address>,
    resolved_ms: u64,
    /// The last try failed: none before this.
    retry_ms: u64,
    /// Somebody resolves the name.
    under_way: Option<Done>,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    address: SocketAddr,
    /// It took no connection: until then it is tried last.
    failed_until_ms: u64,
}

/// What to do for a connection to a name.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Try these addresses in turn.
    Use { addresses: Vec<SocketAddr>, is_stale: bool },
    /// Resolve the name. Until that is done there may be stale addresses to fall back to.
    Resolve { has_stale: bool },
    /// Somebody resolves it: wait for the end.
    Wait(Done),
    /// It could not be resolved a moment ago.
    Refuse,
}

impl Terms {
    pub(super) fn of(settings: &ServerSettings, now_ms: u64) -> Terms {
        Terms {
            since_ms: now_ms,
            fresh_ms: u64::from(settings.origin_address_ms_max),
            stale_ms: u64::from(settings.origin_stale_address_ms_max),
        }
    }
}

impl Host {
    /// What to do now. Stale addresses are a substitute (RFC 8767 §5): who finds that nobody
    /// resolves the name does it; all others go on with what is there.
    pub(super) fn step(&self, terms: Terms, now_ms: u64) -> Step {
        let age_ms = now_ms.saturating_sub(self.resolved_ms);
        let is_known = !self.addresses.is_empty();
        if is_known && (age_ms < terms.fresh_ms || self.resolved_ms >= terms.since_ms) {
            return Step::Use { addresses: self.in_order(now_ms), is_stale: false };
        }
        let has_stale = is_known && age_ms < terms.fresh_ms + terms.stale_ms;
        if self.under_way.is_none() && now_ms >= self.retry_ms {
            return Step::Resolve { has_stale };
        }
        if has_stale {
            return Step::Use { addresses: self.in_order(now_ms), is_stale: true };
        }
        self.under_way.clone().map_or(Step::Refuse, Step::Wait)
    }

    /// As resolved; those that took no connection lately come last.
    fn in_order(&self, now_ms: u64) -> Vec<SocketAddr> {
        let mut ordered = self.addresses.clone();
        ordered.sort_by_key(|one| one.has_failed(now_ms));
        ordered.iter().map(|one| one.address).collect()
    }

    /// Somebody begins to resolve the name; `done` tells of the end.
    pub(super) fn begin(&mut self, done: Done) {
        self.under_way = Some(done);
    }

    /// Is this the resolution that is under way?
    pub(super) fn is_under_way(&self, done: &Done) -> bool {
        self.under_way.as_ref().is_some_and(|own| own.is_same(done))
    }

    /// The resolution that is under way has ended. No address is as good as an error.
    pub(super) fn end(&mut self, found: &[SocketAddr], now_ms: u64) {
        self.under_way = None;
        if found.is_empty() {
            self.retry_ms = now_ms + HOST_RETRY_MS;
            return;
        }
        let mut addresses: Vec<Address> = Vec::new();
        for &address in found {
            let is_new = addresses.iter().all(|other| other.address != address);
            if is_new && addresses.len() < HOST_ADDRESSES_MAX {
                let failed_until_ms = self.find(address).map_or(0, |old| old.failed_until_ms);
                addresses.push(Address { address, failed_until_ms });
            }
        }
        self.addresses = addresses;
        self.resolved_ms = now_ms;
        self.retry_ms = 0;
    }

    /// Would [`Host::put_last`] change the order? An address that stands alone is tried anyway.
    pub(super) fn can_put_last(&self, address: SocketAddr, now_ms: u64) -> bool {
        let found = self.find(address);
        self.addresses.len() > 1 && found.is_some_and(|one| !one.has_failed(now_ms))
    }

    /// The address took no connection: for a while it is tried last. False if nothing changes.
    pub(super) fn put_last(&mut self, address: SocketAddr, now_ms: u64) -> bool {
        if !self.can_put_last(address, now_ms) {
            return false;
        }
        for one in self.addresses.iter_mut().filter(|one| one.address == address) {
            one.failed_until_ms = now_ms + ADDRESS_FAILED_MS;
        }
        true
    }

    fn find(&self, address: SocketAddr) -> Option<&Address> {
        self.addresses.iter().find(|one| one.address == address)
    }
}

impl Address {
    fn has_failed(&self, now_ms: u64) -> bool {
        now_ms < self.failed_until_ms
    }
}
