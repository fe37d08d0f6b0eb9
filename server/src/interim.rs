//! Interim responses (1xx) on their way from an origin's connection to the client that waits.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use forebay_http::response::ResponseHead;
use forebay_sync::{LockClass, Mutex};

use crate::limits::INTERIM_COUNT_MAX;

/// A short queue from hyper's callback to the client's task. Both are on one thread, but hyper
/// requires a callback that could be shared.
#[derive(Clone)]
pub(crate) struct InterimQueue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    heads: Vec<ResponseHead>,
    /// Number of heads so far; more than [`INTERIM_COUNT_MAX`] are dropped.
    count: u32,
    waker: Option<Waker>,
}

impl InterimQueue {
    /// An empty queue.
    pub(crate) fn new() -> InterimQueue {
        InterimQueue(Arc::new(Mutex::new(LockClass::Interim, State::default())))
    }

    /// Puts a head in and wakes the task that waits.
    pub(super) fn push(&self, head: ResponseHead) {
        let mut state = self.0.lock();
        if state.count < INTERIM_COUNT_MAX {
            state.count += 1;
            state.heads.push(head);
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    /// Takes all heads out.
    pub(crate) fn take(&self) -> Vec<ResponseHead> {
        let mut state = self.0.lock();
        std::mem::take(&mut state.heads)
    }

    /// Takes all heads out, or wakes the task when one is put in.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Vec<ResponseHead>> {
        let mut state = self.0.lock();
        if state.heads.is_empty() {
            // A task keeps its waker for life.
            state.waker.get_or_insert_with(|| cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut state.heads))
    }
}
