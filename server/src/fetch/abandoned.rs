//! Fetches whose clients have all left. They continue, because the response may be wanted again,
//! but their number is limited per client network: otherwise a client that sends requests and
//! leaves could make the origin work for nothing.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_cache::FollowerWatch;
use pin_project_lite::pin_project;

use crate::accept::ClientNetwork;
use crate::counters::Counter;
use crate::worker::Worker;

/// The abandoned fetches of one worker, grouped by the network of the client that started them. In
/// each group the oldest fetch is first.
#[derive(Debug, Default)]
pub(crate) struct AbandonedFetches {
    by_network: RefCell<HashMap<ClientNetwork, VecDeque<Rc<WatchedFetch>>>>,
}

#[derive(Debug)]
struct WatchedFetch {
    network: ClientNetwork,
    followers: FollowerWatch,
    /// Whether the fetch is in the list of abandoned fetches.
    is_listed: Cell<bool>,
    is_stopped: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl WatchedFetch {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl AbandonedFetches {
    /// Adds a fetch. If its network then has more than `count_max` abandoned fetches, stops the
    /// oldest. Fetches that have answered a client which needed no body are the last to be stopped.
    fn add(&self, fetch: &Rc<WatchedFetch>, count_max: usize) {
        let mut by_network = self.by_network.borrow_mut();
        let listed = by_network.entry(fetch.network).or_default();
        fetch.is_listed.set(true);
        listed.push_back(Rc::clone(fetch));
        while listed.len() > count_max {
            let index = listed.iter().position(|fetch| !fetch.followers.was_served());
            let Some(oldest) = listed.remove(index.unwrap_or(0)) else { break };
            oldest.is_listed.set(false);
            // If clients have joined the fetch in the meantime, it continues and is watched again.
            oldest.is_stopped.set(oldest.followers.withdraw());
            oldest.wake();
        }
        if listed.is_empty() {
            by_network.remove(&fetch.network);
        }
    }

    fn remove(&self, fetch: &Rc<WatchedFetch>) {
        if !fetch.is_listed.replace(false) {
            return;
        }
        let mut by_network = self.by_network.borrow_mut();
        if let Some(listed) = by_network.get_mut(&fetch.network) {
            listed.retain(|other| !Rc::ptr_eq(other, fetch));
            if listed.is_empty() {
                by_network.remove(&fetch.network);
            }
        }
    }
}

pin_project! {
    /// A fetch, and the guard that lists it while its clients have all left.
    struct WantedFetch<F> {
        guard: AbandonedGuard,
        #[pin]
        fetch: F,
    }
}

/// Runs `fetch`, which owns the leader of `followers`, to its end. Stops the fetch early if all of
/// its clients have left, and their network has since abandoned too many other fetches.
pub(super) fn run_while_wanted<F: Future<Output = ()>>(
    worker: Rc<Worker>,
    network: ClientNetwork,
    followers: FollowerWatch,
    fetch: F,
) -> impl Future<Output = ()> {
    let watched = WatchedFetch {
        network,
        followers,
        is_listed: Cell::new(false),
        is_stopped: Cell::new(false),
        waker: RefCell::new(None),
    };
    WantedFetch { guard: AbandonedGuard { worker, fetch: Rc::new(watched) }, fetch }
}

impl<F: Future<Output = ()>> Future for WantedFetch<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let AbandonedGuard { worker, fetch: watched } = this.guard;
        if !watched.is_stopped.get() && this.fetch.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if watched.is_listed.get() && watched.followers.has_followers() {
            worker.abandoned.remove(watched);
        }
        let is_unlisted = !watched.is_stopped.get() && !watched.is_listed.get();
        if is_unlisted && watched.followers.poll_unfollowed(cx).is_ready() {
            *watched.waker.borrow_mut() = Some(cx.waker().clone());
            let count_max = worker.config().server.abandoned_fetches_per_network_max;
            worker.abandoned.add(watched, count_max as usize);
        }
        if watched.is_stopped.get() {
            worker.count(Counter::FetchesAbandoned);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// Removes a fetch from the list of abandoned fetches when it ends, even by a panic.
struct AbandonedGuard {
    worker: Rc<Worker>,
    fetch: Rc<WatchedFetch>,
}

impl Drop for AbandonedGuard {
    fn drop(&mut self) {
        self.worker.abandoned.remove(&self.fetch);
    }
}
