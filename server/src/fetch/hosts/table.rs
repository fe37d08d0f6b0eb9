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

/// Who resolves a name.
#[derive(Debug)]
pub(super) enum Begun {
    /// The caller.
    Own(Resolution),
    /// Another, who was first.
    Another,
    /// Nobody: the table is full of names that are being resolved.
    NoRoom,
}

/// The duty to resolve one name.
#[derive(Debug)]
pub(super) struct Resolution {
    hosts: Arc<Hosts>,
    authority: Box<str>,
    /// Wakes who waits, when it is dropped: after the table has what was found.
    _wake: watch::Sender<()>,
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
        host.map_or(Step::Resolve, |host| host.step(terms, now_ms))
    }

    /// Makes it the caller's duty to resolve the name, if nobody does it yet.
    pub(super) fn begin(self: &Arc<Hosts>, authority: &str, terms: Terms, now_ms: u64) -> Begun {
        let (wake, done) = watch::channel(());
        let mut table = self.table.write();
        if table.len() >= HOSTS_MAX && !table.contains_key(authority) {
            evict(&mut table);
            if table.len() >= HOSTS_MAX {
                return Begun::NoRoom;
            }
        }
        let host = table.entry(authority.into()).or_default();
        let Step::Resolve = host.step(terms, now_ms) else {
            return Begun::Another;
        };
        host.begin(Done(done), now_ms);
        drop(table);
        let (hosts, authority) = (Arc::clone(self), authority.into());
        Begun::Own(Resolution { hosts, authority, _wake: wake, has_ended: false })
    }

    /// The address took no connection: it is tried last. False if it stood alone, or was last
    /// already.
    pub(super) fn put_last(&self, authority: &str, address: SocketAddr, now_ms: u64) -> bool {
        let can = |host: &Host| host.can_put_last(address);
        self.change(authority, can, |host| host.put_last(address, now_ms))
    }

    /// The address took a connection: if it was last before, it is not any more.
    pub(super) fn put_back(&self, authority: &str, address: SocketAddr) {
        let can = |host: &Host| host.can_put_back(address);
        self.change(authority, can, |host| {
            host.put_back(address);
            true
        });
    }

    /// Makes it the caller's duty to try an address that is due, or says that another does.
    pub(super) fn take_due(&self, authority: &str, address: SocketAddr, now_ms: u64) -> bool {
        self.change(authority, |_| true, |host| host.take_due(address, now_ms))
    }

    /// None of these addresses took a connection. If the name has no others, it is soon resolved
    /// anew.
    pub(super) fn give_up(&self, authority: &str, tried: &[SocketAddr]) {
        let can = |host: &Host| host.can_give_up(tried);
        self.change(authority, can, |host| {
            host.give_up(tried);
            true
        });
    }

    /// Changes what is known of a name: false without a change. Where there is nothing to change,
    /// that is found without keeping others from reading.
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

    /// Forgets every name that is not an origin of these sites and is not being resolved. A request
    /// that still goes by older settings may bring one back, until the next reload.
    pub(crate) fn retain(&self, sites: &Sites) {
        let named: HashSet<&str> =
            sites.iter().map(|site| site.origin.authority.as_str()).collect();
        self.table
            .write()
            .retain(|authority, host| host.is_under_way() || named.contains(&**authority));
    }

    /// Number of names.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.table.read().len()
    }
}

/// Makes room: forgets a quarter of the names that are not being resolved. A name that is in use is
/// resolved again and again, so it takes those for which that began longest ago: first of all the
/// ones that are too old, then those that were not used longest.
fn evict(table: &mut HashMap<Box<str>, Host>) {
    let idle = table.values().filter(|host| !host.is_under_way());
    let mut began: Vec<u64> = idle.map(Host::began_ms).collect();
    if began.is_empty() {
        return;
    }
    let quarter = began.len() / 4;
    let (_, &mut newest_ms, _) = began.select_nth_unstable(quarter);
    table.retain(|_, host| host.is_under_way() || host.began_ms() > newest_ms);
}

impl Resolution {
    /// Notes what was found, and wakes who waits for it.
    pub(super) fn end(mut self, found: &[SocketAddr], now_ms: u64) {
        self.note(found, now_ms);
    }

    fn note(&mut self, found: &[SocketAddr], now_ms: u64) {
        self.has_ended = true;
        let mut table = self.hosts.table.write();
        // It is there: a name that is being resolved never leaves.
        if let Some(host) = table.get_mut(&self.authority) {
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
}
