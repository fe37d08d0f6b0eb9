//! Permits for exchanges with one origin, shared fairly between client networks.
//!
//! A returned permit goes to the network that holds the fewest permits, among the networks with
//! waiting requests; within a network, the oldest request is first. So a client that starts many
//! requests waits behind its own requests, and a client with one request waits for at most one
//! permit to be returned. A network gets a further permit only while it holds less than eight times
//! as many permits as are free. So a single network leaves a ninth of the permits free, and two
//! networks together leave a seventeenth; other networks then rarely have to wait. If there are
//! eight permits or fewer, one network may take them all.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::accept::ClientNetwork;

/// The permits of one origin.
#[derive(Debug)]
pub(super) struct Permits {
    state: RefCell<PermitState>,
}

/// The right to one exchange with the origin, until it is dropped.
#[derive(Debug)]
pub(super) struct ExchangePermit {
    permits: Rc<Permits>,
    network: ClientNetwork,
}

#[derive(Debug)]
struct PermitState {
    /// The number of permits that no network holds. While there are any, a request waits only if
    /// its network already holds its share.
    free: u32,
    /// The networks that hold permits or wait for one.
    networks: HashMap<ClientNetwork, NetworkShare>,
    /// The networks with waiting requests; the first one gets the next permit.
    order: BTreeSet<WaitRank>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct NetworkShare {
    held: u32,
    /// The waiting requests of the network, in the order of their arrival.
    waiting: BTreeMap<u64, oneshot::Sender<ExchangePermit>>,
}

/// The rank of a network among the networks that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitRank {
    held: u32,
    first_arrival: u64,
    network: ClientNetwork,
}

impl NetworkShare {
    fn rank(&self, network: ClientNetwork) -> Option<WaitRank> {
        let (&first_arrival, _) = self.waiting.first_key_value()?;
        Some(WaitRank { held: self.held, first_arrival, network })
    }
}

/// The most permits that a network may hold for each free permit.
const HELD_PER_FREE_MAX: u32 = 8;

impl PermitState {
    /// Whether a network that holds `held` permits may take one of the free permits.
    fn may_take(&self, held: u32) -> bool {
        self.free > 0 && held < self.free.saturating_mul(HELD_PER_FREE_MAX)
    }

    /// Changes the share of a network, and its rank with it.
    fn change<T>(
        &mut self,
        network: ClientNetwork,
        change: impl FnOnce(&mut NetworkShare) -> T,
    ) -> T {
        let share = self.networks.entry(network).or_default();
        if let Some(rank) = share.rank(network) {
            self.order.remove(&rank);
        }
        let result = change(share);
        match share.rank(network) {
            Some(rank) => _ = self.order.insert(rank),
            None if share.held == 0 => _ = self.networks.remove(&network),
            None => {}
        }
        result
    }

    /// Takes a free permit for the next waiting request, if the network of that request may have
    /// one.
    fn next(&mut self) -> Option<(ClientNetwork, oneshot::Sender<ExchangePermit>)> {
        let first = self.order.first().copied().filter(|rank| self.may_take(rank.held))?;
        self.free -= 1;
        let network = first.network;
        let request = self.change(network, |share| {
            share.held += 1;
            share.waiting.pop_first()
        });
        let (_, request) = request.expect("a network with a rank has a waiting request");
        Some((network, request))
    }
}

impl ExchangePermit {
    /// Returns the network of the client for which the exchange runs.
    pub(super) fn network(&self) -> ClientNetwork {
        self.network
    }
}

impl Permits {
    /// Creates `count` free permits.
    pub(super) fn new(count: u32) -> Rc<Permits> {
        let state = PermitState {
            free: count,
            networks: HashMap::new(),
            order: BTreeSet::new(),
            arrivals: 0,
        };
        Rc::new(Permits { state: RefCell::new(state) })
    }

    /// Takes a permit for a request of `network`. Waits until the network may have one.
    pub(super) async fn acquire(self: &Rc<Self>, network: ClientNetwork) -> ExchangePermit {
        let (arrival, granted) = {
            let mut state = self.state.borrow_mut();
            let held = state.networks.get(&network).map_or(0, |share| share.held);
            if state.may_take(held) {
                state.free -= 1;
                state.change(network, |share| share.held += 1);
                return ExchangePermit { permits: Rc::clone(self), network };
            }
            state.arrivals += 1;
            let (arrival, (grant, granted)) = (state.arrivals, oneshot::channel());
            state.change(network, |share| share.waiting.insert(arrival, grant));
            (arrival, granted)
        };
        let waiting = WaitingRequest { permits: self, network, arrival };
        let permit = granted.await.expect("only the waiting request itself removes its grant");
        drop(waiting);
        permit
    }

    /// Whether a request of `network` gets a permit without waiting.
    pub(super) fn has_turn(&self, network: ClientNetwork) -> bool {
        self.state.borrow().may_take(self.held_by(network))
    }

    /// Returns the number of permits that a network holds.
    pub(super) fn held_by(&self, network: ClientNetwork) -> u32 {
        self.state.borrow().networks.get(&network).map_or(0, |share| share.held)
    }

    /// Returns the number of permits that no network holds.
    pub(super) fn free(&self) -> u32 {
        self.state.borrow().free
    }
}

/// Removes a request from the queue when it stops waiting.
struct WaitingRequest<'a> {
    permits: &'a Permits,
    network: ClientNetwork,
    arrival: u64,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.permits.state.borrow_mut();
        if state.networks.contains_key(&self.network) {
            state.change(self.network, |share| share.waiting.remove(&self.arrival));
        }
    }
}

impl Drop for ExchangePermit {
    fn drop(&mut self) {
        let next = {
            let mut state = self.permits.state.borrow_mut();
            state.change(self.network, |share| share.held -= 1);
            state.free += 1;
            state.next()
        };
        if let Some((network, request)) = next {
            let permit = ExchangePermit { permits: Rc::clone(&self.permits), network };
            // If the request has just given up, sending drops the permit, which then goes to the
            // next request.
            let _ = request.send(permit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, number].into(), 64)
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn acquired(permits: &Rc<Permits>, number: u8) -> ExchangePermit {
        match poll(pin!(permits.acquire(network(number)))) {
            Poll::Ready(permit) => permit,
            Poll::Pending => panic!("no permit is free"),
        }
    }

    #[test]
    fn a_returned_permit_goes_to_the_network_that_holds_the_fewest() {
        let permits = Permits::new(3);
        let (first, second) = (acquired(&permits, 1), acquired(&permits, 1));
        let third = acquired(&permits, 2);
        let mut of_first = pin!(permits.acquire(network(1)));
        let mut of_second = pin!(permits.acquire(network(2)));
        let mut of_third = pin!(permits.acquire(network(3)));
        assert!(poll(of_first.as_mut()).is_pending());
        assert!(poll(of_second.as_mut()).is_pending());
        assert!(poll(of_third.as_mut()).is_pending());
        drop(first);
        assert!(poll(of_first.as_mut()).is_pending() && poll(of_second.as_mut()).is_pending());
        let Poll::Ready(fourth) = poll(of_third.as_mut()) else { panic!("it holds none") };
        // Networks 1 and 2 hold one permit each; network 1 has waited longer.
        drop(fourth);
        assert!(poll(of_second.as_mut()).is_pending());
        let Poll::Ready(fifth) = poll(of_first.as_mut()) else { panic!("it has waited longer") };
        drop(third);
        let Poll::Ready(sixth) = poll(of_second.as_mut()) else { panic!("it alone waits") };
        assert_eq!((permits.held_by(network(1)), permits.held_by(network(2))), (2, 1));
        drop((second, fifth, sixth));
        let state = permits.state.borrow();
        assert_eq!((state.free, state.networks.len(), state.order.len()), (3, 0, 0));
    }

    #[test]
    fn one_network_leaves_a_ninth_of_the_permits_to_the_others() {
        let permits = Permits::new(18);
        let mut held: Vec<_> = (0..16).map(|_| acquired(&permits, 1)).collect();
        let mut waits = pin!(permits.acquire(network(1)));
        assert!(poll(waits.as_mut()).is_pending());
        let others = [acquired(&permits, 2), acquired(&permits, 3)];
        let mut waits_too = pin!(permits.acquire(network(4)));
        assert!(poll(waits_too.as_mut()).is_pending());
        drop(others);
        let Poll::Ready(_other) = poll(waits_too.as_mut()) else { panic!("a permit is free") };
        assert!(poll(waits.as_mut()).is_pending() && permits.free() == 1);
        drop(_other);
        held.pop();
        let Poll::Ready(_own) = poll(waits.as_mut()) else { panic!("it holds fewer") };
        assert_eq!(permits.free(), 2);
    }

    #[test]
    fn a_request_that_gives_up_leaves_no_trace_and_its_permit_goes_to_the_next() {
        let permits = Permits::new(1);
        let held = acquired(&permits, 1);
        {
            let mut gives_up = pin!(permits.acquire(network(2)));
            assert!(poll(gives_up.as_mut()).is_pending());
        }
        assert_eq!(permits.state.borrow().networks.len(), 1);
        let mut next = pin!(permits.acquire(network(3)));
        {
            let mut granted = pin!(permits.acquire(network(2)));
            assert!(poll(granted.as_mut()).is_pending());
            assert!(poll(next.as_mut()).is_pending());
            drop(held);
            // The permit has been granted to network 2, which drops the request unpolled.
        }
        let Poll::Ready(permit) = poll(next.as_mut()) else { panic!("the permit is lost") };
        drop(permit);
        assert_eq!(permits.free(), 1);
    }
}
