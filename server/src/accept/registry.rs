//! The table of a worker's connections, with the deadline and the waker of each connection.
//!
//! A connection's deadline is one cell, which the connection sets at each wait; no timer is
//! registered or cancelled for a request. A sweep walks over the table in slices and wakes the
//! connections that are overdue. A connection that is woken finds out which of its waits has ended.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use slab::Slab;

use super::network::ClientNetwork;
use crate::clock;
use crate::limits::SWEEP_SLICES;

/// The state of a connection that its worker needs: its deadline and its waker.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The number that identifies the connection: its slot in the table (lower 32 bits), and its
    /// position among all connections that the worker has accepted (upper bits).
    tag: u64,
    /// The time at which the current wait ends, in [`clock::monotonic_ms`]; 0 while there is no
    /// wait.
    deadline_ms: Cell<u64>,
    /// Whether the connection is idle: between two requests, with no input and nothing to write.
    idle: Cell<bool>,
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

    /// Sets whether the connection is between two requests.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(idle);
    }

    /// Whether the store has revoked some of the bytes that are still to be sent. Then the other
    /// bytes need not be sent either.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
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
    per_network: RefCell<HashMap<ClientNetwork, u32>>,
    sweep_from: Cell<usize>,
    entered_count: Cell<u64>,
}

/// A slot in the table, which is freed when the connection ends, even by a panic.
pub(crate) struct RegisteredConnection {
    registry: Rc<Registry>,
    ticket: Rc<Ticket>,
    slot: usize,
    network: ClientNetwork,
}

impl Registry {
    /// Returns the number of connections.
    pub(crate) fn count(&self) -> usize {
        self.tickets.borrow().len()
    }

    /// Number of connections from one network.
    pub(crate) fn count_of(&self, network: ClientNetwork) -> u32 {
        self.per_network.borrow().get(&network).copied().unwrap_or(0)
    }

    /// Registers a connection from `network`.
    pub(crate) fn enter(self: &Rc<Self>, network: ClientNetwork) -> RegisteredConnection {
        let entered_count = self.entered_count.get().wrapping_add(1);
        self.entered_count.set(entered_count);
        let mut tickets = self.tickets.borrow_mut();
        let ticket = Rc::new(Ticket {
            tag: entered_count << 32 | tickets.vacant_key() as u64,
            deadline_ms: Cell::new(0),
            idle: Cell::new(false),
            cut: Cell::new(false),
            waker: RefCell::new(None),
        });
        let slot = tickets.insert(Rc::clone(&ticket));
        *self.per_network.borrow_mut().entry(network).or_insert(0) += 1;
        RegisteredConnection { registry: Rc::clone(self), ticket, slot, network }
    }

    /// Wakes the overdue connections of the next slice of the table.
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
        }
        self.sweep_from.set(if to == end { 0 } else { to });
    }

    /// Makes the connection with this tag end, if it is still registered, because the store has
    /// revoked some of the bytes that it still has to send.
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
            if ticket.idle.get() {
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

    /// The network of the client.
    pub(crate) fn network(&self) -> ClientNetwork {
        self.network
    }

    /// Returns the connection's ticket.
    pub(crate) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Sets the waker of the connection's task.
    pub(crate) fn set_waker(&self, waker: Waker) {
        *self.ticket.waker.borrow_mut() = Some(waker);
    }
}

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        self.registry.tickets.borrow_mut().remove(self.slot);
        let mut per_network = self.registry.per_network.borrow_mut();
        if let Some(count) = per_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                per_network.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn home() -> ClientNetwork {
        ClientNetwork::of(Ipv4Addr::LOCALHOST.into(), 64)
    }

    #[test]
    fn a_dropped_connection_leaves_no_entry() {
        let registry = Rc::new(Registry::default());
        let (one, two) = (registry.enter(home()), registry.enter(home()));
        assert_eq!((registry.count(), registry.count_of(home())), (2, 2));
        drop(one);
        assert_eq!((registry.count(), registry.count_of(home())), (1, 1));
        drop(two);
        assert_eq!((registry.count(), registry.count_of(home())), (0, 0));
        assert!(registry.per_network.borrow().is_empty());
    }

    #[test]
    fn a_connection_is_cut_by_its_tag_while_it_is_there() {
        let registry = Rc::new(Registry::default());
        let (one, two) = (registry.enter(home()), registry.enter(home()));
        let count = Arc::new(Count(AtomicUsize::new(0)));
        two.set_waker(Arc::clone(&count).into());
        registry.cut(two.tag());
        assert_eq!((one.ticket().is_cut(), two.ticket().is_cut()), (false, true));
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "it is woken");
        let tag = two.tag();
        drop(two);
        let next = registry.enter(home());
        registry.cut(tag);
        assert!(!next.ticket().is_cut(), "the next connection in the slot has another tag");
    }

    #[test]
    fn a_round_of_sweeps_wakes_overdue_connections_and_no_others() {
        let registry = Rc::new(Registry::default());
        let woken: Vec<_> = (0..100).map(|_| Arc::new(Count(AtomicUsize::new(0)))).collect();
        let entered: Vec<_> = woken
            .iter()
            .enumerate()
            .map(|(index, count)| {
                let registered = registry.enter(home());
                registered.set_waker(Arc::clone(count).into());
                match index % 3 {
                    0 => registered.ticket().arm(0),
                    1 => registered.ticket().arm(3_600_000),
                    _ => registered.ticket().disarm(),
                }
                registered
            })
            .collect();
        (0..=SWEEP_SLICES).for_each(|_| registry.sweep());
        for (index, count) in woken.iter().enumerate() {
            let overdue = index % 3 == 0;
            assert_eq!(count.0.load(Ordering::Relaxed) > 0, overdue, "connection {index}");
            assert_eq!(entered[index].ticket().overdue(), overdue, "connection {index}");
        }
    }
}
