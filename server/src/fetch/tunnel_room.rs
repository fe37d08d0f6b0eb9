//! Limits the number of tunnels of a worker, both in total and for each client network.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::accept::ClientNetwork;
use crate::config::ServerSettings;
use crate::counters::Counter;
use crate::worker::Worker;

/// The tunnels of one worker.
#[derive(Debug, Default)]
pub(crate) struct TunnelRoom {
    held: RefCell<HashMap<ClientNetwork, u32>>,
    held_count: Cell<u32>,
    open_count: Cell<u64>,
    /// Wakes the tunnels when the drain begins.
    pub(crate) drained: Notify,
}

/// The place of one tunnel, reserved from the request for the tunnel until the tunnel ends.
pub(crate) struct TunnelGuard {
    worker: Rc<Worker>,
    network: ClientNetwork,
    is_open: bool,
}

impl TunnelRoom {
    /// Takes a place for a tunnel of a client in `network`; `None` if a limit is reached.
    fn take(&self, network: ClientNetwork, settings: &ServerSettings) -> Option<()> {
        let mut held = self.held.borrow_mut();
        let of_network = held.get(&network).copied().unwrap_or(0);
        let has_room = self.held_count.get() < settings.tunnels_per_worker_max
            && of_network < settings.tunnels_per_address_max;
        has_room.then(|| {
            held.insert(network, of_network + 1);
            self.held_count.update(|count| count + 1);
        })
    }

    fn give(&self, network: ClientNetwork) {
        let mut held = self.held.borrow_mut();
        self.held_count.update(|count| count - 1);
        match held.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = held.remove(&network),
        }
    }
}

impl TunnelGuard {
    /// Reserves a place for a tunnel of a client in `network`; `None` if a limit is reached.
    pub(super) fn enter(
        worker: &Rc<Worker>,
        network: ClientNetwork,
        settings: &ServerSettings,
    ) -> Option<TunnelGuard> {
        worker.tunnels.take(network, settings)?;
        Some(TunnelGuard { worker: Rc::clone(worker), network, is_open: false })
    }

    /// Counts the tunnel as open.
    pub(super) fn open(&mut self) {
        self.is_open = true;
        self.worker.count(Counter::Tunnels);
        self.set_open(1);
    }

    fn set_open(&self, change: i64) {
        let open_count = &self.worker.tunnels.open_count;
        open_count.update(|count| count.saturating_add_signed(change));
        self.worker.gauge(Counter::TunnelsOpen, open_count.get());
    }
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.worker.tunnels.give(self.network);
        if self.is_open {
            self.set_open(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_limited_in_all_and_for_each_network() {
        let network = |number: u8| ClientNetwork::of([192, 0, 2, number].into(), 64);
        let settings = ServerSettings {
            tunnels_per_worker_max: 3,
            tunnels_per_address_max: 2,
            ..ServerSettings::default()
        };
        let room = TunnelRoom::default();
        let takes = |number| room.take(network(number), &settings).is_some();
        assert!(takes(1) && takes(1) && !takes(1), "a network has two");
        assert!(takes(2) && !takes(2) && !takes(3), "all have three");
        room.give(network(1));
        assert!(takes(3) && !takes(1));
        for number in [1, 2, 3] {
            room.give(network(number));
        }
        assert_eq!((room.held_count.get(), room.held.borrow().len()), (0, 0));
    }
}
