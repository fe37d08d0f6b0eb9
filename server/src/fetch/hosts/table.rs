//! The table of names with their addresses and with the resolutions in progress.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_sync::{BravoRwLock, LockClass};
use tokio::sync::watch;

use super::host::{Host, Step, Terms};
use super::resolve::Resolver;
use crate::clock;
use crate::config::Sites;
use crate::dns::{DnsServers, FoundAddresses, ServiceTarget};
use crate::limits::HOSTS_MAX;

/// The addresses of origins by authority, for all workers.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) resolver: Resolver,
    table: BravoRwLock<HashMap<Box<str>, Host>>,
}

/// A signal for the connections that wait for a resolution to end. It is sent even if the resolving
/// thread dies.
#[derive(Clone, Debug)]
pub(super) struct Done(watch::Receiver<()>);

/// The result of an attempt to start a resolution.
#[derive(Debug)]
pub(super) enum ResolutionStart {
    /// The caller must resolve the name.
    Own(Resolution),
    /// Another connection is already resolving the name, or has just tried to resolve it.
    Another,
    /// The table is full of names that are being resolved.
    NoRoom,
}

/// A resolution in progress. Dropping it records a failed resolution in the table.
#[derive(Debug)]
pub(super) struct Resolution {
    hosts: Arc<Hosts>,
    authority: Box<str>,
    /// Dropped once the result is in the table, which wakes the waiting connections.
    _wake: watch::Sender<()>,
    has_ended: bool,
}

impl Hosts {
    /// Creates an empty table of names, which `resolver` will resolve.
    pub(crate) fn new(resolver: Resolver) -> Hosts {
        Hosts { resolver, table: BravoRwLock::new(LockClass::Hosts, HashMap::new()) }
    }

    /// Returns the next step of a connection to `authority`.
    pub(super) fn step(&self, authority: &str, terms: Terms, now_ms: u64) -> Step {
        let table = self.table.read();
        let host = table.get(authority);
        host.map_or(Step::Resolve, |host| host.step(terms, now_ms))
    }

    /// Lets the caller resolve the name, unless another connection is resolving it or has just
    /// tried to resolve it. Evicts other names if the table is full.
    pub(super) fn begin(
        self: &Arc<Hosts>,
        authority: &str,
        terms: Terms,
        now_ms: u64,
    ) -> ResolutionStart {
        let (wake, done) = watch::channel(());
        let mut table = self.table.write();
        if table.len() >= HOSTS_MAX && !table.contains_key(authority) {
            evict(&mut table);
            if table.len() >= HOSTS_MAX {
                return ResolutionStart::NoRoom;
            }
        }
        let host = table.entry(authority.into()).or_default();
        let Step::Resolve = host.step(terms, now_ms) else {
            return ResolutionStart::Another;
        };
        host.begin(Done(done), now_ms);
        drop(table);
        let (hosts, authority) = (Arc::clone(self), authority.into());
        ResolutionStart::Own(Resolution { hosts, authority, _wake: wake, has_ended: false })
    }

    /// Resolves the name of an origin, unless it has addresses that are younger than `age_ms_max`,
    /// so that they are known if the name servers fail before its first connection. This function
    /// blocks. If the table is full, does nothing.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub(crate) fn prepare(
        &self,
        servers: &DnsServers,
        target: &ServiceTarget,
        age_ms_max: u64,
    ) -> io::Result<()> {
        let (authority, now_ms) = (target.authority(), clock::monotonic_ms());
        let is_known = |host: &Host| host.has_younger(age_ms_max, now_ms);
        if self.table.read().get(&*authority).is_some_and(is_known) {
            return Ok(());
        }
        let found = self.resolver.resolve(servers, &target.host, target.port)?;
        let mut table = self.table.write();
        if table.len() < HOSTS_MAX || table.contains_key(&*authority) {
            table.entry(authority.into()).or_default().prepare(&found, clock::monotonic_ms());
        }
        Ok(())
    }

    /// Records that the address failed, so that it is tried last. Returns whether the order of the
    /// addresses has changed: false if it is the only address of the name, or was already recorded
    /// as failed.
    pub(super) fn put_last(&self, authority: &str, address: SocketAddr, now_ms: u64) -> bool {
        let can = |host: &Host| host.can_put_last(address);
        self.change(authority, can, |host| host.put_last(address, now_ms))
    }

    /// Records that the address has accepted a connection, so that it is no longer tried last.
    pub(super) fn put_back(&self, authority: &str, address: SocketAddr) {
        let can = |host: &Host| host.can_put_back(address);
        self.change(authority, can, |host| {
            host.put_back(address);
            true
        });
    }

    /// Lets the caller try an address that is due, and postpones the address for other
    /// connections. Returns whether it is due: false, for example, if another connection is already
    /// trying it.
    pub(super) fn take_due(&self, authority: &str, address: SocketAddr, now_ms: u64) -> bool {
        self.change(authority, |_| true, |host| host.take_due(address, now_ms))
    }

    /// Records that all addresses in `tried` failed. If the name has no other address, the next
    /// connection resolves it again.
    pub(super) fn give_up(&self, authority: &str, tried: &[SocketAddr]) {
        let can = |host: &Host| host.can_give_up(tried);
        self.change(authority, can, |host| {
            host.give_up(tried);
            true
        });
    }

    /// Changes the entry of a name if `can` says that there is something to change; returns whether
    /// the entry has changed. Takes the lock only for reading if there is nothing to change.
    fn change(
        &self,
        authority: &str,
        can: impl FnOnce(&Host) -> bool,
        change: impl FnOnce(&mut Host) -> bool,
    ) -> bool {
        if !self.table.read().get(authority).is_some_and(can) {
            return false;
        }
        self.table.write().get_mut(authority).is_some_and(change)
    }

    /// Removes every name that is not an origin of these sites, unless it is being resolved. A
    /// request that began with older settings may insert such a name again; it then stays until the
    /// next reload.
    pub(crate) fn retain(&self, sites: &Sites) {
        let addresses = sites.origin_addresses();
        let named: HashSet<&str> = addresses.map(|origin| origin.authority.as_str()).collect();
        self.table
            .write()
            .retain(|authority, host| host.is_being_resolved() || named.contains(&**authority));
    }

    /// Returns the number of names.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.table.read().len()
    }
}

/// Removes a quarter of the names that are not being resolved: those whose last resolution began
/// the longest time ago. Names in use are resolved repeatedly, so the removed names have probably
/// been unused for the longest time.
fn evict(table: &mut HashMap<Box<str>, Host>) {
    let idle = table.values().filter(|host| !host.is_being_resolved());
    let mut began: Vec<u64> = idle.map(Host::began_ms).collect();
    if began.is_empty() {
        return;
    }
    let quarter = began.len() / 4;
    let (_, &mut newest_ms, _) = began.select_nth_unstable(quarter);
    table.retain(|_, host| host.is_being_resolved() || host.began_ms() > newest_ms);
}

impl Resolution {
    /// Records the addresses that were found, and wakes the waiting connections.
    pub(super) fn end(mut self, found: &FoundAddresses, now_ms: u64) {
        self.note(found, now_ms);
    }

    fn note(&mut self, found: &FoundAddresses, now_ms: u64) {
        self.has_ended = true;
        let mut table = self.hosts.table.write();
        // The name is in the table: a name that is being resolved is never removed.
        if let Some(host) = table.get_mut(&self.authority) {
            host.end(found, now_ms);
        }
    }
}

impl Drop for Resolution {
    fn drop(&mut self) {
        if !self.has_ended {
            self.note(&FoundAddresses::default(), clock::monotonic_ms());
        }
    }
}

impl Done {
    /// Waits for the end of the resolution.
    pub(super) async fn wait(mut self) {
        // Nothing is ever sent: dropping the sender signals the end.
        let _ = self.0.changed().await;
    }
}
