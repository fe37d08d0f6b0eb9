//! Interim responses (1xx) that an exchange has received and that have not been sent to the client.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;
use forebay_http::response::ResponseHead;
use forebay_sync::{LockClass, Mutex};

use crate::limits::INTERIM_COUNT_MAX;

/// A short queue of interim responses, from hyper's callback to the client's task. Callback and
/// task run on one thread; the mutex is there because hyper requires a callback that is `Send` and
/// `Sync`.
#[derive(Clone)]
pub(crate) struct InterimQueue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    heads: Vec<ResponseHead>,
    /// The number of heads that have been queued so far. After [`INTERIM_COUNT_MAX`] heads, further
    /// ones are dropped.
    count: u32,
    waker: Option<Waker>,
}

impl InterimQueue {
    /// Creates an empty queue.
    pub(crate) fn new() -> InterimQueue {
        InterimQueue(Arc::new(Mutex::new(LockClass::Interim, State::default())))
    }

    /// Returns the head of a 103 response with these Link fields (RFC 8297).
    pub(crate) fn early_hints(links: FieldBlock) -> ResponseHead {
        let framing = BodyFraming::None;
        ResponseHead { status: 103, framing, content_length: None, block: links }
    }

    /// Appends a head and wakes the waiting task; drops the head if too many have been queued.
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

    /// Removes and returns all heads.
    pub(crate) fn take(&self) -> Vec<ResponseHead> {
        let mut state = self.0.lock();
        std::mem::take(&mut state.heads)
    }

    /// Removes and returns all heads; if there are none, the next head wakes the task.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Vec<ResponseHead>> {
        let mut state = self.0.lock();
        if state.heads.is_empty() {
            // The waker changes if the request is a stream of HTTP/2: its first poll is in the task
            // of the connection.
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut state.heads))
    }
}
