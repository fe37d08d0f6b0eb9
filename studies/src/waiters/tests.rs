//! Tests of waiters that wait repeatedly, of waiters that leave, and of the nodes that these leave
//! on the stack.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::task::Wake;

use super::*;

#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_pending(waiter: &mut Waiter, waiters: &Waiters, waker: &Waker) {
    let found: Poll<()> = waiter.poll(waiters, &Context::from_waker(waker), || None);
    assert!(found.is_pending());
}

#[test]
fn waiters_that_leave_do_not_pile_up() {
    let waiters = Waiters::new();
    let wakes = Arc::new(CountedWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut staying = Waiter::new();
    let mut nodes: Vec<Weak<WaiterNode>> = Vec::new();
    for round in 1..=1_000 {
        poll_pending(&mut staying, &waiters, &waker);
        let mut leaving = Waiter::new();
        poll_pending(&mut leaving, &waiters, Waker::noop());
        leaving.leave(&waiters);
        nodes.push(Arc::downgrade(&leaving.node));
        drop(leaving);
        let left = nodes.iter().filter(|node| node.strong_count() > 0).count();
        assert!(left <= LEFT_MAX, "{left} nodes without a waiter in round {round}");
    }
    let expected = 1_000 / (LEFT_MAX + 1);
    assert_eq!(
        wakes.0.load(Ordering::Relaxed),
        expected,
        "a waiter that stays was woken too often or too rarely"
    );
    waiters.wake_all();
    assert_eq!(
        wakes.0.load(Ordering::Relaxed),
        expected + 1,
        "the waiter that stays is woken once more"
    );
    assert_eq!(waiters.left_count.load(Relaxed), 0, "counted wrongly");
}

#[test]
fn a_waiter_that_is_done_leaves_nothing_behind() {
    let waiters = Waiters::new();
    let mut waiter = Waiter::new();
    poll_pending(&mut waiter, &waiters, Waker::noop());
    waiters.wake_all();
    waiter.leave(&waiters);
    assert_eq!(Arc::strong_count(&waiter.node), 1, "the stack still has a count of the node");
    assert_eq!(waiters.left_count.load(Relaxed), 0, "counted wrongly");
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this waker always panics");
    }
}

#[test]
fn a_waker_that_panics_does_not_keep_others_asleep() {
    let waiters = Waiters::new();
    let wakes = Arc::new(CountedWakes::default());
    let (mut first, mut broken) = (Waiter::new(), Waiter::new());
    poll_pending(&mut first, &waiters, &Waker::from(Arc::clone(&wakes)));
    poll_pending(&mut broken, &waiters, &Waker::from(Arc::new(Panics)));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waiters.wake_all()));
    assert!(outcome.is_err(), "the panic goes on");
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the other waiter is woken");
}

#[test]
fn a_dropped_stack_drops_its_nodes() {
    let waiters = Waiters::new();
    let mut waiter = Waiter::new();
    poll_pending(&mut waiter, &waiters, Waker::noop());
    drop(waiters);
    assert_eq!(Arc::strong_count(&waiter.node), 1, "the stack still has a count of the node");
}
