//! A client's connection, as the later steps use it: reads into buffers, and flushes send queues.
//!
//! Every wait for the client is bounded: by the idle time, the time for a head, or the lowest rate
//! of a body.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

use forebay_http::fields::Fields;
use forebay_http::target::Scheme;
use forebay_rules::run::RuleVariables;

use crate::accept::ClientNetwork;
use crate::accept::registry::{RegisteredConnection, Ticket};
use crate::buffers::Input;
use crate::config::{AddressList, ListenerNumber};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::forwarding::{ProxyStatements, stated_client, stated_scheme};
use crate::limits::{
    LENT_PIECES_MAX, LINGER_BYTES_MAX, LINGER_MS_MAX, OUT_SLICES_MAX, OUTPUT_SHARE_BYTES_MIN,
    PIPELINED_BYTES_MAX,
};
use crate::pace::{LeastRate, Pace};
use crate::send_queue::SendQueue;
use crate::trace::ArrivalTimes;
use crate::transport::Transport;
use crate::transport::tls::{ClientCertificate, TlsInfo};
use crate::worker::Worker;

/// A client's connection.
pub(crate) struct Client {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) worker: Rc<Worker>,
    pub(crate) peer: SocketAddr,
    /// The scheme of requested URLs: `https` if the connection uses TLS.
    pub(crate) scheme: Scheme,
    /// The listener that accepted the connection.
    pub(crate) listener: ListenerNumber,
    registered: RegisteredConnection,
    /// The number by which the store names the connection; for a stream, it is that of its HTTP/2
    /// connection.
    tag: u64,
    /// The number of bytes that were written to the client.
    sent_bytes: Cell<u64>,
    /// The number of bytes that the client has sent so far.
    received_bytes: Cell<u64>,
    /// The times at which the client's requests arrive, for traces.
    pub(crate) arrival: ArrivalTimes,
    /// How far the client lags behind the lowest permitted rate of reading responses.
    sending: RefCell<Pace>,
    /// Variables that rules keep between the requests of a connection.
    pub(crate) session: Cell<RuleVariables>,
    /// The address that the client connected to; `None` until [`Client::local`] has asked the
    /// system.
    local: Cell<Option<SocketAddr>>,
    request_count: Cell<u64>,
    /// Whether the client was told to continue with the body of the current request.
    is_continued: Cell<bool>,
    /// The differentiated services code point (DSCP) with which the connection's packets are
    /// marked.
    dscp: Cell<Option<u8>>,
    /// The statements of a trusted proxy about the current request.
    stated: Cell<Option<ProxyStatements>>,
}

impl Client {
    pub(crate) async fn new(
        transport: Box<dyn Transport>,
        worker: Rc<Worker>,
        (registered, tag): (RegisteredConnection, u64),
    ) -> Client {
        // The waker of a task does not change, so it is registered once instead of at every wait.
        registered.ticket().set_waker(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await);
        Client {
            peer: transport.peer(),
            scheme: transport.scheme(),
            listener: transport.listener(),
            transport,
            worker,
            registered,
            tag,
            sent_bytes: Cell::new(0),
            received_bytes: Cell::new(0),
            arrival: ArrivalTimes::default(),
            sending: RefCell::default(),
            session: Cell::default(),
            local: Cell::default(),
            request_count: Cell::default(),
            is_continued: Cell::default(),
            dscp: Cell::default(),
            stated: Cell::default(),
        }
    }

    /// Returns the connection's ticket, which contains the deadline of its current wait.
    pub(crate) fn ticket(&self) -> &Ticket {
        self.registered.ticket()
    }

    /// Returns the number by which the store names this connection.
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// Begins the next stream of an HTTP/2 connection: nothing of the previous one is left, except
    /// for the addresses, which they share.
    pub(crate) fn begin_stream(&self, head_bytes: usize) {
        self.sent_bytes.set(0);
        self.received_bytes.set(0);
        self.session.take();
        self.request_count.set(0);
        self.note_read(head_bytes);
        self.note_head(true);
    }

    /// Records that the HTTP/2 connection has taken `bytes` bytes of a stream's response.
    pub(crate) fn note_sent(&self, bytes: usize) {
        self.sent_bytes.update(|sent| sent + bytes as u64);
        self.worker.count_many(Counter::BytesOut, bytes as u64);
    }

    /// Returns the network of the client of the current request.
    pub(crate) fn network(&self) -> ClientNetwork {
        match self.stated.get() {
            None => self.registered.network(),
            Some(stated) => {
                let bits = self.worker.config().server.ipv6_network_bits;
                ClientNetwork::of(stated.client, bits)
            }
        }
    }

    /// Returns the address of the client of the current request: the peer's, unless a trusted proxy
    /// states another.
    pub(crate) fn address(&self) -> IpAddr {
        match self.stated.get() {
            None => self.canonical_peer().ip(),
            Some(stated) => stated.client,
        }
    }

    /// Returns the address of the current request's client; `None` if a trusted proxy forwarded the
    /// request with a client address that cannot be read. Access is never granted to the proxy's
    /// address in its place.
    pub(crate) fn known_address(&self) -> Option<IpAddr> {
        let is_known = self.stated.get().is_none_or(|stated| stated.is_client_known);
        is_known.then(|| self.address())
    }

    /// Returns the address of the trusted proxy that forwarded the current request, if one did.
    pub(crate) fn proxy(&self) -> Option<IpAddr> {
        self.stated.get().map(|_| self.canonical_peer().ip())
    }

    /// Returns the scheme of the current request: the connection's, unless a trusted proxy states
    /// another.
    pub(crate) fn request_scheme(&self) -> Scheme {
        self.stated.get().map_or(self.scheme, |stated| stated.scheme)
    }

    /// Begins a new request of the connection: counts it, and reads the statements of a trusted
    /// proxy in its fields.
    #[inline]
    pub(crate) fn begin_request(&self, trusted: &AddressList, fields: Fields<'_>) {
        self.request_count.update(|count| count + 1);
        self.is_continued.set(false);
        self.stated.set(None);
        if !trusted.is_empty() {
            self.read_statements(trusted, fields);
        }
    }

    /// Reads the statements in the fields of a request if the peer is a trusted proxy; counts and
    /// logs malformed ones.
    fn read_statements(&self, trusted: &AddressList, fields: Fields<'_>) {
        let peer = self.canonical_peer().ip();
        if !trusted.contains(peer) {
            return;
        }
        let stated = stated_client(fields, trusted);
        if stated.is_err() {
            self.worker.count(Counter::ForwardedForMalformed);
            self.worker.event(Event::ForwardedForMalformed, &peer);
        }
        self.stated.set(Some(ProxyStatements {
            client: stated.ok().flatten().unwrap_or(peer),
            is_client_known: stated.is_ok(),
            scheme: stated_scheme(fields).unwrap_or(self.scheme),
        }));
    }

    /// Records that the client was told to continue with the body of the current request (100).
    pub(crate) fn note_continued(&self) {
        self.is_continued.set(true);
    }

    /// Whether the client was told to continue with the body of the current request.
    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued.get()
    }

    /// Marks the packets of the connection with a code point (RFC 2474), unless they already have
    /// this mark.
    pub(crate) fn mark(&self, dscp: u8) {
        if self.dscp.replace(Some(dscp)) != Some(dscp) {
            self.transport.set_dscp(dscp);
        }
    }

    /// Returns the client's address and port. The address of an IPv4 client is IPv4 even on a
    /// dual-stack socket.
    pub(crate) fn canonical_peer(&self) -> SocketAddr {
        canonical(self.peer)
    }

    /// Returns the result of the TLS handshake; `None` for a connection without TLS.
    pub(crate) fn tls_info(&self) -> Option<&TlsInfo> {
        self.transport.tls_info().map(|info| &**info)
    }

    /// Returns the certificate that the client has shown in the handshake; `None` if it has shown
    /// none, or if the certificate is no longer valid.
    pub(crate) fn certificate(&self) -> Option<&ClientCertificate> {
        self.worker.tls.valid_client(self.tls_info()?)
    }

    /// Whether the client has shown a certificate in the handshake.
    pub(crate) fn has_shown_certificate(&self) -> bool {
        self.tls_info().is_some_and(|info| info.client.is_some())
    }

    /// Returns the address and port that the client connected to, if the system knows them.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        if self.local.get().is_none() {
            self.local.set(self.transport.local().map(canonical));
        }
        self.local.get()
    }

    /// Returns the number of requests on the connection, including the current one.
    pub(crate) fn request_count(&self) -> u64 {
        self.request_count.get()
    }

    /// Returns the number of bytes that were written to the client.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// Returns the number of bytes that the client has sent so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.get()
    }

    /// Returns the lowest permitted rate in the current settings.
    pub(crate) fn least_rate(&self) -> LeastRate {
        let config = self.worker.config();
        LeastRate::new(config.server.body_rate_min, u64::from(config.server.body_grace_ms))
    }

    /// Begins or continues a wait for the client: arms the ticket for the time until the client has
    /// lagged too far behind `rate`, and returns `Pending`.
    ///
    /// # Errors
    /// That time has passed: [`Fault::TooSlow`].
    pub(crate) fn poll_wait<T>(&self, pace: &mut Pace, rate: LeastRate) -> Poll<Result<T, Fault>> {
        match pace.wait(rate) {
            Some(left_ms) => {
                self.ticket().arm(left_ms);
                Poll::Pending
            }
            None => Poll::Ready(Err(Fault::TooSlow)),
        }
    }

    /// Reads into `space`; `Ready(0)` is the end of the stream.
    ///
    /// The caller arms the ticket before the call or when the result is `Pending`, and checks
    /// whether the ticket is overdue.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<Result<usize, Fault>> {
        match self.transport.poll_read(cx, space) {
            Poll::Ready(Ok(count)) => {
                self.note_read(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Fault::ClientGone)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Reads the bytes that have already arrived on an idle connection that is about to be closed:
    /// closing it with unread bytes would reset it, and the client would lose its request.
    pub(crate) fn read_now(&self, space: &mut [u8]) -> Option<usize> {
        let count = self.transport.read_now(space)?;
        self.note_read(count);
        Some(count)
    }

    fn note_read(&self, count: usize) {
        self.received_bytes.update(|received| received + count as u64);
        self.worker.count_many(Counter::BytesIn, count as u64);
        if self.worker.tracers.is_on() {
            self.arrival.note_read();
        }
    }

    /// Records for traces that the last read brought bytes of a request's head; `is_first` says
    /// whether they are its first bytes.
    #[inline]
    pub(crate) fn note_head(&self, is_first: bool) {
        if self.worker.tracers.is_on() {
            self.arrival.note_head(is_first);
        }
    }

    /// Writes bytes that are not in a send queue, and returns how many were written. The caller
    /// must check that the client keeps to the lowest permitted rate.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Fault>> {
        match self.transport.poll_write(cx, &[IoSlice::new(bytes)]) {
            Poll::Ready(Ok(count)) if count > 0 => Poll::Ready(Ok(count)),
            Poll::Ready(_) => Poll::Ready(Err(Fault::ClientGone)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Sends all of `queue`.
    ///
    /// # Errors
    /// The client is gone or reads slower than the lowest permitted rate, or the store has revoked
    /// some of the bytes.
    pub(crate) async fn flush(&self, queue: &mut SendQueue) -> Result<(), Fault> {
        if queue.is_empty() {
            return Ok(());
        }
        #[cfg(test)]
        {
            let bytes_max = u64::from(self.worker.config().server.connection_bytes_max);
            let held_bytes = queue.held_bytes() as u64;
            let has_room = held_bytes <= bytes_max + crate::limits::READ_BYTES_MAX;
            assert!(has_room, "a send queue holds {held_bytes} bytes");
        }
        let mut flush = Flush { client: self, waiting_bytes: None };
        poll_fn(|cx| self.poll_flush(cx, queue, &mut flush)).await
    }

    /// Sends all of `queue` if it holds more bytes than a connection may buffer in addition to a
    /// request head, or too many pieces of stored bodies. Returns whether the queue was sent.
    ///
    /// # Errors
    /// See [`Client::flush`].
    pub(crate) async fn flush_if_full(&self, queue: &mut SendQueue) -> Result<bool, Fault> {
        let config = self.worker.config();
        let settings = &config.server;
        let bytes_max = settings.connection_bytes_max.saturating_sub(settings.head_bytes_max);
        self.flush_beyond(queue, bytes_max as usize).await
    }

    /// Sends all of `queue` before the next request of the connection is answered, if many bytes
    /// are already waiting: a client that does not read its responses gets no further ones. Returns
    /// whether the queue was sent.
    ///
    /// # Errors
    /// See [`Client::flush`].
    pub(crate) async fn flush_before_next(&self, queue: &mut SendQueue) -> Result<bool, Fault> {
        // Usually the queue holds few bytes, and then this check must cost a hit next to nothing.
        if queue.held_bytes() <= OUTPUT_SHARE_BYTES_MIN && queue.lent_count() < LENT_PIECES_MAX {
            return Ok(false);
        }
        let config = self.worker.config();
        let bytes_max = config.server.connection_bytes_max / 2;
        self.flush_beyond(queue, PIPELINED_BYTES_MAX.min(bytes_max as usize)).await
    }

    async fn flush_beyond(&self, queue: &mut SendQueue, bytes_max: usize) -> Result<bool, Fault> {
        let bytes_max = bytes_max.min(self.worker.output.share());
        if queue.held_bytes() <= bytes_max && queue.lent_count() < LENT_PIECES_MAX {
            return Ok(false);
        }
        self.worker.count(Counter::EarlyFlushes);
        self.flush(queue).await.map(|()| true)
    }

    fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        flush: &mut Flush<'_>,
    ) -> Poll<Result<(), Fault>> {
        while !queue.is_empty() {
            if self.ticket().is_cut() {
                return Poll::Ready(Err(Fault::HitCut));
            }
            let written = {
                let reading = self.worker.store.send_guard();
                let mut slices = [IoSlice::new(&[]); OUT_SLICES_MAX];
                let Ok(count) = queue.slices(&reading, &mut slices) else {
                    return Poll::Ready(Err(Fault::HitCut));
                };
                self.transport.poll_write(cx, slices.get(..count).unwrap_or_default())
            };
            match written {
                Poll::Ready(Ok(count)) if count > 0 => {
                    queue.consume(count);
                    self.note_sent(count);
                    if flush.waiting_bytes.is_some() {
                        self.sending.borrow_mut().moved(count as u64, self.least_rate());
                    }
                }
                Poll::Ready(_) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Pending => {
                    queue.copy_growing();
                    if flush.waiting_bytes.is_none() {
                        queue.shrink();
                        flush.wait_for(queue.held_bytes());
                    }
                    if self.transport.is_http2_stream() {
                        return Poll::Pending;
                    }
                    return self.poll_wait(&mut self.sending.borrow_mut(), self.least_rate());
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the connection in such a way that the last response arrives: shuts down the sending
    /// side, then reads and discards input for a while. Closing with unread bytes would reset the
    /// connection (RFC 9112 §9.6).
    pub(crate) async fn linger(&self, input: &mut Input) {
        self.ticket().arm(LINGER_MS_MAX);
        let mut left = LINGER_BYTES_MAX;
        poll_fn(|cx| {
            if self.ticket().overdue() {
                return Poll::Ready(());
            }
            if self.transport.poll_shutdown(cx).is_pending() {
                return Poll::Pending;
            }
            loop {
                input.clear();
                let read = match self.transport.tls() {
                    Some(tls) => tls.poll_discard(cx, input.space(0)),
                    None => self.transport.poll_read(cx, input.space(0)),
                };
                match read {
                    Poll::Ready(Ok(count)) if count > 0 && count < left => left -= count,
                    other => return other.map(drop),
                }
            }
        })
        .await;
        self.ticket().disarm();
    }
}

/// A flush in progress. Dropping it also ends its wait for the client, so that the connection's
/// next wait is not counted from the start of this wait.
struct Flush<'a> {
    client: &'a Client,
    /// The number of bytes that this flush has added to the worker's waiting output; `None` until
    /// the flush has to wait.
    waiting_bytes: Option<usize>,
}

impl Flush<'_> {
    fn wait_for(&mut self, bytes: usize) {
        self.client.worker.output.add(bytes);
        self.client.worker.show_waiting_output();
        self.waiting_bytes = Some(bytes);
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.waiting_bytes {
            self.client.worker.output.remove(bytes);
            self.client.worker.show_waiting_output();
            self.client.sending.borrow_mut().stop_waiting();
            self.client.ticket().disarm();
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
