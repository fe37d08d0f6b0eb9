//! Requests for a tunnel to the origin. The connection of a tunnel does not count towards
//! `origin_connections_max`.
//!
//! A request for another protocol (RFC 9110 §7.8) is passed through on a new connection. If the
//! origin switches protocols, this connection becomes the tunnel; otherwise the origin's answer is
//! an ordinary response. A CONNECT (RFC 9110 §9.3.6) opens a connection to the origin of its route,
//! which gets the bytes of the tunnel and no request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use forebay_http::framing::BodyFraming;
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::OriginAnswer;
use super::connect::{ConnectFailure, connect_tunnel};
use super::exchange::{Exchange, ServedClient};
use super::failover::{Attempts, ExchangeError};
use super::group::OriginChoice;
use super::origins::OpenGuard;
use super::outbound::{OutboundLine, OutboundMessage, Purpose};
use super::tunnel_room::TunnelGuard;
use super::upload::OutboundBody;
use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::lookup::wanted_upgrade;
use crate::response::{TunnelHead, TunnelResponse};
use crate::trace::RequestStep;
use crate::transaction::Transaction;
use crate::transport::OriginIo;

/// The upgrade that a request asks for: the protocols, and the place that is reserved for the
/// tunnel.
pub(super) struct WantedUpgrade {
    pub(super) protocols: HeaderValue,
    guard: TunnelGuard,
}

/// The origin's connection after its 101.
pub(super) struct SwitchedConnection {
    pub(super) protocol: Vec<u8>,
    pub(super) io: oneshot::Receiver<OriginTunnel>,
}

/// The origin's side of a tunnel.
pub(crate) struct OriginTunnel {
    io: Box<dyn OriginIo>,
    /// The bytes that arrived together with a 101.
    early: Bytes,
    _open: OpenGuard,
}

/// A tunnel that is open on the origin's side, but not announced to the client yet.
pub(crate) struct OpenTunnel {
    pub(crate) origin: OriginTunnel,
    _guard: TunnelGuard,
}

impl WantedUpgrade {
    /// Reserves a place for the tunnel that the request asks for; `None` if the request asks for no
    /// protocol that its route permits.
    ///
    /// # Errors
    /// [`Fault::TunnelsFull`]: no place is free.
    pub(super) fn of(transaction: &Transaction<'_>) -> Result<Option<WantedUpgrade>, Fault> {
        let settings = &transaction.route().route.settings;
        let wanted: Vec<_> = wanted_upgrade(&transaction.request, settings).collect();
        // The names come from the route's list, so they form a valid field value.
        let Ok(protocols) = HeaderValue::from_bytes(&wanted.join(&b", "[..])) else {
            return Ok(None);
        };
        if wanted.is_empty() {
            return Ok(None);
        }
        Ok(Some(WantedUpgrade { protocols, guard: reserve(transaction)? }))
    }

    /// Opens the tunnel if the origin has switched protocols. Otherwise returns `None`, and the
    /// origin's answer is an ordinary response. `early` are the bytes that the client has already
    /// sent after its request.
    ///
    /// # Errors
    /// [`Fault::OriginBroke`]: the connection failed after the 101.
    pub(super) async fn settle(
        mut self,
        transaction: &Transaction<'_>,
        answer: &mut OriginAnswer,
        early: Vec<u8>,
    ) -> Result<Option<TunnelResponse>, Fault> {
        let Some(SwitchedConnection { protocol, io }) = answer.switched.take() else {
            transaction.worker().count(Counter::TunnelsDeclined);
            return Ok(None);
        };
        let limit_ms = u64::from(transaction.route().route.settings.origin_connect_ms_max);
        let Ok(Ok(origin)) = timeout(Duration::from_millis(limit_ms), io).await else {
            return Err(Fault::OriginBroke);
        };
        self.guard.open();
        let tunnel = OpenTunnel { origin, _guard: self.guard };
        let mut block = std::mem::take(&mut answer.head.block);
        block.remove(|field| transaction.route().route.settings.hides(field));
        let head = TunnelHead::Switched { protocol, block };
        Ok(Some(TunnelResponse { head, tunnel, early }))
    }
}

/// Reserves a place for a tunnel.
///
/// # Errors
/// [`Fault::TunnelsFull`]: no place is free.
fn reserve(transaction: &Transaction<'_>) -> Result<TunnelGuard, Fault> {
    let (worker, network) = (transaction.worker(), transaction.client.network());
    TunnelGuard::enter(worker, network, &transaction.config.server).ok_or_else(|| {
        worker.event(Event::TunnelRefused, &network);
        Fault::TunnelsFull
    })
}

/// Opens the tunnel of a CONNECT, whose site permits it.
///
/// # Errors
/// No place is free for the tunnel, or no origin of the route accepts a connection.
pub(crate) async fn open_tunnel(
    transaction: &mut Transaction<'_>,
) -> Result<TunnelResponse, Fault> {
    let line = OutboundLine::new(&transaction.request)?;
    let mut guard = reserve(transaction)?;
    let early = transaction.take_body()?.into_unread();
    let fields = transaction.request.head.fields();
    let message = OutboundMessage { line: &line, fields, framing: BodyFraming::None };
    let reports = (&transaction.interim(), transaction.trace());
    let (served, hook) = (ServedClient::of(transaction), transaction.hook_context());
    let exchange = Exchange::new(served, hook, message, Purpose::PassThrough, reports);
    let origin = exchange.connect_tunnel().await?;
    guard.open();
    let tunnel = OpenTunnel { origin, _guard: guard };
    Ok(TunnelResponse { head: TunnelHead::Connected, tunnel, early })
}

impl Exchange<'_> {
    /// Opens a connection to one origin of the route after the other, until one accepts.
    async fn connect_tunnel(&self) -> Result<OriginTunnel, Fault> {
        let attempts = Attempts::begin(self.route_settings().origin_tries_max);
        let mut choice = self.next_origin(&attempts, false).ok_or(Fault::Internal)?;
        self.note_request();
        loop {
            let failure = match self.connect_tunnel_to(&choice).await {
                Ok(tunnel) => return Ok(tunnel),
                Err(failure) => failure,
            };
            let fault = failure.fault;
            let error = ExchangeError::Unsent(OutboundBody::None, failure);
            self.note_failed(&choice, &error, None);
            self.trace.step(|| RequestStep::OriginFailed { fault: fault.reason() });
            if !self.may_go_on(&error, &attempts) {
                return Err(fault);
            }
            choice = self.next_origin(&attempts, fault == Fault::OriginBusy).ok_or(fault)?;
            attempts.left.update(|left| left - 1);
            self.worker().count(Counter::OriginFailovers);
        }
    }

    /// Opens a connection to the chosen origin, which counts towards `origin_connections_max` until
    /// it stands.
    async fn connect_tunnel_to(
        &self,
        choice: &OriginChoice<'_>,
    ) -> Result<OriginTunnel, ConnectFailure> {
        let _permit = self.permit_in_turn(&choice.pool).await?;
        let state = &choice.in_group.state;
        state.counts.note_request();
        let terms = self.connect_terms();
        let connected = Box::pin(connect_tunnel(self.worker(), choice.address, terms)).await;
        let is_back = connected.is_ok() && state.ejection.note_connected(clock::monotonic_ms());
        self.note_connected(choice, &connected, is_back);
        connected
    }
}

impl OriginTunnel {
    pub(super) fn new(io: Box<dyn OriginIo>, early: Bytes, open: OpenGuard) -> OriginTunnel {
        OriginTunnel { io, early, _open: open }
    }

    /// Reads into `space`; `Ready(0)` is the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            let count = space.len().min(self.early.len());
            self.early.copy_to_slice(space.get_mut(..count).unwrap_or_default());
            return Poll::Ready(Ok(count));
        }
        let mut buffer = ReadBuf::new(space);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    }

    /// Writes bytes; returns the number of bytes that were written.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    /// Sends the bytes that a TLS connection holds back.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Shuts down the sending side after the bytes that were written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
