//! The loop that accepts connections, and the limits on their number.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::registry::{Pressure, Ticket};
use super::{Client, ClientNetwork};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{ACCEPT_RETRY_MS, DISPLACED_MAX};
use crate::transport::{Listener, Transport};
use crate::worker::Worker;

/// Accepts connections until the worker drains. Then accepts the connections that are already
/// queued, unless another process accepts from the same queues. Calls `serve` with each admitted
/// connection.
pub(crate) async fn accept_connections(
    worker: Rc<Worker>,
    listeners: Vec<Box<dyn Listener>>,
    serve: fn(Rc<Worker>, AdmittedConnection),
) {
    let mut turn = 0;
    let mut is_exhausted = false;
    loop {
        let accepted = poll_fn(|cx| {
            worker.set_accept_waker(cx.waker());
            if worker.queues_are_passed_on() {
                return Poll::Ready(None);
            }
            match poll_accept(&listeners, &mut turn, cx) {
                Poll::Pending if worker.draining() => Poll::Ready(None),
                accepted => accepted.map(Some),
            }
        });
        match accepted.await {
            None if worker.queues_are_passed_on() => return,
            None => return accept_rest(&worker, listeners, serve),
            Some(Ok(transport)) => {
                is_exhausted = false;
                make_room(&worker, &*transport).await;
                if let Some(admitted) = admit(&worker, transport) {
                    let network = admitted.registered.network();
                    serve(Rc::clone(&worker), admitted);
                    // The connection becomes idle, so that it can be displaced, only after its
                    // task has run.
                    if pressure(&worker, network).is_some() {
                        tokio::task::yield_now().await;
                    }
                }
            }
            Some(Err(error)) => {
                worker.count(Counter::AcceptErrors);
                worker.event(Event::AcceptFailed, &error);
                if is_exhaustion(&error) {
                    // The kernel may report this error although no connection waits. In that
                    // case, the freed descriptor serves the next connection that arrives.
                    let has_displaced = displace(&worker, Pressure::Descriptors).await;
                    // If closing one connection did not help, closing many at once would not help
                    // either.
                    if is_exhausted || !has_displaced {
                        tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                    }
                    is_exhausted = true;
                }
            }
        }
    }
}

/// Takes the next connection of any listener; the listeners take turns at being polled first.
fn poll_accept(
    listeners: &[Box<dyn Listener>],
    turn: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Box<dyn Transport>>> {
    *turn = turn.wrapping_add(1);
    let from = *turn % listeners.len().max(1);
    let (before, first) = listeners.split_at(from);
    for listener in first.iter().chain(before) {
        if let accepted @ Poll::Ready(_) = listener.poll_accept(cx) {
            return accepted;
        }
    }
    Poll::Pending
}

/// Accepts the queued connections of the listeners, then closes the listeners.
fn accept_rest(
    worker: &Rc<Worker>,
    listeners: Vec<Box<dyn Listener>>,
    serve: fn(Rc<Worker>, AdmittedConnection),
) {
    for listener in listeners {
        listener.close(&mut |transport| {
            if let Some(admitted) = admit(worker, transport) {
                serve(Rc::clone(worker), admitted);
            }
        });
    }
}

/// A connection that was admitted.
pub(crate) struct AdmittedConnection {
    transport: Box<dyn Transport>,
    registered: super::registry::RegisteredConnection,
    /// The tag by which the store names the connection.
    tag: u64,
}

impl AdmittedConnection {
    /// Creates the connection for the streams that are served one after the other, as parts of the
    /// HTTP/2 connection of `client`.
    pub(crate) fn of_streams(client: &Client, transport: Box<dyn Transport>) -> AdmittedConnection {
        let registered = client.worker.registry.enter_streams(client.network());
        AdmittedConnection { transport, registered, tag: client.tag() }
    }

    /// Returns the connection's ticket.
    pub(crate) fn ticket(&self) -> Rc<Ticket> {
        Rc::clone(self.registered.ticket())
    }

    /// Creates the client of the connection. Must be called by the task that serves the connection,
    /// because that task's waker is registered.
    pub(crate) async fn into_client(self, worker: Rc<Worker>) -> Client {
        Client::new(self.transport, worker, (self.registered, self.tag)).await
    }
}

fn admit(worker: &Rc<Worker>, transport: Box<dyn Transport>) -> Option<AdmittedConnection> {
    let peer = transport.peer();
    let config = worker.config();
    let settings = &config.server;
    let registry = &worker.registry;
    let network = ClientNetwork::of(peer.ip(), settings.ipv6_network_bits);
    if pressure(worker, network).is_some() {
        worker.count(Counter::ConnectionsRefused);
        worker.event(Event::ConnectionRefused, &peer.ip());
        return None;
    }
    worker.count(Counter::ConnectionsAccepted);
    let registered = registry.enter(network);
    worker.gauge(Counter::ConnectionsOpen, registry.count() as u64);
    Some(AdmittedConnection { transport, tag: registered.tag(), registered })
}

/// Closes an idle connection if there is otherwise no room for the connection of `transport`.
async fn make_room(worker: &Worker, transport: &dyn Transport) {
    let peer = transport.peer().ip();
    for _ in 0..DISPLACED_MAX {
        let network = ClientNetwork::of(peer, worker.config().server.ipv6_network_bits);
        match pressure(worker, network) {
            Some(pressure) if displace(worker, pressure).await => {}
            _ => return,
        }
    }
}

/// Asks an idle connection to end, and waits until it has ended or has received a request. Returns
/// whether there was an idle connection.
async fn displace(worker: &Worker, pressure: Pressure) -> bool {
    let Some(ticket) = worker.registry.longest_idle(pressure) else { return false };
    ticket.displace().await;
    true
}

/// Returns the limit that leaves no room for a connection from `network`; `None` if there is room.
fn pressure(worker: &Worker, network: ClientNetwork) -> Option<Pressure> {
    let (registry, config) = (&worker.registry, worker.config());
    let settings = &config.server;
    if registry.count_of(network) >= settings.connections_per_address_max {
        return Some(Pressure::Network(network));
    }
    let is_full = registry.count() >= settings.connections_per_worker_max as usize;
    is_full.then_some(Pressure::Worker(network))
}

/// Whether the process has run out of file descriptors or memory, so that an immediate second
/// attempt to accept would fail too.
fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| exhausted.iter().any(|e| e.raw_os_error() == code))
}
