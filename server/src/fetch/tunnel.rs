//! Requests for another protocol (RFC 9110 §7.8). Each is passed through on a new connection. If
//! the origin switches protocols, this connection becomes a tunnel, which no longer counts towards
//! `origin_connections_max`; otherwise the origin's answer is an ordinary response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::OriginAnswer;
use super::origins::OpenGuard;
use super::tunnel_room::TunnelGuard;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::lookup::wanted_upgrade;
use crate::response::TunnelResponse;
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
    /// The bytes that arrived together with the 101.
    early: Bytes,
    _open: OpenGuard,
}

/// A tunnel that is open on the origin's side, but whose 101 has not been sent to the client yet.
pub(crate) struct OpenTunnel {
    pub(crate) protocol: Vec<u8>,
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
        let (worker, network) = (transaction.worker(), transaction.client.network());
        match TunnelGuard::enter(worker, network, &transaction.config.server) {
            Some(guard) => Ok(Some(WantedUpgrade { protocols, guard })),
            None => {
                worker.event(Event::TunnelRefused, &network);
                Err(Fault::TunnelsFull)
            }
        }
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
        let tunnel = OpenTunnel { protocol, origin, _guard: self.guard };
        let mut block = std::mem::take(&mut answer.head.block);
        block.remove(|field| transaction.route().route.settings.hides(field));
        Ok(Some(TunnelResponse { block, tunnel, early }))
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
