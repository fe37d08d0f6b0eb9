//! A connection to an origin that carries many exchanges.

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::meter::{InputMeter, MeteredIo};
use crate::clock;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::proxy_header::ClientEnds;
use crate::limits::{
    HTTP2_CLOSE_MS_MAX, HTTP2_FIELDS_BYTES_MAX, HTTP2_FRAME_BUDGET, HTTP2_PING_MS,
    HTTP2_PONG_MS_MAX, HTTP2_RESETS_MAX, HTTP2_SEND_BYTES_MAX, HTTP2_SILENT_MS,
    HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_MAX,
};
use crate::transport::{OriginConnection, OriginEnds};
use crate::worker::Worker;

/// A connection whose streams carry exchanges. It closes once no handle to it is left.
pub(in crate::fetch) struct SharedConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) sender: RefCell<SendRequest<Bytes>>,
    pub(super) meter: Rc<InputMeter>,
    /// The addresses of both ends, if the system knows them.
    pub(in crate::fetch) ends: Option<OriginEnds>,
    /// The addresses that the origin was told, so that the connection serves no other client.
    pub(in crate::fetch) client: Option<ClientEnds>,
    stream_count: Cell<usize>,
    /// The time at which the last stream ended.
    idle_since_ms: Cell<u64>,
    reset_count: Cell<u32>,
    /// Whether the connection takes no further requests.
    is_retired: Cell<bool>,
    has_gone_away: Cell<bool>,
    /// Whether the origin has not answered a PING.
    is_silent: Cell<bool>,
    /// Whether the end of the connection has failed an exchange.
    is_lost: Cell<bool>,
    /// Dropping it tells the driver that no exchange needs the connection.
    _needed: oneshot::Sender<()>,
}

/// A place for one exchange on a connection, until it is dropped.
pub(in crate::fetch) struct StreamPlace {
    pub(in crate::fetch) connection: Rc<SharedConnection>,
    is_complete: Cell<bool>,
    began_ms: u64,
}

impl SharedConnection {
    /// Begins to speak HTTP/2 on a connection. Until the origin states how many streams it permits,
    /// `streams_max` are assumed.
    ///
    /// # Errors
    /// [`Fault::OriginConnect`]: the connection has ended.
    pub(in crate::fetch) async fn begin(
        worker: &Rc<Worker>,
        connection: OriginConnection,
        client: Option<ClientEnds>,
        streams_max: usize,
    ) -> Result<Rc<SharedConnection>, Fault> {
        let OriginConnection { io, ends, .. } = connection;
        let meter = Rc::new(InputMeter::default());
        let io = MeteredIo { io, meter: Rc::clone(&meter) };
        let handshake = Builder::new()
            .enable_push(false)
            .max_header_list_size(HTTP2_FIELDS_BYTES_MAX)
            .initial_window_size(HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(HTTP2_STREAM_WINDOW_BYTES * HTTP2_STREAMS_MAX)
            .data_frame_budget(HTTP2_FRAME_BUDGET)
            .max_send_buffer_size(HTTP2_SEND_BYTES_MAX)
            .initial_max_send_streams(streams_max)
            .handshake(io)
            .await;
        let (sender, mut driven) = handshake.map_err(|_| Fault::OriginConnect)?;
        worker.count(Counter::OriginHttp2Connections);
        let pings = driven.ping_pong();
        let (needed, unneeded) = oneshot::channel();
        let begun = Rc::new(SharedConnection {
            worker: Rc::clone(worker),
            sender: RefCell::new(sender),
            meter,
            ends,
            client,
            stream_count: Cell::default(),
            idle_since_ms: Cell::new(clock::monotonic_ms()),
            reset_count: Cell::default(),
            is_retired: Cell::default(),
            has_gone_away: Cell::default(),
            is_silent: Cell::default(),
            is_lost: Cell::default(),
            _needed: needed,
        });
        let (driver, link) = (Rc::clone(worker), Rc::downgrade(&begun));
        worker.spawn(async move {
            let open = driver.origins.open_guard(&driver);
            let mut driven = pin!(driven);
            tokio::select! {
                biased;
                () = drive(driven.as_mut(), pings, &link) => {}
                _ = unneeded => {
                    let limit = Duration::from_millis(HTTP2_CLOSE_MS_MAX);
                    let _ = timeout(limit, driven).await;
                }
            }
            link.upgrade().inspect(|connection| connection.retire());
            drop(open);
        });
        Ok(begun)
    }

    /// Returns a stream; `None` if the connection has as many as the origin permits, or takes no
    /// further requests.
    pub(in crate::fetch) fn stream(self: &Rc<Self>) -> Option<StreamPlace> {
        if !self.is_usable() || self.stream_count.get() >= self.streams_max() {
            return None;
        }
        self.stream_count.update(|count| count + 1);
        Some(StreamPlace {
            connection: Rc::clone(self),
            is_complete: Cell::default(),
            began_ms: clock::monotonic_ms(),
        })
    }

    /// Returns the number of streams that the origin and this server permit.
    pub(super) fn streams_max(&self) -> usize {
        self.sender.borrow().current_max_send_streams().min(HTTP2_STREAMS_MAX as usize)
    }

    /// Whether the connection may take further requests. Notices a GOAWAY of the origin, and the
    /// end of the connection.
    pub(super) fn is_usable(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = self.sender.borrow_mut().poll_ready(&mut cx);
        if let Poll::Ready(Err(error)) = &ready {
            self.note_error(error);
        }
        ready.is_ready() && !self.is_retired.get()
    }

    /// Returns the time since which the connection has no stream; `None` if it has one.
    pub(super) fn idle_since_ms(&self) -> Option<u64> {
        (self.stream_count.get() == 0).then(|| self.idle_since_ms.get())
    }

    /// Makes the connection take no further requests. It closes when its streams have ended.
    pub(super) fn retire(&self) {
        self.is_usable();
        self.is_retired.set(true);
    }

    /// Records an error of the connection or of one of its streams.
    pub(super) fn note_error(&self, error: &h2::Error) {
        if !error.is_reset() {
            self.is_retired.set(true);
        }
        if error.is_go_away() && error.is_remote() && !self.has_gone_away.replace(true) {
            self.worker.count(Counter::OriginHttp2Goaways);
        }
    }

    /// Records that an error of the connection has failed an exchange, or an error of its stream
    /// only. Returns whether the end of the connection was known: it is one failure of the origin,
    /// however many exchanges it fails.
    pub(super) fn note_lost(&self, error: &h2::Error) -> bool {
        !error.is_reset() && self.is_lost.replace(true)
    }

    /// Returns the cause of an error, for the log.
    pub(super) fn cause(&self, error: &h2::Error) -> String {
        if self.is_silent.get() {
            return format!("no answer to a PING in {HTTP2_PONG_MS_MAX} ms");
        }
        if self.meter.is_http1() {
            return "the origin answers in HTTP/1.1; `origin_http2` is \"always\"".to_owned();
        }
        format!("HTTP/2: {error}")
    }
}

impl StreamPlace {
    /// Records that the exchange is complete, so that its end resets no stream.
    pub(super) fn note_complete(&self) {
        self.is_complete.set(true);
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let connection = &self.connection;
        let left = connection.stream_count.get() - 1;
        connection.stream_count.set(left);
        let now_ms = clock::monotonic_ms();
        connection.idle_since_ms.set(now_ms);
        if self.is_complete.get() {
            return;
        }
        // Some origins close a connection on which too many streams are reset, and with it the
        // streams of other clients.
        connection.reset_count.update(|count| count + 1);
        let quiet_since_ms = connection.meter.last_ms().max(self.began_ms);
        let is_dead = now_ms.saturating_sub(quiet_since_ms) >= HTTP2_SILENT_MS;
        if is_dead || connection.reset_count.get() >= HTTP2_RESETS_MAX {
            connection.is_retired.set(true);
        }
    }
}

/// Drives a connection until it ends. If the origin is silent for long while exchanges wait, sends
/// a PING; without an answer to it, the connection ends.
async fn drive(
    mut driven: Pin<&mut h2::client::Connection<MeteredIo, Bytes>>,
    mut pings: Option<PingPong>,
    link: &Weak<SharedConnection>,
) {
    let received = || link.upgrade().map(|connection| connection.meter.bytes());
    loop {
        let before = received();
        let quiet = Duration::from_millis(HTTP2_PING_MS);
        if timeout(quiet, driven.as_mut()).await.is_ok() {
            return;
        }
        let (Some(connection), Some(pings)) = (link.upgrade(), &mut pings) else { continue };
        if connection.idle_since_ms().is_some() || received() != before {
            continue;
        }
        drop(connection);
        let limit = Duration::from_millis(HTTP2_PONG_MS_MAX);
        let is_answered = tokio::select! {
            biased;
            _ = driven.as_mut() => return,
            pong = timeout(limit, pings.ping(Ping::opaque())) => matches!(pong, Ok(Ok(_))),
        };
        if !is_answered {
            link.upgrade().inspect(|connection| connection.is_silent.set(true));
            return;
        }
    }
}
