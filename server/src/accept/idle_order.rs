//! The order in which idle connections are closed to make room: connections of the network with the
//! most connections come first, and within a network the connection that has been idle for longest.
//!
//! The order is repaired only when a connection has to be closed, so that a request does not have
//! to change it. Each entry records when its connection became idle, as of the last check of the
//! entry. The recorded time is never later than the true one, so if the time of the first entry is
//! still right, its connection is the one to close. The caller compares the times, and repairs an
//! entry whose time is wrong.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::ClientNetwork;

/// A connection in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleEntry {
    pub(super) network: ClientNetwork,
    /// The time at which the connection became idle, as of the last check of this entry.
    pub(super) since_ms: u64,
    pub(super) slot: u32,
}

/// The networks of a worker's connections, and the connections that may be idle.
#[derive(Debug, Default)]
pub(super) struct IdleOrder {
    counts: HashMap<ClientNetwork, u32>,
    entries: BTreeSet<IdleEntry>,
    /// One element for each network that has an entry: its number of connections, and the time of
    /// its first entry.
    ranking: BTreeSet<(Reverse<u32>, u64, ClientNetwork)>,
}

impl IdleOrder {
    /// Returns the number of connections from one network.
    pub(super) fn count_of(&self, network: ClientNetwork) -> u32 {
        self.counts.get(&network).copied().unwrap_or(0)
    }

    /// Counts a connection of `network`.
    pub(super) fn enter(&mut self, network: ClientNetwork) {
        self.change(network, |order| *order.counts.entry(network).or_insert(0) += 1);
    }

    /// Undoes [`IdleOrder::enter`].
    pub(super) fn leave(&mut self, network: ClientNetwork) {
        self.change(network, |order| {
            if let Some(count) = order.counts.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    order.counts.remove(&network);
                }
            }
        });
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, entry: IdleEntry) {
        self.change(entry.network, |order| {
            order.entries.insert(entry);
        });
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, entry: IdleEntry) {
        self.change(entry.network, |order| {
            order.entries.remove(&entry);
        });
    }

    /// Returns the first entry of one network.
    pub(super) fn first_of(&self, network: ClientNetwork) -> Option<IdleEntry> {
        let from = IdleEntry { network, since_ms: 0, slot: 0 };
        self.entries.range(from..).next().copied().filter(|entry| entry.network == network)
    }

    /// Returns the first entry of the network that has the most connections, if it has more than
    /// `newcomer`; otherwise the first entry of `newcomer`. A network cannot displace connections
    /// of networks that have no more connections than itself.
    pub(super) fn first_for(&self, newcomer: Option<ClientNetwork>) -> Option<IdleEntry> {
        let own_count = newcomer.map_or(0, |network| self.count_of(network));
        let larger = self.ranking.first().filter(|(Reverse(count), _, _)| *count > own_count);
        self.first_of(larger.map(|(_, _, network)| *network).or(newcomer)?)
    }

    fn change(&mut self, network: ClientNetwork, change: impl FnOnce(&mut Self)) {
        if let Some(rank) = self.rank_of(network) {
            self.ranking.remove(&rank);
        }
        change(self);
        if let Some(rank) = self.rank_of(network) {
            self.ranking.insert(rank);
        }
    }

    fn rank_of(&self, network: ClientNetwork) -> Option<(Reverse<u32>, u64, ClientNetwork)> {
        let first = self.first_of(network)?;
        Some((Reverse(self.count_of(network)), first.since_ms, network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, number].into(), 64)
    }

    fn order(connections: &[(u8, u64)]) -> IdleOrder {
        let mut order = IdleOrder::default();
        for (slot, &(number, since_ms)) in (0..).zip(connections) {
            order.enter(network(number));
            order.insert(IdleEntry { network: network(number), since_ms, slot });
        }
        order
    }

    #[test]
    fn the_largest_network_comes_first_and_among_equals_the_longest_idle_connection() {
        // Columns: connections as (network, time); the network of a new connection; the index of
        // the connection that comes first.
        let two_networks: &[_] = &[(1, 5), (2, 9), (2, 7)];
        let cases = [
            (two_networks, 3, Some(2)),
            (&[(1, 5), (2, 4), (3, 6)], 4, Some(1)),
            (&[(1, 5), (2, 4), (3, 6)], 3, Some(2)),
            (two_networks, 1, Some(2)),
            (two_networks, 2, Some(2)),
            (&[(1, 5), (1, 3), (2, 9), (2, 7)], 2, Some(3)),
            (&[], 1, None),
        ];
        for (connections, newcomer, expected) in cases {
            let first = order(connections).first_for(Some(network(newcomer)));
            assert_eq!(first.map(|entry| entry.slot), expected, "{connections:?} {newcomer}");
        }
    }

    #[test]
    fn an_order_that_all_connections_have_left_is_empty() {
        let connections = [(1, 5), (2, 9), (2, 7)];
        let mut order = order(&connections);
        for (slot, &(number, since_ms)) in (0..).zip(&connections) {
            order.remove(IdleEntry { network: network(number), since_ms, slot });
            order.leave(network(number));
        }
        assert_eq!(order.first_for(None), None);
        assert!(order.counts.is_empty() && order.entries.is_empty() && order.ranking.is_empty());
    }
}
