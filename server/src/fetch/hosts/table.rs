//! The table of names, and the end of every resolution that was begun.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_sync::{BravoRwLock, LockClass};
use tokio::sync::watch;

use super::host::{Host, Step, Terms};
use super::resolve::Resolver;
use crate::clock;
use crate::config::Sites;
use crate::limits::HOSTS_MAX;

/// What all workers know of the names of origins, by authority.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) resolver: Resolver,
    table: BravoRwLock<HashMap<Box<str>, Host>>,
}

/// The end of a resolution, for those who wait for it: at the latest when its thread dies.
#[derive(Clone, Debug)]
pub(super) struct Done(watch::Receiver<()>);

/// The duty to resolve one name.
#[derive(Debug)]
pub(super) struct Resolution {
    hosts: Arc<Hosts>,
    authority: Box<str>,
    /// Wakes who waits, when it is dropped: after the table has what was found.
    _wake: watch::Sender<()>,
    done: Done,
    has_ended: bool,
}

impl Hosts {
    /// An empty table; `resolver` finds what is to stand in it.
    pub(crate) fn new(resolver: Resolver) -> Hosts {
        Hosts { resolver, table: BravoRwLock::new(LockClass::Hosts, HashMap::new()) }
    }

    /// What to do for a connection to `authority`.
    pub(super) fn step(&self, authority: &str, terms: Terms, now_ms: u64) -> Step {
        let table = self.table.read();
        let host = table.get(authority);
        host.map_or(Step::Resolve { has_stale: false }, |host| host.step(terms, now_ms))
    }

    /// Makes it the caller's duty to resolve the name, or says that another took it first.
    pub(super) fn begin(
        self: &Arc<Hosts>,
        authority: &str,
        terms: Terms,
        now_ms: u64,
    ) -> Option<(Resolution, Done)> {
        let (wake, done) = watch::channel(());
        let done = Done(done);
        let mut table = self.table.write();
        if table.len() >= HOSTS_MAX && !table.contains_key(authority) {
            // Never with a usual configuration. Who resolves one of them now ends it in vain.
            table.clear();
        }
        let host = table.entry(authority.into()).or_default();
        let Step::Resolve { .. } = host.step(terms, now_ms) else {
            return None;
        };
        host.begin(done.clone());
        drop(table);
        let resolution = Resolution {
            hosts: Arc::clone(self),
            authority: authority.into(),
            _wake: wake,
            done: done.clone(),
            has_ended: false,
        };
        Some((resolution, done))
    }

    /// The address took no connection: it is tried last for a while. False if it stood alone, or
    /// last already, which is found without keeping others from reading.
    pub(super) fn put_last(&self, authority: &str, address: SocketAddr, now_ms: u64) -> bool {
        let can = |host: &Host| host.can_put_last(address, now_ms);
        if !self.table.read().get(authority).is_some_and(can) {
            return false;
        }
        let mut table = self.table.write();
        table.get_mut(authority).is_some_and(|host| host.put_last(address, now_ms))
    }

    /// Forgets every name that is not an origin of these sites. A request that still goes by older
    /// settings may bring one back, until the next reload.
    pub(crate) fn retain(&self, sites: &Sites) {
        let named: HashSet<&str> =
            sites.iter().map(|site| site.origin.authority.as_str()).collect();
        self.table.write().retain(|authority, _| named.contains(&**authority));
    }

    /// Number of names.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.table.read().len()
    }
}

impl Resolution {
    /// Notes what was found, and wakes who waits for it.
    pub(super) fn end(mut self, found: &[SocketAddr], now_ms: u64) {
        self.note(found, now_ms);
    }

    fn note(&mut self, found: &[SocketAddr], now_ms: u64) {
        self.has_ended = true;
        let mut table = self.hosts.table.write();
        // The name may be gone, and may be back with a resolution of its own.
        let host = table.get_mut(&self.authority).filter(|host| host.is_under_way(&self.done));
        if let Some(host) = host {
            host.end(found, now_ms);
        }
    }
}

impl Drop for Resolution {
    fn drop(&mut self) {
        if !self.has_ended {
            self.note(&[], clock::monotonic_ms());
        }
    }
}

impl Done {
    /// Waits for the end.
    pub(super) async fn wait(mut self) {
        // Nothing is ever sent: the end is that the sender is gone.
        let _ = self.0.changed().await;
    }

    pub(super) fn is_same(&self, other: &Done) -> bool {
        self.0.same_channel(&other.0)
    }
}
