//! The order in which handshakes take their steps.
//!
//! A signature takes long, so only one step runs in a turn of the event loop. Client networks take
//! turns: a client that begins many handshakes delays its own network, and a handshake of another
//! network at most by one step for each network that waits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::accept::ClientNetwork;

/// The steps of one worker's handshakes that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct HandshakeTurns {
    is_taken: Cell<bool>,
    /// The networks in the order of their next turns.
    waiting: RefCell<VecDeque<WaitingNetwork>>,
}

#[derive(Debug)]
struct WaitingNetwork {
    network: ClientNetwork,
    /// The steps of this network in the order of their arrival; never empty.
    steps: VecDeque<Rc<WaitingStep>>,
}

#[derive(Debug)]
struct WaitingStep {
    has_turn: Cell<bool>,
    waker: RefCell<Waker>,
}

/// The turn of one step. Dropping it passes the turn on.
pub(super) struct HandshakeTurn<'t> {
    turns: &'t HandshakeTurns,
}

impl HandshakeTurns {
    /// Waits for the turn of a step of a client in `network`.
    pub(super) async fn acquire(&self, network: ClientNetwork) -> HandshakeTurn<'_> {
        let mut queued = QueuedStep { turns: self, network, step: None };
        poll_fn(|cx| {
            let Some(step) = &queued.step else {
                if !self.is_taken.replace(true) {
                    return Poll::Ready(());
                }
                let waker = RefCell::new(cx.waker().clone());
                let step = Rc::new(WaitingStep { has_turn: Cell::new(false), waker });
                self.push(network, Rc::clone(&step));
                queued.step = Some(step);
                return Poll::Pending;
            };
            if step.has_turn.get() {
                queued.step = None;
                return Poll::Ready(());
            }
            step.waker.borrow_mut().clone_from(cx.waker());
            Poll::Pending
        })
        .await;
        HandshakeTurn { turns: self }
    }

    fn push(&self, network: ClientNetwork, step: Rc<WaitingStep>) {
        let mut waiting = self.waiting.borrow_mut();
        match waiting.iter_mut().find(|other| other.network == network) {
            Some(other) => other.steps.push_back(step),
            None => waiting.push_back(WaitingNetwork { network, steps: [step].into() }),
        }
    }

    fn remove(&self, network: ClientNetwork, step: &Rc<WaitingStep>) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(of_network) = waiting.iter_mut().find(|other| other.network == network) {
            of_network.steps.retain(|other| !Rc::ptr_eq(other, step));
        }
        waiting.retain(|other| !other.steps.is_empty());
    }

    /// Gives the turn to the next network, which then waits behind all others.
    fn pass_on(&self) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(mut next) = waiting.pop_front() else {
            return self.is_taken.set(false);
        };
        if let Some(step) = next.steps.pop_front() {
            step.has_turn.set(true);
            step.waker.borrow().wake_by_ref();
        }
        if !next.steps.is_empty() {
            waiting.push_back(next);
        }
    }
}

impl Drop for HandshakeTurn<'_> {
    fn drop(&mut self) {
        self.turns.pass_on();
    }
}

/// A waiting step in the queue. Dropping this value removes the step from the queue.
struct QueuedStep<'t> {
    turns: &'t HandshakeTurns,
    network: ClientNetwork,
    step: Option<Rc<WaitingStep>>,
}

impl Drop for QueuedStep<'_> {
    fn drop(&mut self) {
        let Some(step) = self.step.take() else { return };
        match step.has_turn.get() {
            // The handshake ended before it noticed that it had its turn.
            true => self.turns.pass_on(),
            false => self.turns.remove(self.network, &step),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use super::*;
    use crate::poll_once::poll_once;

    fn network(last: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, last].into(), 64)
    }

    type Waiting<'t> = Pin<Box<dyn Future<Output = HandshakeTurn<'t>> + 't>>;

    /// Passes the turn on until no step waits; returns the positions of the steps in the order of
    /// their turns.
    async fn order(mut turn: HandshakeTurn<'_>, mut steps: Vec<Waiting<'_>>) -> Vec<usize> {
        let (mut order, mut done) = (Vec::new(), vec![false; steps.len()]);
        loop {
            drop(turn);
            let mut next = None;
            for (at, step) in steps.iter_mut().enumerate() {
                if !done[at]
                    && let Some(taken) = poll_once(Pin::new(step)).await
                {
                    assert!(next.is_none(), "one step at a time");
                    done[at] = true;
                    order.push(at);
                    next = Some(taken);
                }
            }
            match next {
                Some(taken) => turn = taken,
                None => return order,
            }
        }
    }

    #[tokio::test]
    async fn networks_take_turns() {
        let turns = HandshakeTurns::default();
        let turn = turns.acquire(network(1)).await;
        let mut steps: Vec<Waiting<'_>> = Vec::new();
        for of in [1, 1, 1, 2, 2, 3] {
            let mut step: Waiting<'_> = Box::pin(turns.acquire(network(of)));
            assert!(poll_once(Pin::new(&mut step)).await.is_none(), "the turn is taken");
            steps.push(step);
        }
        assert_eq!(order(turn, steps).await, [0, 3, 5, 1, 4, 2]);
        assert!(poll_once(pin!(turns.acquire(network(4)))).await.is_some(), "the turn is free");
    }

    #[tokio::test]
    async fn a_step_that_is_given_up_passes_its_turn_on() {
        let turns = HandshakeTurns::default();
        let turn = turns.acquire(network(1)).await;
        let mut first = Box::pin(turns.acquire(network(1)));
        let mut second = Box::pin(turns.acquire(network(2)));
        let mut third = pin!(turns.acquire(network(3)));
        assert!(poll_once(first.as_mut()).await.is_none());
        assert!(poll_once(second.as_mut()).await.is_none());
        assert!(poll_once(third.as_mut()).await.is_none());
        drop(second);
        drop(turn);
        drop(first);
        assert!(poll_once(third.as_mut()).await.is_some());
        assert!(turns.waiting.borrow().is_empty());
    }
}
