//! The addresses of one name, and the decision on how a connection uses them. The functions get the
//! time as an argument, in monotonic milliseconds.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::table::Done;
use crate::config::ServerSettings;
use crate::dns::FoundAddresses;
use crate::limits::{
    ADDRESS_FAILED_MS, DNS_VALID_MS_MIN, HOST_ADDRESSES_MAX, HOST_DOUBTED_MS, HOST_RETRY_MS,
    HOST_WAIT_MS,
};

/// The limits on the age of addresses and on waiting, for one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The time at which the connection was requested. Addresses that were found later than that
    /// are always new enough.
    pub(super) since_ms: u64,
    /// The largest age of fresh addresses, which are used without a new resolution.
    pub(super) fresh_ms: u64,
    /// The additional age up to which stale addresses are used if the name cannot be resolved in
    /// time.
    pub(super) stale_ms: u64,
    /// How long a connection that has stale addresses waits for new ones.
    pub(super) wait_ms: u64,
}

/// The state of one name and port.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The addresses in the resolver's order; empty until the name was resolved once.
    addresses: Vec<Address>,
    resolved_ms: u64,
    /// How long the addresses are fresh according to the name server, which may be shorter than
    /// [`Terms::fresh_ms`]; `None` if the resolver does not say so.
    valid_ms: Option<u64>,
    /// Whether all addresses have failed since they were found, and none has accepted a connection
    /// after that.
    has_only_failed: bool,
    /// The time of the last failed resolution; `None` if a later resolution succeeded.
    failed_ms: Option<u64>,
    /// The time at which the last resolution began.
    began_ms: u64,
    /// The time at which the last resolution began that was due to failures of all addresses.
    doubted_ms: Option<u64>,
    /// The end of the resolution in progress.
    in_progress: Option<Done>,
    /// How often the addresses have been rotated, so that successive connections start with
    /// different addresses.
    turn: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    address: SocketAddr,
    /// The time until which the address is tried last, if the last connection attempt to it failed.
    /// After that time, one connection tries it first.
    failed_until_ms: Option<u64>,
}

/// The next step of a connection to a name.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Try these addresses, one after the other. `due` is an address that failed before and may be
    /// tried again: see [`Host::take_due`].
    Use { addresses: Vec<SocketAddr>, is_stale: bool, due: Option<SocketAddr> },
    /// Resolve the name.
    Resolve,
    /// Wait for the end of the resolution in progress. If there are stale addresses, wait only
    /// until `until_ms`.
    Wait { done: Done, until_ms: Option<u64> },
    /// Give up, because an attempt to resolve the name has just failed.
    Refuse,
}

impl Terms {
    /// Returns the limits for a connection that begins now and must be open at `deadline_ms`. The
    /// connection waits for addresses for at most half of the remaining time, and has the other
    /// half for connecting.
    pub(super) fn of(settings: &ServerSettings, now_ms: u64, deadline_ms: u64) -> Terms {
        Terms {
            since_ms: now_ms,
            fresh_ms: u64::from(settings.origin_address_ms_max),
            stale_ms: u64::from(settings.origin_stale_address_ms_max),
            wait_ms: deadline_ms.saturating_sub(now_ms) / 2,
        }
    }
}

impl Host {
    /// Returns the next step of a connection. Stale addresses are only a substitute (RFC 8767 §5):
    /// a connection uses them if the name cannot be resolved in time.
    pub(super) fn step(&self, terms: Terms, now_ms: u64) -> Step {
        let age_ms = now_ms.saturating_sub(self.resolved_ms);
        let is_known = !self.addresses.is_empty();
        if is_known && self.is_fresh(terms, now_ms) {
            return self.go(false, now_ms);
        }
        let has_stale = is_known && age_ms < terms.fresh_ms + terms.stale_ms;
        let Some(done) = &self.in_progress else {
            return match self.has_failed_within(HOST_RETRY_MS, now_ms) {
                false => Step::Resolve,
                true if has_stale => self.go(true, now_ms),
                true => Step::Refuse,
            };
        };
        let until_ms = self.wait_until_ms(terms, now_ms);
        if has_stale && now_ms >= until_ms {
            return self.go(true, now_ms);
        }
        Step::Wait { done: done.clone(), until_ms: has_stale.then_some(until_ms) }
    }

    /// Whether the addresses are used without a new resolution. Addresses that have all failed may
    /// be out of date, so they are not, except for a while after a resolution found them again.
    fn is_fresh(&self, terms: Terms, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(self.resolved_ms);
        let fresh_ms = terms.fresh_ms.min(self.valid_ms.unwrap_or(u64::MAX));
        let is_new = age_ms < fresh_ms || self.resolved_ms >= terms.since_ms;
        let is_confirmed = || {
            let has_ended = self.in_progress.is_none() && self.failed_ms.is_none();
            has_ended && self.doubted_ms.is_some_and(|ms| now_ms < ms + HOST_RETRY_MS)
        };
        is_new && (!self.has_only_failed || is_confirmed())
    }

    /// Returns the time until which a connection that has stale addresses waits for new ones. The
    /// connection does not wait at all if a resolution failed a short time ago, and in no case
    /// longer than until [`HOST_WAIT_MS`] after the resolution began.
    fn wait_until_ms(&self, terms: Terms, now_ms: u64) -> u64 {
        if self.has_failed_within(HOST_DOUBTED_MS, now_ms) {
            return now_ms;
        }
        let own_ms = terms.since_ms.saturating_add(terms.wait_ms);
        own_ms.min(self.began_ms + HOST_WAIT_MS)
    }

    fn has_failed_within(&self, limit_ms: u64, now_ms: u64) -> bool {
        self.failed_ms.is_some_and(|failed_ms| now_ms < failed_ms + limit_ms)
    }

    fn go(&self, is_stale: bool, now_ms: u64) -> Step {
        let due = self.addresses.iter().find(|one| one.is_due(now_ms));
        let due = due.map(|one| one.address);
        Step::Use { addresses: self.in_order(), is_stale, due }
    }

    /// Returns the addresses in the order in which to try them. Addresses take turns only with
    /// neighbours of the same family, because the resolver has chosen the order of the families
    /// (RFC 6724). Addresses that failed come last.
    fn in_order(&self) -> Vec<SocketAddr> {
        let of = |failed| self.addresses.iter().filter(move |one| one.has_failed() == failed);
        let mut ordered: Vec<SocketAddr> = of(false).map(|one| one.address).collect();
        if ordered.len() > 1 {
            let turn = self.turn.fetch_add(1, Relaxed);
            for family in ordered.chunk_by_mut(|one, next| one.is_ipv4() == next.is_ipv4()) {
                family.rotate_left(turn % family.len());
            }
        }
        ordered.extend(of(true).map(|one| one.address));
        ordered
    }

    /// Lets the caller try a failed address first, if the address is due; returns whether it is
    /// due. The call postpones the address for other connections, because an address that does not
    /// answer should delay only one connection.
    pub(super) fn take_due(&mut self, address: SocketAddr, now_ms: u64) -> bool {
        let found = self.find_mut(address).filter(|one| one.is_due(now_ms));
        let is_due = found.is_some();
        if let Some(one) = found {
            one.failed_until_ms = Some(now_ms + ADDRESS_FAILED_MS);
        }
        is_due
    }

    /// Records that a resolution of the name begins; `done` signals its end.
    pub(super) fn begin(&mut self, done: Done, now_ms: u64) {
        self.in_progress = Some(done);
        self.began_ms = now_ms;
        if self.has_only_failed {
            self.doubted_ms = Some(now_ms);
        }
    }

    /// Whether the name is being resolved.
    pub(super) fn is_being_resolved(&self) -> bool {
        self.in_progress.is_some()
    }

    /// Returns the time at which the last resolution began, which may still be in progress.
    pub(super) fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Records the result of the resolution. A result without an address counts as a failure.
    pub(super) fn end(&mut self, found: &FoundAddresses, now_ms: u64) {
        let FoundAddresses { addresses: found, valid_s } = found;
        self.in_progress = None;
        if found.is_empty() {
            self.failed_ms = Some(now_ms);
            return;
        }
        let mut addresses: Vec<Address> = Vec::new();
        for &address in found.iter() {
            let is_new = addresses.iter().all(|other| other.address != address);
            if is_new && addresses.len() < HOST_ADDRESSES_MAX {
                let failed_until_ms = self.find(address).and_then(|old| old.failed_until_ms);
                addresses.push(Address { address, failed_until_ms });
            }
        }
        self.addresses = addresses;
        self.valid_ms = valid_s.map(|valid_s| (u64::from(valid_s) * 1000).max(DNS_VALID_MS_MIN));
        self.resolved_ms = now_ms;
        self.has_only_failed = false;
        self.failed_ms = None;
    }

    /// Whether the name has addresses that were found less than `age_ms` ago, or is being resolved.
    pub(super) fn has_younger(&self, age_ms: u64, now_ms: u64) -> bool {
        let is_young = now_ms.saturating_sub(self.resolved_ms) < age_ms;
        self.is_being_resolved() || !self.addresses.is_empty() && is_young
    }

    /// Records addresses that were found without a connection. A resolution for a connection that
    /// has begun comes first.
    pub(super) fn prepare(&mut self, found: &FoundAddresses, now_ms: u64) {
        if !self.is_being_resolved() {
            self.end(found, now_ms);
        }
    }

    /// Whether [`Host::give_up`] would change anything: `tried` contains all known addresses of the
    /// name, and the name is not yet marked as having only failed addresses.
    pub(super) fn can_give_up(&self, tried: &[SocketAddr]) -> bool {
        !self.has_only_failed && self.addresses.iter().all(|one| tried.contains(&one.address))
    }

    /// Records that all addresses in `tried` failed. If the name has no other address, the next
    /// connection resolves it again, at most once in [`HOST_RETRY_MS`].
    pub(super) fn give_up(&mut self, tried: &[SocketAddr]) {
        self.has_only_failed |= self.can_give_up(tried);
    }

    /// Whether [`Host::put_last`] would change the order of the addresses.
    pub(super) fn can_put_last(&self, address: SocketAddr) -> bool {
        self.addresses.len() > 1 && self.find(address).is_some_and(|one| !one.has_failed())
    }

    /// Records that the address failed, so that it is tried last. Returns whether the order of the
    /// addresses has changed.
    pub(super) fn put_last(&mut self, address: SocketAddr, now_ms: u64) -> bool {
        let can = self.can_put_last(address);
        if let Some(one) = self.find_mut(address).filter(|_| can) {
            one.failed_until_ms = Some(now_ms + ADDRESS_FAILED_MS);
        }
        can
    }

    /// Whether [`Host::put_back`] would change anything.
    pub(super) fn can_put_back(&self, address: SocketAddr) -> bool {
        self.find(address).is_some_and(|one| self.has_only_failed || one.has_failed())
    }

    /// Records that the address has accepted a connection.
    pub(super) fn put_back(&mut self, address: SocketAddr) {
        if let Some(one) = self.find_mut(address) {
            one.failed_until_ms = None;
            self.has_only_failed = false;
        }
    }

    fn find(&self, address: SocketAddr) -> Option<&Address> {
        self.addresses.iter().find(|one| one.address == address)
    }

    fn find_mut(&mut self, address: SocketAddr) -> Option<&mut Address> {
        self.addresses.iter_mut().find(|one| one.address == address)
    }
}

impl Address {
    fn has_failed(&self) -> bool {
        self.failed_until_ms.is_some()
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.failed_until_ms.is_some_and(|until_ms| now_ms >= until_ms)
    }
}
