//! The transport of one stream: an HTTP/1.1 connection in memory, between the task of the stream
//! and the task of the HTTP/2 connection.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `head` | the connection: the head of the request, and its parts | the stream |
//! | `request` | the connection: the body of the request | the stream |
//! | `whole` | the stream: a response that is ready at once | the connection |
//! | `response` | the stream: any other response, piece by piece | the connection |
//!
//! Both run on one thread. A side that adds bytes, takes bytes or ends wakes the other side. A pipe
//! carries one stream after the other as long as each response is ready at once.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_http::error::RequestError;
use forebay_http::request::RequestParts;
use forebay_http::target::Scheme;

use super::byte_queue::ByteQueue;
use super::shared::SharedState;
use super::stream_head::StreamHead;
use crate::buffers::Buffers;
use crate::config::ListenerNumber;
use crate::limits::STREAM_HEAD_BYTES_MAX;
use crate::send_queue::SendQueue;
use crate::transport::tls::TlsInfo;
use crate::transport::{ClientEnd, Transport};

/// A connection in memory, for one stream at a time.
pub(super) struct StreamPipe {
    shared: Rc<SharedState>,
    slot: Cell<u16>,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    head: RefCell<StreamHead>,
    request: RefCell<ByteQueue>,
    /// The number of bytes of the request's body that the stream has taken since the connection
    /// last asked.
    taken_bytes: Cell<usize>,
    /// Whether the whole request has been passed to the pipe.
    is_request_whole: Cell<bool>,
    whole: RefCell<SendQueue>,
    /// Whether `whole` is the response to the current request.
    is_whole: Cell<bool>,
    /// Whether the stream has a task of its own, so that the connection does not look at `whole`.
    is_spawned: Cell<bool>,
    response: RefCell<ByteQueue>,
    /// The number of bytes of the response that the pipe or the connection holds.
    held_bytes: Cell<usize>,
    /// Whether the head of the response is incomplete, so that the pipe may hold more bytes.
    is_head_long: Cell<bool>,
    /// Whether the stream has ended its response.
    is_response_over: Cell<bool>,
    /// Whether the task of the stream has ended.
    is_work_over: Cell<bool>,
    /// Whether the response was cut short.
    is_cut: Cell<bool>,
    /// Whether the client has reset the stream, or the connection is gone.
    is_reset: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

impl StreamPipe {
    pub(super) fn new(
        shared: Rc<SharedState>,
        (peer, local): (SocketAddr, Option<SocketAddr>),
    ) -> Rc<StreamPipe> {
        Rc::new(StreamPipe {
            shared,
            slot: Cell::default(),
            peer,
            local,
            head: RefCell::default(),
            request: RefCell::default(),
            taken_bytes: Cell::default(),
            is_request_whole: Cell::default(),
            whole: RefCell::default(),
            is_whole: Cell::default(),
            is_spawned: Cell::default(),
            response: RefCell::default(),
            held_bytes: Cell::default(),
            is_head_long: Cell::default(),
            is_response_over: Cell::default(),
            is_work_over: Cell::default(),
            is_cut: Cell::default(),
            is_reset: Cell::default(),
            reader: RefCell::default(),
            writer: RefCell::default(),
        })
    }

    /// Begins the stream of a slot, whose request head and parts `write_head` writes.
    pub(super) fn begin(
        &self,
        slot: u16,
        has_body: bool,
        write_head: impl FnOnce(&mut Vec<u8>, &mut RequestParts) -> Result<usize, RequestError>,
    ) {
        self.slot.set(slot);
        self.head.borrow_mut().set(write_head);
        self.is_request_whole.set(!has_body);
    }

    /// Moves the head of the next request to the buffers of the stream's task; see
    /// [`StreamHead::take`].
    pub(super) fn take_head(&self, buffers: &mut Buffers) -> Option<Result<usize, RequestError>> {
        self.head.borrow_mut().take(buffers)
    }

    /// Hands a whole response over to the connection, if it has room for it. Returns whether it
    /// has; if so, `queue` is empty afterwards, and the work on the stream is over.
    pub(super) fn hand_over(&self, queue: &mut SendQueue) -> bool {
        let is_refused = self.is_spawned.get() || self.is_reset.get();
        if is_refused || !self.shared.has_room(queue) || queue.is_revoked() {
            return false;
        }
        std::mem::swap(queue, &mut self.whole.borrow_mut());
        self.is_whole.set(true);
        true
    }

    /// Whether there is a next request.
    pub(super) fn has_head(&self) -> bool {
        self.head.borrow().is_set()
    }

    /// Whether the stream has a task of its own.
    pub(super) fn is_spawned(&self) -> bool {
        self.is_spawned.get()
    }

    /// Whether the client has reset the stream, or the connection is gone.
    pub(super) fn is_reset(&self) -> bool {
        self.is_reset.get()
    }

    /// Records that the stream has a task of its own from now on.
    pub(super) fn note_spawned(&self) {
        self.is_spawned.set(true);
        // No other stream uses this pipe.
        self.head.take();
    }

    /// Whether a whole response was handed over that the connection has not taken.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }

    /// Passes the response that was handed over to `take`, which must leave it empty; returns
    /// `None` if there is none.
    pub(super) fn take_whole<T>(&self, take: impl FnOnce(&mut SendQueue) -> T) -> Option<T> {
        self.is_whole.take().then(|| take(&mut self.whole.borrow_mut()))
    }

    /// Returns the stream's end of the pipe.
    pub(super) fn transport(self: &Rc<Self>) -> Box<dyn Transport> {
        Box::new(StreamTransport(Rc::clone(self)))
    }

    /// Appends about this number of bytes to the request's body.
    pub(super) fn push_request(&self, bytes: usize, append: impl FnOnce(&mut Vec<u8>)) {
        append(self.request.borrow_mut().end(bytes));
        wake(&self.reader);
    }

    /// Marks the end of the request.
    pub(super) fn end_request(&self) {
        self.is_request_whole.set(true);
        wake(&self.reader);
    }

    /// Breaks the pipe: from now on, the stream's reads and writes fail.
    pub(super) fn reset(&self) {
        self.is_reset.set(true);
        wake(&self.reader);
        wake(&self.writer);
    }

    /// Wakes the stream, because the store has revoked bytes that it may still have to send.
    pub(super) fn wake_writer(&self) {
        wake(&self.writer);
    }

    /// Returns the number of bytes of the body that the stream has taken since the last call.
    pub(super) fn taken_bytes(&self) -> usize {
        self.taken_bytes.take()
    }

    /// Passes the response to `take`, and removes as many bytes of it as `take` returns.
    pub(super) fn take_response(&self, take: impl FnOnce(&[u8]) -> usize) {
        let count = take(self.response.borrow().bytes());
        self.response.borrow_mut().consume(count);
    }

    /// Records whether the pipe holds an incomplete head, which needs room until it is complete.
    pub(super) fn note_head(&self, is_incomplete: bool) {
        if self.is_head_long.replace(is_incomplete) != is_incomplete {
            wake(&self.writer);
        }
    }

    /// Records that `count` bytes of the response are no longer held, which makes room for more.
    /// The stream is woken once a quarter of its room is free: a client may open its windows by a
    /// byte at a time.
    pub(super) fn free(&self, count: usize) {
        let count = count.min(self.held_bytes.get());
        self.held_bytes.update(|held| held - count);
        self.shared.free_bytes(count);
        let bytes_max = self.bytes_max();
        if count > 0 && self.held_bytes.get() <= bytes_max - bytes_max / 4 {
            wake(&self.writer);
        }
    }

    /// Returns the number of bytes of its response that the stream may hold.
    fn bytes_max(&self) -> usize {
        match self.is_head_long.get() {
            true => STREAM_HEAD_BYTES_MAX,
            false => self.shared.stream_bytes_max(),
        }
    }

    /// Whether the response on the pipe has ended, completely or not.
    pub(super) fn is_response_over(&self) -> bool {
        self.is_response_over.get()
    }

    /// Whether the response was cut short.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether the task of the stream has ended.
    pub(super) fn is_work_over(&self) -> bool {
        self.is_work_over.get()
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Drop for StreamPipe {
    fn drop(&mut self) {
        self.free(usize::MAX);
    }
}

/// The stream's end of a pipe. Dropping it ends the work on the stream.
struct StreamTransport(Rc<StreamPipe>);

impl Transport for StreamTransport {
    fn poll_read(&self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let pipe = &*self.0;
        if pipe.is_reset.get() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let mut request = pipe.request.borrow_mut();
        if request.is_empty() {
            if pipe.is_request_whole.get() {
                return Poll::Ready(Ok(0));
            }
            *pipe.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = space.len().min(request.len());
        if let (Some(to), Some(from)) = (space.get_mut(..count), request.bytes().get(..count)) {
            to.copy_from_slice(from);
        }
        request.consume(count);
        pipe.taken_bytes.update(|taken| taken + count);
        pipe.shared.notify(pipe.slot.get());
        Poll::Ready(Ok(count))
    }

    fn read_now(&self, space: &mut [u8]) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_read(&mut cx, space) {
            Poll::Ready(read) => read.ok(),
            Poll::Pending => None,
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let pipe = &*self.0;
        if pipe.is_reset.get() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let mut room = pipe.bytes_max().saturating_sub(pipe.held_bytes.get());
        if room == 0 {
            *pipe.writer.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut response = pipe.response.borrow_mut();
        let end = response.end(room.min(slices.iter().map(|slice| slice.len()).sum()));
        let mut count = 0;
        for slice in slices {
            let part = slice.get(..room.min(slice.len())).unwrap_or_default();
            end.extend_from_slice(part);
            count += part.len();
            room -= part.len();
        }
        pipe.held_bytes.update(|held| held + count);
        pipe.shared.hold_bytes(count);
        pipe.shared.notify(pipe.slot.get());
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.is_response_over.set(true);
        self.0.shared.notify(self.0.slot.get());
        Poll::Ready(Ok(()))
    }

    /// The end of the request is no sign: the client waits for the response. A reset is one.
    fn client_end(&self) -> ClientEnd {
        if self.0.is_reset.get() { ClientEnd::Both } else { ClientEnd::Open }
    }

    fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    fn local(&self) -> Option<SocketAddr> {
        self.0.local
    }

    fn listener(&self) -> ListenerNumber {
        self.0.shared.listener()
    }

    /// The packets of a connection carry several streams, so a stream cannot set their mark.
    fn set_dscp(&self, _: u8) {}

    fn reset_on_close(&self) {
        self.0.is_cut.set(true);
    }

    fn scheme(&self) -> Scheme {
        if self.0.shared.tls().is_some() { Scheme::Https } else { Scheme::Http }
    }

    fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.0.shared.tls()
    }

    fn is_http2_stream(&self) -> bool {
        true
    }
}

impl Drop for StreamTransport {
    fn drop(&mut self) {
        self.0.is_response_over.set(true);
        self.0.is_work_over.set(true);
        self.0.shared.notify(self.0.slot.get());
    }
}
