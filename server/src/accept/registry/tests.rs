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
    assert!(registry.longest_idle(Pressure::Descriptors).is_none());
}

#[test]
fn a_connection_is_cut_by_its_tag_while_it_is_there() {
    let registry = Rc::new(Registry::default());
    let (one, two) = (registry.enter(home()), registry.enter(home()));
    let count = Arc::new(Count(AtomicUsize::new(0)));
    two.ticket().set_waker(Arc::clone(&count).into());
    registry.cut(two.tag());
    assert_eq!((one.ticket().is_cut(), two.ticket().is_cut()), (false, true));
    assert_eq!(count.0.load(Ordering::Relaxed), 1, "it is woken");
    let tag = two.tag();
    drop(two);
    let next = registry.enter(home());
    registry.cut(tag);
    assert!(!next.ticket().is_cut(), "the next connection in the slot has another tag");
}

fn network(number: u8) -> ClientNetwork {
    ClientNetwork::of([192, 0, 2, number].into(), 64)
}

/// Makes a connection idle since `since_ms`.
fn idle_since(registered: &RegisteredConnection, since_ms: u64) {
    registered.ticket.begin_idle(60_000);
    registered.ticket.idle_since_ms.set(since_ms);
}

fn longest_idle(registry: &Registry, pressure: Pressure) -> Option<u64> {
    registry.longest_idle(pressure).map(|ticket| ticket.tag)
}

#[test]
fn the_longest_idle_connection_is_found_although_the_order_is_out_of_date() {
    let registry = Rc::new(Registry::default());
    let far_ms = clock::monotonic_ms() + 1_000_000;
    let clients: Vec<_> = (0..20).map(|_| registry.enter(home())).collect();
    assert_eq!(longest_idle(&registry, Pressure::Descriptors), None, "none is idle");
    for (client, since_ms) in clients.iter().zip([70, 50, 60].into_iter().cycle()) {
        idle_since(client, far_ms + since_ms);
    }
    assert_eq!(longest_idle(&registry, Pressure::Descriptors), None, "before a sweep");
    (0..=SWEEP_SLICES).for_each(|_| registry.sweep());
    for pressure in [Pressure::Descriptors, Pressure::Network(home()), Pressure::Worker(network(1))]
    {
        assert_eq!(longest_idle(&registry, pressure), Some(clients[1].tag()), "{pressure:?}");
    }
    assert_eq!(longest_idle(&registry, Pressure::Network(network(1))), None);
    // All connections become idle again, later than before and connection 7 first; then connection
    // 0 becomes busy.
    for (client, since_ms) in clients.iter().zip(100..) {
        idle_since(client, far_ms + since_ms);
    }
    clients[0].ticket.end_idle();
    idle_since(&clients[7], far_ms + 90);
    assert_eq!(longest_idle(&registry, Pressure::Descriptors), Some(clients[7].tag()));
}

#[test]
fn an_order_that_is_wholly_out_of_date_costs_a_limited_number_of_looks() {
    let registry = Rc::new(Registry::default());
    let clients: Vec<_> = (0..10 * IDLE_LOOKS_MAX).map(|_| registry.enter(home())).collect();
    let far_ms = clock::monotonic_ms() + 1_000_000;
    for (client, since_ms) in clients.iter().zip((0..).map(|number| number * 7 % 1000)) {
        idle_since(client, far_ms + since_ms);
    }
    let looked_at = &clients[..IDLE_LOOKS_MAX];
    let longest = looked_at.iter().min_by_key(|client| client.ticket.idle_since_ms.get());
    let tag = longest_idle(&registry, Pressure::Descriptors);
    assert_eq!(tag, longest.map(RegisteredConnection::tag));
}

#[test]
fn a_displaced_connection_ends_or_continues_before_its_displacer_does() {
    for ends in [false, true] {
        let registry = Rc::new(Registry::default());
        let client = registry.enter(home());
        idle_since(&client, 1);
        let (asked, answered) = [(); 2].map(|()| Arc::new(Count(AtomicUsize::new(0)))).into();
        client.ticket().set_waker(Arc::clone(&asked).into());
        let ticket = Rc::clone(&client.ticket);
        let mut displace = Box::pin(ticket.displace());
        let waker = Waker::from(Arc::clone(&answered));
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(displace.as_mut().poll(&mut cx).is_pending());
        assert!(client.ticket.is_displaced() && asked.0.load(Ordering::Relaxed) == 1);
        assert!(displace.as_mut().poll(&mut cx).is_pending(), "it has not answered");
        if ends {
            drop(client);
        } else {
            client.ticket.end_idle();
        }
        assert_eq!(answered.0.load(Ordering::Relaxed), 1, "ends: {ends}");
        assert!(displace.as_mut().poll(&mut cx).is_ready(), "ends: {ends}");
        assert!(!ticket.is_displaced(), "ends: {ends}");
    }
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
            registered.ticket().set_waker(Arc::clone(count).into());
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
