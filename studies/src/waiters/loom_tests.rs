//! Models of waiters. A waiter that is not woken sleeps for ever, which loom reports as a deadlock.

use std::sync::{Arc, Weak}; // loom's own aborts when it is dropped after a deadlock was found

use loom::thread;

use super::*;
use forebay_sync::atomic::AtomicU64;
use forebay_sync::model::{ModelValue, breaks, breaks_within, holds, holds_within};

/// A published number that grows, with the waiters for it.
struct Number {
    value: AtomicU64,
    waiters: Waiters,
}

impl Number {
    fn new() -> Arc<ModelValue<Number>> {
        Arc::new(ModelValue::new(Number { value: AtomicU64::new(0), waiters: Waiters::new() }))
    }

    fn publish(&self, value: u64) {
        self.value.store(value, Relaxed);
        self.waiters.wake_all();
    }

    fn wait(&self, waiter: &mut Waiter, least: u64) {
        waiter.wait(&self.waiters, || (self.value.load(Relaxed) >= least).then_some(()));
    }

    /// Puts the waiter on the stack on behalf of a task that is never woken.
    fn poll_pending(&self, waiter: &mut Waiter) {
        let cx = Context::from_waker(Waker::noop());
        let found: Poll<()> = waiter.poll(&self.waiters, &cx, || None);
        assert!(found.is_pending());
    }
}

/// Models a waiter that waits for each number from 1 to `last`, one after another, while another
/// thread publishes the numbers.
fn one_waiter(last: u64) {
    let number = Number::new();
    let other = Arc::clone(&number);
    let waiting = thread::spawn(move || {
        let mut waiter = Waiter::new();
        for least in 1..=last {
            other.wait(&mut waiter, least);
        }
        waiter.leave(&other.waiters);
    });
    for value in 1..=last {
        number.publish(value);
    }
    waiting.join().unwrap();
}

#[test]
fn every_sleeper_is_woken() {
    holds("waiters: one waits once", || one_waiter(1));
    breaks("waiters.wake", "waiters: one waits once", || one_waiter(1));
    breaks("waiters.sleep", "waiters: one waits once", || one_waiter(1));
    breaks("waiters.push", "waiters: one waits once", || one_waiter(1));
    breaks("waiters.take", "waiters: one waits once", || one_waiter(1));
}

#[test]
fn a_node_is_pushed_again_only_when_it_is_free() {
    holds_within(Some(4), "waiters: one waits twice", || one_waiter(2));
    breaks_within(Some(3), "waiters.lower", "waiters: one waits twice", || one_waiter(2));
    breaks_within(Some(3), "waiters.raise", "waiters: one waits twice", || one_waiter(2));
}

/// Models two waiters that wait for the same number.
fn two_waiters() {
    let number = Number::new();
    let waiting = [(); 2].map(|()| {
        let number = Arc::clone(&number);
        thread::spawn(move || number.wait(&mut Waiter::new(), 1))
    });
    number.publish(1);
    for thread in waiting {
        thread.join().unwrap();
    }
}

#[test]
fn two_waiters_that_push_at_once_are_both_woken() {
    holds_within(Some(3), "waiters: two wait", two_waiters);
}

/// Models a waiter that leaves while its node is on the stack, and therefore takes the stack.
/// Another waiter waits at the same time, and the number is published.
fn leaver() {
    let number = Number::new();
    let waiting = {
        let number = Arc::clone(&number);
        thread::spawn(move || {
            let mut waiter = Waiter::new();
            number.wait(&mut waiter, 1);
            waiter.leave(&number.waiters);
        })
    };
    let leaving = {
        let number = Arc::clone(&number);
        thread::spawn(move || {
            let mut waiter = Waiter::new();
            number.poll_pending(&mut waiter);
            waiter.leave(&number.waiters);
            Arc::downgrade(&waiter.node)
        })
    };
    number.publish(1);
    waiting.join().unwrap();
    let node: Weak<WaiterNode> = leaving.join().unwrap();
    assert!(node.upgrade().is_none(), "the node of the leaver was not freed");
    assert_eq!(number.waiters.left_count.load(Relaxed), 0, "counted wrongly");
}

#[test]
fn a_waiter_that_leaves_takes_no_other_wake_with_it() {
    holds_within(Some(3), "waiters: one waits, another leaves", leaver);
    breaks_within(Some(2), "waiters.wake", "waiters: one waits, another leaves", leaver);
}
