//! The table of a worker's connections, with the deadline and the waker of each connection.
//!
//! A connection's deadline is one cell, which the connection sets at each wait; no timer is
//! registered or cancelled for a request. A sweep walks over the table in slices and wakes the
//! connections that are overdue. A connection that is woken finds out which of its waits has ended.
//!
//! A new connection may displace an idle one. The idle connection is asked to end, but first checks
//! whether a request has arrived.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use slab::Slab;

use super::idle_order::{IdleEntry, IdleOrder};
use super::network::ClientNetwork;
use crate::clock;
use crate::limits::{IDLE_LOOKS_MAX, SWEEP_SLICES};

/// The state of a connection that its worker needs: its deadlines, its waker and requests to end.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The number that identifies the connection: its slot in the table (lower 32 bits), and its
    /// position among all connections that the worker has accepted (upper bits).
    tag: u64,
    network: ClientNetwork,
    /// The time at which the current wait ends, in [`clock::monotonic_ms`]; 0 while there is no
    /// wait.
    deadline_ms: Cell<u64>,
    /// The time since which the connection has been idle (between two requests, with no input and
    /// nothing to write), in [`clock::monotonic_ms`]; 0 while it is busy.
    idle_since_ms: Cell<u64>,
    /// The `idle_since_ms` under which the connection is in the order of idle connections, from
    /// which it is removed with this time; `None` if it is not in it.
    entry_ms: Cell<Option<u64>>,
    /// Whether the connection is asked to end if it is still idle.
    is_displaced: Cell<bool>,
    /// Wakes the task that asked the connection to end.
    displacer: RefCell<Option<Waker>>,
    /// Whether the store has revoked some of the bytes that the connection still has to send.
    cut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Ticket {
    /// Begins a wait that ends `wait_ms` from now.
    pub(crate) fn arm(&self, wait_ms: u64) {
        self.deadline_ms.set(clock::monotonic_ms().saturating_add(wait_ms));
    }

    /// Ends the wait.
    pub(crate) fn disarm(&self) {
        self.deadline_ms.set(0);
    }

    /// Whether the connection is waiting.
    pub(crate) fn armed(&self) -> bool {
        self.deadline_ms.get() != 0
    }

    /// Whether the deadline of the current wait has passed.
    pub(crate) fn overdue(&self) -> bool {
        self.armed() && self.deadline_ms.get() <= clock::monotonic_ms()
    }

    /// Begins the idle time between two requests, which ends `wait_ms` from now, unless it has
    /// already begun.
    pub(crate) fn begin_idle(&self, wait_ms: u64) {
        let has_begun = self.idle_since_ms.get() != 0;
        if has_begun && self.armed() {
            return;
        }
        let now_ms = clock::monotonic_ms();
        if !has_begun {
            self.idle_since_ms.set(now_ms);
        }
        if !self.armed() {
            self.deadline_ms.set(now_ms.saturating_add(wait_ms));
        }
    }

    /// Ends the idle time between two requests.
    pub(crate) fn end_idle(&self) {
        self.idle_since_ms.set(0);
        self.settle();
    }

    /// Whether the connection is to end if it is still idle, because another connection needs its
    /// place.
    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.get()
    }

    /// Asks the connection to end if it is still idle, and waits until it has ended or has received
    /// a request.
    pub(super) async fn displace(&self) {
        let mut has_asked = false;
        poll_fn(|cx| {
            if has_asked && !self.is_displaced.get() {
                return Poll::Ready(());
            }
            *self.displacer.borrow_mut() = Some(cx.waker().clone());
            if !has_asked {
                has_asked = true;
                self.is_displaced.set(true);
                self.wake();
            }
            Poll::Pending
        })
        .await;
    }

    fn settle(&self) {
        if self.is_displaced.replace(false)
            && let Some(displacer) = self.displacer.take()
        {
            displacer.wake();
        }
    }

    /// Whether the store has revoked some of the bytes that are still to be sent. If so, the
    /// response cannot be completed, and the connection ends.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Returns whether the store has revoked bytes since the last call. An HTTP/2 connection goes
    /// on: only the streams whose bytes are lost end.
    pub(crate) fn take_cut(&self) -> bool {
        self.cut.take()
    }

    /// Sets the waker of the task that serves the connection.
    pub(crate) fn set_waker(&self, waker: Waker) {
        *self.waker.borrow_mut() = Some(waker);
    }

    fn entry(&self, since_ms: u64) -> IdleEntry {
        IdleEntry { network: self.network, since_ms, slot: self.tag as u32 }
    }

    fn put_in(&self, order: &mut IdleOrder, since_ms: u64) {
        self.entry_ms.set(Some(since_ms));
        order.insert(self.entry(since_ms));
    }

    fn take_from(&self, order: &mut IdleOrder) {
        if let Some(since_ms) = self.entry_ms.take() {
            order.remove(self.entry(since_ms));
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// All connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    tickets: RefCell<Slab<Rc<Ticket>>>,
    idle_order: RefCell<IdleOrder>,
    sweep_from: Cell<usize>,
    entered_count: Cell<u64>,
    /// The number of tickets that belong to streams of HTTP/2 connections.
    stream_ticket_count: Cell<usize>,
    /// The number of streams of HTTP/2 connections that have a permit.
    stream_count: Cell<usize>,
    /// The number of streams of HTTP/2 connections that have a permit, for each network that has
    /// any.
    streams_by_network: RefCell<HashMap<ClientNetwork, u32>>,
}

/// A slot in the table, which is freed when the connection ends, even by a panic.
pub(crate) struct RegisteredConnection {
    registry: Rc<Registry>,
    ticket: Rc<Ticket>,
    slot: usize,
    is_stream: bool,
}

/// Permits a worker to work on one stream of an HTTP/2 connection for as long as it takes. It is
/// given back when the work ends, even by a panic.
pub(crate) struct StreamPermit {
    registry: Rc<Registry>,
    network: ClientNetwork,
}

/// The limit that leaves no room for a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pressure {
    /// The network of the new connection has reached its limit on connections.
    Network(ClientNetwork),
    /// The worker has reached its limit on connections; the network is that of the new connection.
    Worker(ClientNetwork),
    /// The process has no free descriptors.
    Descriptors,
}

impl Registry {
    /// Returns the number of connections, not counting the streams of HTTP/2 connections.
    pub(crate) fn count(&self) -> usize {
        self.tickets.borrow().len() - self.stream_ticket_count.get()
    }

    /// Returns the number of streams of HTTP/2 connections that have a permit.
    pub(crate) fn stream_count(&self) -> usize {
        self.stream_count.get()
    }

    /// Returns the number of streams of HTTP/2 connections from one network that have a permit.
    pub(crate) fn stream_count_of(&self, network: ClientNetwork) -> u32 {
        self.streams_by_network.borrow().get(&network).copied().unwrap_or(0)
    }

    /// Returns the number of connections from one network.
    pub(crate) fn count_of(&self, network: ClientNetwork) -> u32 {
        self.idle_order.borrow().count_of(network)
    }

    /// Registers a connection from `network`.
    pub(crate) fn enter(self: &Rc<Self>, network: ClientNetwork) -> RegisteredConnection {
        let registered = self.enter_ticket(network, false);
        let mut idle_order = self.idle_order.borrow_mut();
        idle_order.enter(network);
        registered.ticket.put_in(&mut idle_order, clock::monotonic_ms());
        drop(idle_order);
        registered
    }

    /// Registers the streams that one client of an HTTP/2 connection from `network` serves one
    /// after the other. They have a deadline and a waker of their own, and do not count towards any
    /// limit on connections.
    pub(crate) fn enter_streams(self: &Rc<Self>, network: ClientNetwork) -> RegisteredConnection {
        self.stream_ticket_count.update(|count| count + 1);
        self.enter_ticket(network, true)
    }

    /// Takes a permit for a stream of a connection from `network`, for which there must be room.
    pub(crate) fn take_stream_permit(self: &Rc<Self>, network: ClientNetwork) -> StreamPermit {
        self.stream_count.update(|count| count + 1);
        *self.streams_by_network.borrow_mut().entry(network).or_default() += 1;
        StreamPermit { registry: Rc::clone(self), network }
    }

    fn enter_ticket(
        self: &Rc<Self>,
        network: ClientNetwork,
        is_stream: bool,
    ) -> RegisteredConnection {
        let entered_count = self.entered_count.get().wrapping_add(1);
        self.entered_count.set(entered_count);
        let mut tickets = self.tickets.borrow_mut();
        let ticket = Rc::new(Ticket {
            tag: entered_count << 32 | tickets.vacant_key() as u64,
            network,
            deadline_ms: Cell::new(0),
            idle_since_ms: Cell::new(0),
            entry_ms: Cell::new(None),
            is_displaced: Cell::new(false),
            displacer: RefCell::new(None),
            cut: Cell::new(false),
            waker: RefCell::new(None),
        });
        let slot = tickets.insert(Rc::clone(&ticket));
        RegisteredConnection { registry: Rc::clone(self), ticket, slot, is_stream }
    }

    /// Wakes the overdue connections of the next slice of the table, and adds the slice's idle
    /// connections to the order of idle connections if they are missing there.
    ///
    /// [`SWEEP_SLICES`] calls cover the whole table, so that one call is short even if there are
    /// many connections.
    pub(crate) fn sweep(&self) {
        let tickets = self.tickets.borrow();
        let end = tickets.capacity();
        let from = self.sweep_from.get().min(end);
        let to = (from + end / SWEEP_SLICES + 1).min(end);
        let now_ms = clock::monotonic_ms();
        for ticket in (from..to).filter_map(|slot| tickets.get(slot)) {
            let deadline_ms = ticket.deadline_ms.get();
            if deadline_ms != 0 && deadline_ms <= now_ms {
                ticket.wake();
            }
            let idle_since_ms = ticket.idle_since_ms.get();
            if idle_since_ms != 0 && ticket.entry_ms.get().is_none() {
                ticket.put_in(&mut self.idle_order.borrow_mut(), idle_since_ms);
            }
        }
        self.sweep_from.set(if to == end { 0 } else { to });
    }

    /// Returns the idle connection that has to make room. Under the pressure of one network, this
    /// is the connection of that network that has been idle for longest; otherwise, it is the
    /// longest idle connection of the network with the most connections. Returns `None` if no
    /// connection is idle, or if this pressure permits none to be displaced.
    ///
    /// A call examines [`IDLE_LOOKS_MAX`] connections at most. If their entries in the order are
    /// all wrong, it returns the connection among them that has been idle for longest.
    pub(super) fn longest_idle(&self, pressure: Pressure) -> Option<Rc<Ticket>> {
        let tickets = self.tickets.borrow();
        let mut idle_order = self.idle_order.borrow_mut();
        let mut longest_idle: Option<&Rc<Ticket>> = None;
        for _ in 0..IDLE_LOOKS_MAX {
            let first = match pressure {
                Pressure::Network(network) => idle_order.first_of(network),
                Pressure::Worker(newcomer) => idle_order.first_for(Some(newcomer)),
                Pressure::Descriptors => idle_order.first_for(None),
            };
            let Some(entry) = first else { break };
            let ticket = tickets.get(entry.slot as usize)?;
            let since_ms = ticket.idle_since_ms.get();
            if since_ms == entry.since_ms {
                return Some(Rc::clone(ticket));
            }
            ticket.take_from(&mut idle_order);
            if since_ms != 0 {
                ticket.put_in(&mut idle_order, since_ms);
                let is_longer = |other: &Rc<Ticket>| since_ms < other.idle_since_ms.get();
                if longest_idle.is_none_or(is_longer) {
                    longest_idle = Some(ticket);
                }
            }
        }
        longest_idle.cloned()
    }

    /// Makes the connection with this tag end, if it is still registered, because the store has
    /// revoked some of the bytes that the connection still has to send.
    pub(crate) fn cut(&self, tag: u64) {
        let tickets = self.tickets.borrow();
        let ticket = tickets.get(tag as u32 as usize).filter(|ticket| ticket.tag == tag);
        if let Some(ticket) = ticket {
            ticket.cut.set(true);
            ticket.wake();
        }
    }

    /// Wakes every idle connection, so that it notices the drain.
    pub(crate) fn wake_idle(&self) {
        for (_, ticket) in &*self.tickets.borrow() {
            if ticket.idle_since_ms.get() != 0 {
                ticket.wake();
            }
        }
    }
}

impl RegisteredConnection {
    /// Returns the number that identifies this connection in the registry and in the store.
    pub(crate) fn tag(&self) -> u64 {
        self.ticket.tag
    }

    /// Returns the network of the client.
    pub(crate) fn network(&self) -> ClientNetwork {
        self.ticket.network
    }

    /// Returns the connection's ticket.
    pub(crate) fn ticket(&self) -> &Rc<Ticket> {
        &self.ticket
    }
}

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        self.registry.tickets.borrow_mut().remove(self.slot);
        let mut idle_order = self.registry.idle_order.borrow_mut();
        self.ticket.take_from(&mut idle_order);
        match self.is_stream {
            true => self.registry.stream_ticket_count.update(|count| count - 1),
            false => idle_order.leave(self.ticket.network),
        }
        self.ticket.settle();
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.registry.stream_count.update(|count| count - 1);
        let mut streams = self.registry.streams_by_network.borrow_mut();
        if let Some(count) = streams.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests;
