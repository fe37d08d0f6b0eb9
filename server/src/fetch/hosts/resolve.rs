//! Finds the addresses of a name: in the table, by asking the system's resolver, or by waiting for
//! another connection that is resolving the name.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::host::{Step, Terms};
use super::table::{Done, Resolution, ResolutionStart};
use crate::clock;
use crate::config::{OriginAddress, ServerSettings};
use crate::counters::Counter;
use crate::dns::{self, DnsServers, FoundAddresses};
use crate::events::Event;
use crate::fault::Fault;
use crate::worker::Worker;

type Resolve = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// A function that finds the addresses of a name, unless the setting `dns_servers` names servers
/// for that. It runs on a thread of its own, so it is allowed to block.
#[derive(Clone)]
pub struct Resolver(Arc<Resolve>);

impl Resolver {
    /// Creates a resolver that calls `resolve` with a name and a port. The returned addresses must
    /// have this port.
    pub fn new(
        resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Resolver {
        Resolver(Arc::new(resolve))
    }

    /// The system's resolver, `getaddrinfo`. It does not report how long its results are valid.
    pub fn system() -> Resolver {
        Resolver::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }

    /// Resolves the name, by asking `servers` if there are any. A result without an address counts
    /// as an error.
    pub(super) fn resolve(
        &self,
        servers: &DnsServers,
        host: &str,
        port: u16,
    ) -> io::Result<FoundAddresses> {
        if servers.resolve(host) {
            return dns::addresses(servers, host, port);
        }
        let found = (self.0)(host, port)?;
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(FoundAddresses { addresses: found, valid_s: None })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// Returns the addresses of an origin, in the order in which to try them. Resolves its name, or
/// waits for another connection that does so, if the table has no fresh addresses.
///
/// # Errors
/// [`Fault::OriginName`] if the name cannot be resolved; [`Fault::OriginConnectTimeout`] if it has
/// not been resolved by `deadline_ms`.
pub(in crate::fetch) async fn addresses(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    settings: &ServerSettings,
    deadline_ms: u64,
) -> Result<Vec<SocketAddr>, Fault> {
    if let Ok(address) = origin.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, origin.port)]);
    }
    let terms = Terms::of(settings, clock::monotonic_ms(), deadline_ms);
    if terms.fresh_ms == 0 {
        return resolve_apart(worker, origin, deadline_ms).await;
    }
    loop {
        let now_ms = clock::monotonic_ms();
        let left_ms = deadline_ms.saturating_sub(now_ms);
        match worker.hosts.step(&origin.authority, terms, now_ms) {
            Step::Use { mut addresses, is_stale, due } => {
                if is_stale {
                    worker.count(Counter::OriginStaleAddresses);
                }
                if let Some(due) = due
                    && worker.hosts.take_due(&origin.authority, due, now_ms)
                {
                    addresses.sort_by_key(|&address| address != due);
                }
                return Ok(addresses);
            }
            Step::Refuse => return Err(Fault::OriginName),
            // After the wait, the next step uses new addresses or stale ones.
            Step::Wait { done, until_ms: Some(ms) } => drop(wait(done, ms - now_ms).await),
            Step::Wait { done, until_ms: None } => wait(done, left_ms).await?,
            Step::Resolve => match worker.hosts.begin(&origin.authority, terms, now_ms) {
                ResolutionStart::Own(resolution) => begin(worker, origin, terms, resolution),
                ResolutionStart::Another => {}
                ResolutionStart::NoRoom => return resolve_apart(worker, origin, deadline_ms).await,
            },
        }
    }
}

async fn wait(done: Done, limit_ms: u64) -> Result<(), Fault> {
    let ended = timeout(Duration::from_millis(limit_ms), done.wait()).await;
    ended.map_err(|_| Fault::OriginConnectTimeout)
}

/// Resolves the name for this connection alone, without using the table.
async fn resolve_apart(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    deadline_ms: u64,
) -> Result<Vec<SocketAddr>, Fault> {
    let limit = Duration::from_millis(deadline_ms.saturating_sub(clock::monotonic_ms()));
    let found = timeout(limit, resolve_on_a_thread(worker, origin, |_| ())).await;
    found.map_err(|_| Fault::OriginConnectTimeout)?.map_err(|_| {
        worker.count(Counter::OriginResolutionErrors);
        Fault::OriginName
    })
}

/// Resolves the name on another thread, for all connections that wait for its addresses. The
/// resolution continues even if those connections give up.
fn begin(worker: &Rc<Worker>, origin: &OriginAddress, terms: Terms, resolution: Resolution) {
    let (own, origin) = (Rc::clone(worker), origin.clone());
    worker.spawn(async move {
        let note = move |found: &FoundAddresses| resolution.end(found, clock::monotonic_ms());
        let Err(error) = resolve_on_a_thread(&own, &origin, note).await else {
            return;
        };
        own.count(Counter::OriginResolutionErrors);
        let authority = &origin.authority;
        let step = own.hosts.step(authority, terms, clock::monotonic_ms());
        let what_now = match step {
            Step::Use { .. } => "the last known addresses stay in use",
            _ => "no addresses are known",
        };
        own.event(Event::OriginUnresolved, &format_args!("{authority}: {error}; {what_now}"));
    });
}

/// Resolves the name on a new thread, which then calls `note` with the addresses, or with none
/// after an error. tokio's threads for blocking work are not used, because tokio panics if it
/// cannot start a thread. Here a thread that cannot be started is an error, and `note` is dropped.
/// The thread holds its permit until it ends, even if the waiting connections give up, because a
/// resolution cannot be cancelled.
async fn resolve_on_a_thread(
    worker: &Worker,
    origin: &OriginAddress,
    note: impl FnOnce(&FoundAddresses) + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let permits = Arc::clone(&worker.resolutions);
    let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
    worker.count(Counter::OriginResolutions);
    let (resolver, host, port) = (worker.hosts.resolver.clone(), origin.host.clone(), origin.port);
    let servers = worker.config().server.dns_servers.clone();
    let (tell, told) = oneshot::channel();
    let resolve = move || {
        let found = resolver.resolve(&servers, &host, port);
        note(found.as_ref().unwrap_or(&FoundAddresses::default()));
        drop(permit);
        // Sending fails if the request has given up.
        let _ = tell.send(found.map(|found| found.addresses));
    };
    let started = std::thread::Builder::new().name("resolver".to_owned()).spawn(resolve);
    started.map_err(|error| io::Error::other(format!("cannot start a thread: {error}")))?;
    told.await.unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
}

/// Records that an address of an origin failed, so that other addresses of the name are tried
/// before it.
pub(in crate::fetch) fn note_failed(worker: &Worker, origin: &OriginAddress, address: SocketAddr) {
    worker.count(Counter::OriginAddressErrors);
    if worker.hosts.put_last(&origin.authority, address, clock::monotonic_ms()) {
        let detail = format_args!("{}: from now on {address} is tried last", origin.authority);
        worker.event(Event::OriginAddressFailed, &detail);
    }
}

/// Records that an address of an origin has accepted a connection.
pub(in crate::fetch) fn note_worked(worker: &Worker, origin: &OriginAddress, address: SocketAddr) {
    worker.hosts.put_back(&origin.authority, address);
}

/// Records that all addresses in `tried` failed. If the origin has no other addresses, the next
/// call of [`addresses`] resolves its name again.
pub(in crate::fetch) fn note_all_failed(
    worker: &Worker,
    origin: &OriginAddress,
    tried: &[SocketAddr],
) {
    worker.hosts.give_up(&origin.authority, tried);
}

/// Returns the addresses of an origin that are not in `tried`, all of which have failed: if the
/// origin has moved, a new resolution of its name finds some. Such resolutions happen at most once
/// a second.
pub(in crate::fetch) async fn new_addresses(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    settings: &ServerSettings,
    deadline_ms: u64,
    tried: &[SocketAddr],
) -> Vec<SocketAddr> {
    let is_name = origin.host.parse::<IpAddr>().is_err();
    // Without a table, the name has just been resolved for this connection.
    if !is_name || settings.origin_address_ms_max == 0 {
        return Vec::new();
    }
    let found = addresses(worker, origin, settings, deadline_ms).await;
    found.unwrap_or_default().into_iter().filter(|one| !tried.contains(one)).collect()
}
