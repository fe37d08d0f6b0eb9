//! A client's TLS connection as a transport.

use std::cell::{OnceCell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_http::target::Scheme;
use rustls::ServerConnection;

use super::client_certificate::ClientCertificate;
use super::listener::WorkerTls;
use crate::clock;
use crate::config::ListenerNumber;
use crate::limits::{
    OUT_SLICES_MAX, TLS_COLD_BYTES, TLS_COLD_MS, TLS_COLD_RECORD_BYTES, TLS_WRITE_BYTES_MAX,
};
use crate::transport::{ClientEnd, Transport};

/// The name of HTTP/2 in ALPN (RFC 9113 §3.1).
pub(super) const ALPN_HTTP2: &[u8] = b"h2";

/// The name in ALPN of the handshakes by which a certificate authority checks that this server has
/// a name (RFC 8737 §3).
pub(super) const ALPN_ACME: &[u8] = b"acme-tls/1";

/// A client's TLS connection, on top of another transport.
pub(crate) struct TlsTransport {
    pub(super) inner: Box<dyn Transport>,
    pub(super) tls: Rc<WorkerTls>,
    pub(super) session: RefCell<TlsSession>,
    /// Set once the handshake is complete.
    pub(super) info: OnceCell<Rc<TlsInfo>>,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsInfo {
    /// The name that the client asked for (SNI), in lower case.
    pub(crate) server_name: Option<Box<str>>,
    /// The protocol negotiated by ALPN (RFC 7301).
    pub(crate) alpn: Option<Box<[u8]>>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub(crate) version: &'static str,
    /// The name of the cipher suite.
    pub(crate) cipher: &'static str,
    /// The identity of the certificate set that serves the name ([`CertificateSet::id`]); 0 if
    /// there is none.
    ///
    /// [`CertificateSet::id`]: crate::config::CertificateSet::id
    pub(crate) certificates: u64,
    /// Whether the client resumed an earlier session.
    pub(crate) is_resumed: bool,
    /// The verified certificate of the client, if it has shown one.
    pub(crate) client: Option<ClientCertificate>,
}

impl TlsInfo {
    /// Whether client and server have agreed on HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.alpn.as_deref() == Some(ALPN_HTTP2)
    }

    /// Whether the handshake answers a challenge of a certificate authority.
    pub(crate) fn is_acme_challenge(&self) -> bool {
        self.alpn.as_deref() == Some(ALPN_ACME)
    }

    /// Returns the version in the form that rules see.
    pub(crate) fn version_tag(&self) -> &'static str {
        match self.version {
            "TLSv1.2" => "tls/1.2",
            _ => "tls/1.3",
        }
    }
}

/// The changing state of a connection.
#[derive(Default)]
pub(super) struct TlsSession {
    /// `None` until the first bytes have arrived and a handshake slot is free.
    pub(super) connection: Option<Box<ServerConnection>>,
    /// The number of bytes of the caller's slices that were encrypted for a write which is not
    /// complete yet.
    accepted: usize,
    /// The number of bytes that were sent without a pause; see [`TLS_COLD_BYTES`].
    warm_bytes: usize,
    wrote_ms: u64,
    has_notified: bool,
    /// Whether the connection ends without close_notify.
    pub(super) ends_abruptly: bool,
}

impl TlsTransport {
    pub(super) fn boxed(inner: Box<dyn Transport>, tls: Rc<WorkerTls>) -> Box<dyn Transport> {
        let (session, info) = (RefCell::default(), OnceCell::new());
        Box::new(TlsTransport { inner, tls, session, info })
    }

    /// Reads input after the shutdown, which is only to be discarded. It is not decrypted: this
    /// takes time, and an error in it would lead to an alert after close_notify.
    pub(crate) fn poll_discard(
        &self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_read(cx, space)
    }

    /// Reads encrypted bytes with `read` until some of the decrypted bytes can be put into `space`.
    fn read_with(
        &self,
        space: &mut [u8],
        cx: &mut Context<'_>,
        read: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let session = &mut *self.session.borrow_mut();
        let connection = session.connection.as_deref_mut().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            match connection.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A read of 0 bytes means that the client has sent close_notify. An end without it
                // is an error.
                read => return read,
            }
            connection.read_tls(&mut EncryptedInput(read))?;
            let processed = connection.process_new_packets();
            session.ends_abruptly |= processed.is_err();
            // This sends an alert, or the answer to a key update. If the kernel does not accept it
            // now, a later write sends it.
            let _ = flush(&*self.inner, connection, cx);
            processed.map_err(io::Error::other)?;
        }
    }
}

impl Transport for TlsTransport {
    fn poll_read(&self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let waker = cx.waker();
        let read = self.read_with(space, &mut Context::from_waker(waker), &mut |space| {
            would_block(self.inner.poll_read(&mut Context::from_waker(waker), space))
        });
        pending(read)
    }

    fn read_now(&self, space: &mut [u8]) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let read = self.read_with(space, &mut cx, &mut |space| {
            self.inner.read_now(space).ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        read.ok()
    }

    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        if session.accepted == 0 {
            session.encrypt(slices)?;
        }
        let connection = session.connection.as_deref_mut().ok_or(io::ErrorKind::NotConnected)?;
        match flush(&*self.inner, connection, cx) {
            // The bytes stay in the caller's queue until the kernel has all of them, so the next
            // call begins with the same bytes.
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Ok(std::mem::take(&mut session.accepted))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    fn client_end(&self) -> ClientEnd {
        self.inner.client_end()
    }

    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session.borrow_mut();
        session.notify();
        if let Some(connection) = session.connection.as_deref_mut()
            && flush(&*self.inner, connection, cx)?.is_pending()
        {
            return Poll::Pending;
        }
        self.inner.poll_shutdown(cx)
    }

    fn peer(&self) -> SocketAddr {
        self.inner.peer()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.inner.local()
    }

    fn listener(&self) -> ListenerNumber {
        self.inner.listener()
    }

    fn set_dscp(&self, dscp: u8) {
        self.inner.set_dscp(dscp);
    }

    fn reset_on_close(&self) {
        // Without close_notify, the client knows that the response is incomplete.
        self.session.borrow_mut().ends_abruptly = true;
        self.inner.reset_on_close();
    }

    fn tls(&self) -> Option<&TlsTransport> {
        Some(self)
    }

    fn scheme(&self) -> Scheme {
        Scheme::Https
    }

    fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.info.get()
    }
}

impl TlsSession {
    /// Encrypts bytes from the start of `slices`, and records their number.
    fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let connection = self.connection.as_deref_mut().ok_or(io::ErrorKind::NotConnected)?;
        let now_ms = clock::monotonic_ms();
        if now_ms.saturating_sub(self.wrote_ms) >= TLS_COLD_MS {
            self.warm_bytes = 0;
        }
        self.wrote_ms = now_ms;
        // While the TCP window is small, each TLS record is short enough for one packet, so that
        // the client can use the record as soon as the packet has arrived.
        let is_cold = self.warm_bytes < TLS_COLD_BYTES;
        let (bytes_max, record_max) = match is_cold {
            true => (TLS_COLD_BYTES, TLS_COLD_RECORD_BYTES),
            false => (TLS_WRITE_BYTES_MAX, TLS_WRITE_BYTES_MAX),
        };
        let total = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if is_cold && total > TLS_COLD_RECORD_BYTES {
            let mut left = bytes_max;
            for slice in slices {
                for part in
                    slice.get(..left.min(slice.len())).unwrap_or_default().chunks(record_max)
                {
                    self.accepted += connection.writer().write(part)?;
                }
                left -= left.min(slice.len());
            }
        } else {
            let mut limited = [IoSlice::new(&[]); OUT_SLICES_MAX];
            let count = limit(slices, bytes_max, &mut limited);
            let limited = limited.get(..count).unwrap_or_default();
            self.accepted = connection.writer().write_vectored(limited)?;
        }
        self.warm_bytes = self.warm_bytes.saturating_add(self.accepted);
        Ok(())
    }

    /// Queues the alert close_notify, which tells the client that no bytes are missing. After a
    /// violation of the protocol nothing but an error alert is sent (RFC 8446 §6.2).
    fn notify(&mut self) {
        let Some(connection) = self.connection.as_deref_mut() else { return };
        if !self.has_notified && !self.ends_abruptly {
            self.has_notified = true;
            connection.send_close_notify();
        }
    }
}

/// Sends close_notify when the connection is dropped. If the kernel has no room for it, the
/// connection ends without close_notify.
impl Drop for TlsTransport {
    fn drop(&mut self) {
        let mut session = self.session.borrow_mut();
        if session.ends_abruptly || session.has_notified {
            return;
        }
        session.notify();
        if let Some(connection) = session.connection.as_deref_mut() {
            let _ = flush(&*self.inner, connection, &mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Fills `limited` with the first `bytes_max` bytes of `slices`; returns the number of slices in
/// use.
fn limit<'a>(
    slices: &'a [IoSlice<'_>],
    bytes_max: usize,
    limited: &mut [IoSlice<'a>; OUT_SLICES_MAX],
) -> usize {
    let (mut left, mut count) = (bytes_max, 0);
    for (slice, place) in slices.iter().zip(limited) {
        let Some(part) = slice.get(..left.min(slice.len())).filter(|_| left > 0) else { break };
        *place = IoSlice::new(part);
        left -= part.len();
        count += 1;
    }
    count
}

/// Sends all encrypted bytes that wait to be sent.
pub(super) fn flush(
    inner: &dyn Transport,
    connection: &mut ServerConnection,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while connection.wants_write() {
        match connection.write_tls(&mut EncryptedOutput { inner, cx }) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Reads encrypted bytes from the client, for the TLS library.
pub(super) struct EncryptedInput<'a>(pub(super) &'a mut dyn FnMut(&mut [u8]) -> io::Result<usize>);

impl Read for EncryptedInput<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        (self.0)(space)
    }
}

/// Writes encrypted bytes to the client, for the TLS library.
pub(super) struct EncryptedOutput<'a, 'c> {
    pub(super) inner: &'a dyn Transport,
    pub(super) cx: &'a mut Context<'c>,
}

impl Write for EncryptedOutput<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        would_block(self.inner.poll_write(self.cx, &[IoSlice::new(bytes)]))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        would_block(self.inner.poll_write(self.cx, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Turns the result of a poll into the form that the TLS library expects.
pub(super) fn would_block(polled: Poll<io::Result<usize>>) -> io::Result<usize> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn pending(result: io::Result<usize>) -> Poll<io::Result<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}
