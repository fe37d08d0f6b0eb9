//! Limits how many handshakes are in progress at a time.
//!
//! A handshake takes a slot once its first bytes have arrived; a connection that sends nothing
//! takes none. Each client network may have only a share of the slots, so that clients that begin
//! handshakes and never finish them leave slots to others. If no slot is free, handshakes wait in
//! the order of their arrival, until their deadlines.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::accept::ClientNetwork;
use crate::limits::TLS_NETWORK_SHARE;

/// One worker's handshakes in progress.
#[derive(Debug, Default)]
pub(crate) struct HandshakeSlots {
    count: Cell<u32>,
    by_network: RefCell<HashMap<ClientNetwork, u32>>,
    waiting: RefCell<VecDeque<Rc<WaitingHandshake>>>,
}

#[derive(Debug)]
struct WaitingHandshake {
    network: ClientNetwork,
    is_admitted: Cell<bool>,
    waker: RefCell<Waker>,
}

/// A handshake slot. Dropping it frees the slot.
pub(super) struct HandshakeSlot {
    slots: Rc<HandshakeSlots>,
    network: ClientNetwork,
    slots_max: u32,
}

impl HandshakeSlots {
    /// Waits for a handshake slot for a client in `network`; the worker has `slots_max` slots.
    pub(super) async fn acquire(
        self: &Rc<Self>,
        network: ClientNetwork,
        slots_max: u32,
    ) -> HandshakeSlot {
        if !self.has_room(network, slots_max) {
            self.wait(network, slots_max).await;
        } else {
            self.take(network);
        }
        HandshakeSlot { slots: Rc::clone(self), network, slots_max }
    }

    async fn wait(&self, network: ClientNetwork, slots_max: u32) {
        let mut queued = QueuedHandshake { slots: self, waiter: None, slots_max };
        poll_fn(|cx| {
            let Some(waiter) = &queued.waiter else {
                let waker = RefCell::new(cx.waker().clone());
                let waiter =
                    Rc::new(WaitingHandshake { network, is_admitted: Cell::new(false), waker });
                self.waiting.borrow_mut().push_back(Rc::clone(&waiter));
                queued.waiter = Some(waiter);
                return Poll::Pending;
            };
            if waiter.is_admitted.get() {
                queued.waiter = None;
                return Poll::Ready(());
            }
            waiter.waker.borrow_mut().clone_from(cx.waker());
            Poll::Pending
        })
        .await;
    }

    fn has_room(&self, network: ClientNetwork, slots_max: u32) -> bool {
        let share = slots_max.div_ceil(TLS_NETWORK_SHARE);
        let held = self.by_network.borrow().get(&network).copied().unwrap_or(0);
        self.count.get() < slots_max && held < share
    }

    fn take(&self, network: ClientNetwork) {
        self.count.update(|count| count + 1);
        *self.by_network.borrow_mut().entry(network).or_default() += 1;
    }

    fn release(&self, network: ClientNetwork, slots_max: u32) {
        self.count.update(|count| count.saturating_sub(1));
        let mut by_network = self.by_network.borrow_mut();
        if let Some(held) = by_network.get_mut(&network) {
            *held -= 1;
            if *held == 0 {
                by_network.remove(&network);
            }
        }
        drop(by_network);
        self.admit_next(slots_max);
    }

    /// Admits the first waiting handshake whose network may have another slot.
    fn admit_next(&self, slots_max: u32) {
        let mut waiting = self.waiting.borrow_mut();
        let next = waiting.iter().position(|waiter| self.has_room(waiter.network, slots_max));
        let Some(waiter) = next.and_then(|next| waiting.remove(next)) else { return };
        self.take(waiter.network);
        waiter.is_admitted.set(true);
        waiter.waker.borrow().wake_by_ref();
    }
}

/// A waiting handshake in the queue. Dropping this value removes the handshake from the queue.
struct QueuedHandshake<'a> {
    slots: &'a HandshakeSlots,
    waiter: Option<Rc<WaitingHandshake>>,
    slots_max: u32,
}

impl Drop for QueuedHandshake<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        match waiter.is_admitted.get() {
            // The handshake gave up before it noticed that it had got a slot.
            true => self.slots.release(waiter.network, self.slots_max),
            false => self.slots.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter)),
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.slots.release(self.network, self.slots_max);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::poll_once::poll_once;

    fn network(last: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, last].into(), 64)
    }

    async fn now(slots: &Rc<HandshakeSlots>, last: u8, slots_max: u32) -> Option<HandshakeSlot> {
        poll_once(pin!(slots.acquire(network(last), slots_max))).await
    }

    #[tokio::test]
    async fn a_network_that_holds_its_share_waits_and_another_does_not() {
        let slots = Rc::<HandshakeSlots>::default();
        let slots_max = TLS_NETWORK_SHARE * 2;
        let (first, second) = (now(&slots, 1, slots_max).await, now(&slots, 1, slots_max).await);
        assert!(first.is_some() && second.is_some());
        let mut third = pin!(slots.acquire(network(1), slots_max));
        assert!(poll_once(third.as_mut()).await.is_none(), "the share is taken");
        assert!(now(&slots, 2, slots_max).await.is_some(), "the other network has slots");
        drop(first);
        assert!(poll_once(third.as_mut()).await.is_some(), "it is admitted");
    }

    #[tokio::test]
    async fn a_wait_that_ends_early_takes_no_slot_along() {
        let slots = Rc::<HandshakeSlots>::default();
        let held = now(&slots, 1, 1).await;
        assert!(held.is_some());
        assert!(now(&slots, 2, 1).await.is_none());
        {
            let mut waits = pin!(slots.acquire(network(3), 1));
            assert!(poll_once(waits.as_mut()).await.is_none());
            drop(held);
            assert_eq!(slots.count.get(), 1, "the slot is passed on");
        }
        assert_eq!(slots.count.get(), 0);
        assert!(slots.waiting.borrow().is_empty() && slots.by_network.borrow().is_empty());
    }
}
