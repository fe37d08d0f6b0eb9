//! A worker's connections to origins: a pool of idle connections for each origin, and a count of
//! open connections.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::connect::Connection;
use super::files::FileReaders;
use super::group::GroupState;
use super::health::OriginHealth;
use super::http2::{IdleLimits, SharedConnections};
use super::permits::{ExchangePermit, Permits};
use super::preempt::{Preempted, SlowWatch, StalledExchanges};
use super::proxy_header::ClientEnds;
use super::retry_budget::RetryBudget;
use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::{
    Config, OriginAddress, OriginGroup, OriginHttp2, ProxyProtocol, ServerSettings, Site,
};
use crate::counters::Counter;
use crate::limits::TRIES_ALONE_MAX;
use crate::transport::tls::OriginTlsConnector;
use crate::worker::Worker;

/// A map whose keys come from the configuration, so that clients cannot choose keys whose hashes
/// collide. Each request that is forwarded looks up several keys.
pub(super) type ConfiguredMap<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The pools of all origins to which this worker has sent requests.
#[derive(Default)]
pub(crate) struct Origins {
    pools: RefCell<ConfiguredMap<Rc<OriginPool>>>,
    /// The limits of pools in the current configuration; `None` before the first reload.
    pool_limits: Cell<Option<PoolLimits>>,
    pub(super) tls: OriginTlsConnector,
    /// The state of each group of origins, by its key.
    groups: RefCell<ConfiguredMap<Rc<GroupState>>>,
    /// The groups of the current configuration, by their keys; empty before the first reload. A
    /// request from before a reload may have groups with the same keys and other origins.
    current_groups: RefCell<ConfiguredMap<Arc<OriginGroup>>>,
    open_count: Cell<u64>,
    /// The number of health checks in progress.
    pub(super) check_count: Cell<usize>,
    /// The index of the group of origins whose checks start first, if they are due.
    pub(super) first_check: Cell<usize>,
}

/// Connections to one origin.
pub(crate) struct OriginPool {
    pub(super) authority: Rc<str>,
    idle: RefCell<VecDeque<IdleConnection>>,
    /// The connections over HTTP/2.
    pub(super) shared: SharedConnections,
    /// Whether the origin is no longer configured.
    is_closed: Cell<bool>,
    /// The permits of this origin: each exchange in progress holds one.
    permits: Rc<Permits>,
    stalled: StalledExchanges,
    pub(super) health: Rc<OriginHealth>,
    /// The client networks that have a lone attempt in progress: see [`TryAlone`].
    tries_alone: RefCell<Vec<ClientNetwork>>,
    /// The threads that read files, if the pool is that of a directory.
    pub(super) readers: FileReaders,
    /// Limits the requests that are sent on pooled connections which turn out to be closed.
    closed_reuses: RetryBudget,
    limits: PoolLimits,
}

/// The settings on which a pool depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PoolLimits {
    exchanges_max: u32,
    idle_count_max: usize,
    idle_ms_max: u64,
}

/// The largest share of requests, in percent, that are sent on a pooled connection which the origin
/// has already closed. An origin that closes connections after its answers without saying so would
/// otherwise get many requests twice.
const CLOSED_REUSE_PERCENT: u8 = 5;

struct IdleConnection {
    connection: Connection,
    since_ms: u64,
}

/// Counts an open connection, until this guard is dropped.
pub(crate) struct OpenGuard {
    worker: Rc<Worker>,
}

/// The right of a request to go to the origin by itself after collapsed fetches failed. Dropping it
/// ends the right.
pub(super) struct TryAlone {
    pool: Rc<OriginPool>,
    network: ClientNetwork,
}

impl Drop for TryAlone {
    fn drop(&mut self) {
        self.pool.tries_alone.borrow_mut().retain(|&network| network != self.network);
    }
}

impl Origins {
    /// Returns the pool of an origin. Creates a new pool if there is none. A request keeps the
    /// settings that it began with, but after a reload its connections come from the pools of the
    /// new configuration, so that the limits of that configuration hold.
    pub(crate) fn pool(&self, origin: &OriginAddress, settings: &ServerSettings) -> Rc<OriginPool> {
        self.pool_with_key(&pool_key(origin), &origin.authority, settings)
    }

    /// Returns the pool of a directory, as [`Origins::pool`] does for an origin. The pool has no
    /// connections; its permits limit the files that are open.
    pub(super) fn files_pool(&self, directory: &Path, settings: &ServerSettings) -> Rc<OriginPool> {
        let shown = directory.display().to_string();
        self.pool_with_key(&files_key(directory), &shown, settings)
    }

    fn pool_with_key(
        &self,
        key: &str,
        authority: &str,
        settings: &ServerSettings,
    ) -> Rc<OriginPool> {
        let mut pools = self.pools.borrow_mut();
        if let Some(pool) = pools.get(key) {
            return Rc::clone(pool);
        }
        let limits = self.pool_limits.get().unwrap_or_else(|| PoolLimits::of(settings));
        let pool = Rc::new(OriginPool::new(authority, limits));
        pools.insert(key.into(), Rc::clone(&pool));
        pool
    }

    /// Returns the state of a group of origins. Creates the state if there is none.
    pub(super) fn group(&self, group: &OriginGroup) -> Rc<GroupState> {
        let mut groups = self.groups.borrow_mut();
        if let Some(state) = groups.get(&group.key) {
            return Rc::clone(state);
        }
        // The groups of a site share its retry budget.
        let (site, _) = OriginGroup::place(&group.key);
        let of_site = groups.iter().find(|(key, _)| OriginGroup::place(key).0 == site);
        let retries = match of_site {
            Some((_, other)) => Rc::clone(&other.retries),
            None => Rc::new(RetryBudget::new(clock::monotonic_ms())),
        };
        let current = self.current_groups.borrow();
        let group = current.get(&group.key).map_or(group, |current| current);
        let state = Rc::new(GroupState::new(group, retries));
        groups.insert(group.key.clone(), Rc::clone(&state));
        state
    }

    /// Forgets the origins and groups that `config` does not have, and the pools that have other
    /// limits than its settings demand. Exchanges in progress keep what they need.
    pub(crate) fn retain(&self, config: &Config) {
        let addresses = config.sites.origin_addresses();
        let routes = config.sites.iter().flat_map(Site::routes);
        let directories = routes.filter_map(|route| route.settings.files.get());
        let directories = directories.map(|directory| files_key(directory).into());
        let keys: HashSet<_> = addresses.map(pool_key).chain(directories).collect();
        let limits = PoolLimits::of(&config.server);
        self.pool_limits.set(Some(limits));
        self.pools.borrow_mut().retain(|key, pool| {
            let is_kept = keys.contains(&**key) && pool.limits == limits;
            if !is_kept {
                // An exchange in progress may keep the pool, which is no longer swept.
                pool.close();
            }
            is_kept
        });
        let groups = config.sites.origin_groups();
        let groups: ConfiguredMap<_> =
            groups.map(|of| (of.group.key.clone(), Arc::clone(of.group))).collect();
        self.groups.borrow_mut().retain(|key, state| {
            let group = groups.get(key);
            group.inspect(|group| state.retain(group));
            group.is_some()
        });
        *self.current_groups.borrow_mut() = groups;
    }

    /// Closes idle connections that are dead or too old.
    pub(crate) fn sweep(&self) {
        for pool in self.pools.borrow().values() {
            pool.sweep();
        }
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        for pool in self.pools.borrow().values() {
            pool.idle.borrow_mut().clear();
            pool.shared.close_idle();
        }
    }

    /// Returns the number of exchanges in progress.
    #[cfg(test)]
    pub(crate) fn exchange_count(&self) -> usize {
        let pools = self.pools.borrow();
        pools.values().map(|pool| pool.exchange_count() as usize).sum()
    }

    /// Returns the number of open connections.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.open_count.get() as usize
    }

    /// Counts a connection that has just been opened, until the guard is dropped.
    pub(crate) fn open_guard(&self, worker: &Rc<Worker>) -> OpenGuard {
        self.open_count.set(self.open_count.get() + 1);
        worker.gauge(Counter::OriginConnectionsOpen, self.open_count.get());
        OpenGuard { worker: Rc::clone(worker) }
    }
}

/// Returns the key of an origin's pool. A connection is never used for an origin with different TLS
/// settings, because its certificate was verified by other rules or not at all; nor for one with
/// another PROXY protocol, because the connection begins with another header; nor for one with
/// another setting of HTTP/2, because connections of both versions may be open.
pub(crate) fn pool_key(origin: &OriginAddress) -> Cow<'_, str> {
    let OriginAddress { authority, proxy_protocol, http2, .. } = origin;
    match (&origin.tls, proxy_protocol, http2) {
        (None, ProxyProtocol::Off, OriginHttp2::Never) => Cow::Borrowed(authority),
        (None, ..) => Cow::Owned(format!("http://{authority} {proxy_protocol} {http2}")),
        (Some(tls), ..) => {
            Cow::Owned(format!("https://{authority} {:x} {proxy_protocol} {http2}", tls.id))
        }
    }
}

/// Returns the key of a directory's pool. No authority of an origin begins with `file://`.
fn files_key(directory: &Path) -> String {
    format!("file://{}", directory.as_os_str().as_bytes().escape_ascii())
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let origins = &self.worker.origins;
        origins.open_count.set(origins.open_count.get() - 1);
        self.worker.gauge(Counter::OriginConnectionsOpen, origins.open_count.get());
    }
}

impl PoolLimits {
    fn of(settings: &ServerSettings) -> PoolLimits {
        PoolLimits {
            exchanges_max: settings.origin_connections_max,
            idle_count_max: settings.origin_pool_idle_count_max as usize,
            idle_ms_max: u64::from(settings.origin_pool_idle_ms_max),
        }
    }
}

impl OriginPool {
    fn new(authority: &str, limits: PoolLimits) -> OriginPool {
        OriginPool {
            authority: authority.into(),
            idle: RefCell::default(),
            shared: SharedConnections::default(),
            is_closed: Cell::new(false),
            permits: Permits::new(limits.exchanges_max),
            stalled: StalledExchanges::default(),
            health: Rc::default(),
            tries_alone: RefCell::default(),
            readers: FileReaders::default(),
            closed_reuses: RetryBudget::new(clock::monotonic_ms()),
            limits,
        }
    }

    /// Returns the number of exchanges in progress.
    pub(super) fn exchange_count(&self) -> u32 {
        self.limits.exchanges_max - self.permits.free()
    }

    /// Takes a permit for an exchange of a client in `network`. Waits until that network may have
    /// one.
    pub(super) async fn permit(&self, network: ClientNetwork) -> ExchangePermit {
        let held_by = |network| self.permits.held_by(network);
        self.stalled.preempt_while(self.permits.acquire(network), network, held_by).await
    }

    /// Whether a request of `network` gets a permit without waiting.
    pub(super) fn has_turn(&self, network: ClientNetwork) -> bool {
        self.permits.has_turn(network)
    }

    /// Lets a request go to the origin by itself after collapsed fetches for its URL failed.
    /// Returns `None` if another request of `network` is already doing so, or if
    /// [`TRIES_ALONE_MAX`] requests of all networks are.
    pub(super) fn try_alone(self: &Rc<Self>, network: ClientNetwork) -> Option<TryAlone> {
        let mut tries = self.tries_alone.borrow_mut();
        if tries.len() >= TRIES_ALONE_MAX || tries.contains(&network) {
            return None;
        }
        tries.push(network);
        Some(TryAlone { pool: Rc::clone(self), network })
    }

    /// Runs `work`, which waits for a client while it holds a permit: see
    /// [`StalledExchanges::wait`].
    pub(super) async fn holding<T>(
        &self,
        watch: &mut SlowWatch,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        self.stalled.wait(watch, work, moved).await
    }

    /// Takes the idle connection that was used most recently, of those that can take a request of
    /// `client`: the origin was told the same addresses, or none.
    /// Returns `None` while too many of the connections that were taken turned out to be closed.
    pub(super) fn take(&self, client: Option<ClientEnds>) -> Option<Connection> {
        let now_ms = clock::monotonic_ms();
        self.closed_reuses.note_request(CLOSED_REUSE_PERCENT);
        if !self.closed_reuses.is_left(now_ms) {
            return None;
        }
        let oldest_ms = now_ms.saturating_sub(self.limits.idle_ms_max);
        let mut idle = self.idle.borrow_mut();
        while let Some(index) = idle.iter().rposition(|it| it.connection.client == client) {
            let last = idle.remove(index)?;
            let usable = last.connection.sender.is_ready() && !last.connection.link.unasked();
            if usable && last.since_ms >= oldest_ms {
                return Some(last.connection);
            }
        }
        None
    }

    /// Records that a connection from the pool turned out to be closed.
    pub(super) fn note_closed_reuse(&self) {
        self.closed_reuses.take(CLOSED_REUSE_PERCENT, clock::monotonic_ms());
    }

    /// Takes back a connection whose exchange is complete.
    pub(super) fn give(self: &Rc<Self>, mut connection: Connection) {
        if connection.sender.is_closed() || connection.link.unasked() {
            return;
        }
        if connection.sender.is_ready() {
            self.keep(connection);
            return;
        }
        // hyper completes its side of the exchange only in the next turn of the event loop.
        let pool = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if connection.sender.ready().await.is_ok() && !connection.link.unasked() {
                pool.keep(connection);
            }
        });
    }

    /// Closes the idle connections, and keeps none from now on.
    fn close(&self) {
        self.is_closed.set(true);
        self.idle.borrow_mut().clear();
        self.shared.close();
    }

    /// Keeps a connection. If there is no room, the connection that has been idle for the longest
    /// time makes room: its client may have left, and then no other client can use it.
    fn keep(&self, connection: Connection) {
        if self.limits.idle_count_max == 0 || self.is_closed.get() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.limits.idle_count_max {
            idle.pop_front();
        }
        idle.push_back(IdleConnection { connection, since_ms: clock::monotonic_ms() });
    }

    /// Returns the limits of idle connections.
    pub(super) fn idle_limits(&self) -> IdleLimits {
        IdleLimits { count_max: self.limits.idle_count_max, ms_max: self.limits.idle_ms_max }
    }

    fn sweep(&self) {
        self.shared.sweep(self.idle_limits());
        let oldest_ms = clock::monotonic_ms().saturating_sub(self.limits.idle_ms_max);
        self.idle.borrow_mut().retain(|idle| {
            let sender = &idle.connection.sender;
            idle.since_ms >= oldest_ms && !sender.is_closed() && !idle.connection.link.unasked()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_from_before_a_reload_use_the_pools_and_groups_of_the_new_configuration() {
        let origins = Origins::default();
        let site = "[[site]]\nname = 'a'\nnames = ['a']\norigin = ";
        let config = |settings: &str, urls: &str| {
            Config::from_toml(&format!("{settings}\n{site}{urls}\n"), "f.toml").expect("valid")
        };
        let before = config("", "['http://10.0.0.1', 'http://10.0.0.2']");
        let after = config("origin_connections_max = 1", "['http://10.0.0.2', 'http://10.0.0.3']");
        let group_of = |config: &Config| config.sites.iter().next().expect("one").origins.clone();
        let (old, new) = (group_of(&before), group_of(&after));
        let addresses: Vec<_> = old.addresses().chain(new.addresses()).cloned().collect();
        let pool = |index: usize, config: &Config| origins.pool(&addresses[index], &config.server);
        let first = pool(1, &before);
        origins.retain(&after);
        let state = origins.group(&old);
        assert!(first.is_closed.get() && !Rc::ptr_eq(&first, &pool(1, &before)));
        for index in [1, 3] {
            let (by_old, by_new) = (pool(index, &before), pool(index, &after));
            assert!(Rc::ptr_eq(&by_old, &by_new) && by_old.limits.exchanges_max == 1);
        }
        // Only the two origins that the site still has count as origins that get requests.
        let (removed, kept) = (state.member(&addresses[0]), state.member(&addresses[1]));
        removed.ejection.note_unreachable(0);
        assert!(state.has_other(&kept, 0));
        state.member(&addresses[3]).ejection.note_unreachable(0);
        assert!(!state.has_other(&kept, 0));
        assert!(!Rc::ptr_eq(&removed, &state.member(&addresses[0])));
    }

    /// A configuration whose sites have these names and origins.
    fn config(sites: &[(&str, &str)]) -> Config {
        let site = |(name, origins): &(&str, &str)| {
            format!("[[site]]\nname = '{name}'\nnames = ['{name}']\norigin = {origins}\n")
        };
        let text: String = sites.iter().map(site).collect();
        Config::from_toml(&text, "f.toml").expect("valid")
    }

    #[test]
    fn a_reload_forgets_the_sites_and_origins_that_it_removes() {
        let origins = Origins::default();
        let before =
            config(&[("a", "['http://10.0.0.1', 'http://10.0.0.2']"), ("b", "'http://10.0.0.3'")]);
        let mut pools = Vec::new();
        for site in before.sites.iter() {
            for address in site.origins.addresses() {
                pools.push(origins.pool(address, &before.server));
                origins
                    .group(&site.origins)
                    .member(address)
                    .ejection
                    .note_check_failed(0, true, 60_000);
            }
        }
        let after = config(&[("a", "['http://10.0.0.2', 'http://10.0.0.4']")]);
        origins.retain(&after);
        assert_eq!((origins.pools.borrow().len(), origins.groups.borrow().len()), (1, 1));
        assert_eq!(
            pools.iter().map(|pool| pool.is_closed.get()).collect::<Vec<_>>(),
            [true, false, true]
        );
        let site = after.sites.iter().next().expect("it has one");
        let ejection = |address| origins.group(&site.origins).member(address).ejection.until_ms(1);
        let left: Vec<_> = site.origins.addresses().map(ejection).collect();
        assert_eq!(left, [0, 0], "the site has no health check that could end an ejection");
    }

    #[test]
    fn origins_with_other_headers_or_tls_share_no_pool() {
        let mut keys = HashSet::new();
        for scheme in ["http", "https"] {
            for protocol in ["off", "v1", "v2"] {
                let text = format!(
                    "origin_proxy_protocol = '{protocol}'\n[[site]]\nname = 'a'\n\
                     names = ['a']\norigin = '{scheme}://10.0.0.1:443'\n"
                );
                let config = Config::from_toml(&text, "f.toml").expect("valid");
                let mut addresses = config.sites.origin_addresses();
                keys.insert(pool_key(addresses.next().expect("it has one")).into_owned());
            }
        }
        assert_eq!(keys.len(), 6, "{keys:?}");
    }
}
