//! The state that the streams of one connection share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use forebay_http2::limits::OUTPUT_BYTES_MAX;

use crate::config::ListenerNumber;
use crate::limits::{
    HTTP2_LENT_PIECES_MAX, STREAM_RESPONSE_BYTES_MAX, STREAM_RESPONSE_BYTES_MIN,
    STREAM_RESPONSE_BYTES_SHARE,
};
use crate::output_budget::OutputBudget;
use crate::send_queue::SendQueue;
use crate::transport::tls::TlsInfo;

/// The part of a connection that its streams share: the slots of the streams that have changed, the
/// waker of the connection's task, and the memory that the responses of the streams take.
#[derive(Debug)]
pub(super) struct SharedState {
    slots: RefCell<Vec<u16>>,
    waker: RefCell<Option<Waker>>,
    /// The number of bytes that the responses of all streams hold. The budget of the worker counts
    /// them too.
    held_bytes: Cell<usize>,
    /// The number of parts of stored bodies that the whole responses of all streams have borrowed.
    lent_count: Cell<usize>,
    /// If the streams together hold at least this many bytes, a stream may hold only
    /// [`STREAM_RESPONSE_BYTES_MIN`].
    held_bytes_max: usize,
    /// The output of all connections of the worker that their clients have not read.
    output: Rc<OutputBudget>,
    /// The memory of this connection's output that waits for the client. The budget counts it too.
    output_bytes: Cell<usize>,
    /// The result of the connection's TLS handshake; `None` without TLS.
    tls: Option<Rc<TlsInfo>>,
    /// The listener that accepted the connection.
    listener: ListenerNumber,
}

impl SharedState {
    pub(super) fn new(
        held_bytes_max: usize,
        output: Rc<OutputBudget>,
        tls: Option<Rc<TlsInfo>>,
        listener: ListenerNumber,
    ) -> SharedState {
        SharedState {
            slots: RefCell::default(),
            waker: RefCell::default(),
            held_bytes: Cell::default(),
            lent_count: Cell::default(),
            held_bytes_max,
            output,
            output_bytes: Cell::default(),
            tls,
            listener,
        }
    }

    pub(super) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Returns the slot of a stream that has changed, and removes it from the slots of changed
    /// streams.
    pub(super) fn next(&self) -> Option<u16> {
        self.slots.borrow_mut().pop()
    }

    /// Counts a whole response that the connection keeps until the client's windows permit it.
    /// Returns the number of bytes and of lent pieces that it holds.
    pub(super) fn hold(&self, queue: &SendQueue) -> (usize, usize) {
        let (bytes, lent_count) = (queue.held_bytes(), queue.lent_count());
        self.hold_bytes(bytes);
        self.lent_count.update(|count| count + lent_count);
        (bytes, lent_count)
    }

    /// Undoes [`SharedState::hold`] with its result.
    pub(super) fn unhold(&self, (bytes, lent_count): (usize, usize)) {
        self.free_bytes(bytes);
        self.lent_count.update(|count| count - lent_count);
    }

    /// Whether responses have borrowed parts of stored bodies.
    pub(super) fn has_lent(&self) -> bool {
        self.lent_count.get() > 0
    }

    /// Whether the connection has room for one more whole response.
    pub(super) fn has_room(&self, queue: &SendQueue) -> bool {
        let bytes_max = match self.output.is_full() {
            true => STREAM_RESPONSE_BYTES_SHARE,
            false => self.held_bytes_max,
        };
        self.held_bytes.get() + queue.held_bytes() <= bytes_max
            && self.lent_count.get() + queue.lent_count() <= HTTP2_LENT_PIECES_MAX
    }

    /// Returns the number of bytes of its response that one stream may hold.
    pub(super) fn stream_bytes_max(&self) -> usize {
        match self.held_bytes.get() < self.held_bytes_max {
            false => STREAM_RESPONSE_BYTES_MIN,
            true if self.output.is_full() => STREAM_RESPONSE_BYTES_SHARE,
            true => STREAM_RESPONSE_BYTES_MAX,
        }
    }

    /// Counts bytes of a stream's response.
    pub(super) fn hold_bytes(&self, count: usize) {
        self.held_bytes.update(|held| held + count);
        self.output.add(count);
    }

    /// Undoes [`SharedState::hold_bytes`].
    pub(super) fn free_bytes(&self, count: usize) {
        self.held_bytes.update(|held| held - count);
        self.output.remove(count);
    }

    /// Counts the memory of the output that waits for the client at the end of a turn.
    pub(super) fn count_output(&self, bytes: usize) {
        let counted = self.output_bytes.replace(bytes);
        self.output.remove(counted);
        self.output.add(bytes);
    }

    /// Whether output waited for the client at the end of the previous turn.
    pub(super) fn has_output(&self) -> bool {
        self.output_bytes.get() > 0
    }

    /// Returns the number of bytes at which the connection writes its output before it adds more.
    pub(super) fn output_bytes_max(&self) -> usize {
        if self.output.is_full() { STREAM_RESPONSE_BYTES_SHARE } else { OUTPUT_BYTES_MAX }
    }

    /// Returns the result of the connection's TLS handshake; `None` without TLS.
    pub(super) fn tls(&self) -> Option<&Rc<TlsInfo>> {
        self.tls.as_ref()
    }

    /// Returns the listener that accepted the connection.
    pub(super) fn listener(&self) -> ListenerNumber {
        self.listener
    }

    pub(super) fn notify(&self, slot: u16) {
        let mut slots = self.slots.borrow_mut();
        if !slots.contains(&slot) {
            slots.push(slot);
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// When a connection ends, its streams may hold whole responses, and output may wait.
impl Drop for SharedState {
    fn drop(&mut self) {
        self.output.remove(self.held_bytes.get() + self.output_bytes.get());
    }
}
