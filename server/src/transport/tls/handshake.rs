//! The handshake of a TLS connection, in the connection's own task.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustls::{
    AlertDescription, Error as TlsError, HandshakeKind, ProtocolVersion, ServerConnection,
};

use super::acceptor::TlsAcceptor;
use super::client_certificate::refusal_of;
use super::session::{EncryptedInput, TlsInfo, TlsTransport, flush, would_block};
use crate::accept::ClientNetwork;
use crate::clock;
use crate::counters::Counter;

/// The reason why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The handshake took longer than `tls_handshake_ms_max`.
    TimedOut,
    /// The client closed the connection.
    Gone,
    /// The first bytes are not TLS.
    NotTls,
    /// No certificate serves the name that the client asked for.
    NoCertificate,
    /// The client has no certificate although it needs one, or its certificate is not valid.
    ClientCertificate(&'static str),
    /// Client and server have no version, cipher suite, key exchange or protocol in common.
    Incompatible(String),
    /// The client sent this alert, for instance because it does not trust the certificate.
    Alert(AlertDescription),
    /// The client violated the protocol.
    Malformed(String),
}

/// The length of a TLS record's header. Before a connection has a handshake slot, no more than this
/// is read from it.
const RECORD_HEAD_BYTES: usize = 5;

/// The content type of a TLS record that contains a handshake message.
const CONTENT_HANDSHAKE: u8 = 22;

impl TlsTransport {
    /// Returns the longest time that the handshake may take, in milliseconds.
    pub(crate) fn handshake_ms_max(&self) -> u64 {
        self.tls.acceptor().map_or(0, |acceptor| u64::from(acceptor.handshake_ms_max))
    }

    /// Runs the handshake with a client in `network`. `is_overdue` returns whether the deadline has
    /// passed; the task is woken when it passes.
    ///
    /// # Errors
    /// See [`HandshakeFailure`].
    pub(crate) async fn handshake(
        &self,
        network: ClientNetwork,
        is_overdue: &dyn Fn() -> bool,
    ) -> Result<&TlsInfo, HandshakeFailure> {
        let mut head = [0; RECORD_HEAD_BYTES];
        let mut filled = 0;
        while let Some(space @ [_, ..]) = head.get_mut(filled..) {
            let count = self.read(space, is_overdue).await?;
            filled += count;
            if head[0] != CONTENT_HANDSHAKE || filled > 1 && head[1] != 3 {
                return Err(HandshakeFailure::NotTls);
            }
        }
        // The current settings apply, not those that were in force when the connection was opened.
        let acceptor = self.tls.acceptor().ok_or(HandshakeFailure::NoCertificate)?;
        let mut slot = std::pin::pin!(self.tls.slots.acquire(network, acceptor.handshakes_max));
        let _slot = poll_fn(|cx| match is_overdue() {
            true => Poll::Ready(Err(HandshakeFailure::TimedOut)),
            false => slot.as_mut().poll(cx).map(Ok),
        })
        .await?;
        self.begin_session(&acceptor, &head, (network, is_overdue)).await?;
        while self.is_handshaking() {
            poll_fn(|cx| self.poll_take(cx, is_overdue)).await?;
            self.step(network, is_overdue).await?;
        }
        let info = self.describe(&acceptor)?;
        Ok(&**self.info.get_or_init(|| Rc::new(info)))
    }

    /// Creates the state of the session; `head` are the first bytes of the client. If the settings
    /// depend on the name that the client asks for, waits for its first message.
    async fn begin_session(
        &self,
        acceptor: &TlsAcceptor,
        mut head: &[u8],
        (network, is_overdue): (ClientNetwork, &dyn Fn() -> bool),
    ) -> Result<(), HandshakeFailure> {
        if acceptor.depends_on_name() {
            let connection = self.accept_named(acceptor, head, (network, is_overdue)).await?;
            self.session.borrow_mut().connection = Some(Box::new(connection));
            return Ok(());
        }
        let connection = ServerConnection::new(acceptor.config_for(self.inner.listener(), None));
        let connection = connection.map_err(|error| failure(&error))?;
        self.session.borrow_mut().connection = Some(Box::new(connection));
        self.take(&mut |space| io::Read::read(&mut head, space))?;
        Ok(())
    }

    pub(super) async fn read(
        &self,
        space: &mut [u8],
        is_overdue: &dyn Fn() -> bool,
    ) -> Result<usize, HandshakeFailure> {
        let read = poll_fn(|cx| match self.inner.poll_read(cx, space) {
            Poll::Pending if is_overdue() => Poll::Ready(Err(HandshakeFailure::TimedOut)),
            read => read.map_err(|_| HandshakeFailure::Gone),
        });
        match read.await? {
            0 => Err(HandshakeFailure::Gone),
            count => Ok(count),
        }
    }

    /// Passes the encrypted bytes that `read` returns to the TLS library, which does not process
    /// them yet. Returns the number of bytes.
    fn take(
        &self,
        read: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> Result<usize, HandshakeFailure> {
        let mut session = self.session.borrow_mut();
        let connection = session.connection.as_deref_mut().ok_or(HandshakeFailure::Gone)?;
        connection.read_tls(&mut EncryptedInput(read)).map_err(|_| HandshakeFailure::Gone)
    }

    /// Waits for bytes from the client, and sends the bytes that are still to be sent.
    fn poll_take(
        &self,
        cx: &mut Context<'_>,
        is_overdue: &dyn Fn() -> bool,
    ) -> Poll<Result<(), HandshakeFailure>> {
        let mut session = self.session.borrow_mut();
        let Some(connection) = session.connection.as_deref_mut() else {
            return Poll::Ready(Err(HandshakeFailure::Gone));
        };
        if let Poll::Ready(Err(_)) = flush(&*self.inner, connection, cx) {
            return Poll::Ready(Err(HandshakeFailure::Gone));
        }
        let mut read = |space: &mut [u8]| would_block(self.inner.poll_read(cx, space));
        match connection.read_tls(&mut EncryptedInput(&mut read)) {
            Ok(0) => Poll::Ready(Err(HandshakeFailure::Gone)),
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match is_overdue() {
                true => Poll::Ready(Err(HandshakeFailure::TimedOut)),
                false => Poll::Pending,
            },
            Err(_) => Poll::Ready(Err(HandshakeFailure::Gone)),
        }
    }

    /// Processes the bytes that have arrived. This runs in a turn of the event loop in which no
    /// other handshake takes a step, because a signature takes long.
    async fn step(
        &self,
        network: ClientNetwork,
        is_overdue: &dyn Fn() -> bool,
    ) -> Result<(), HandshakeFailure> {
        let turn = self.tls.turns.acquire(network).await;
        if is_overdue() {
            return Err(HandshakeFailure::TimedOut);
        }
        let processed = {
            let session = &mut *self.session.borrow_mut();
            let connection = session.connection.as_deref_mut().ok_or(HandshakeFailure::Gone)?;
            let processed = connection.process_new_packets().map_err(|error| failure(&error));
            session.ends_abruptly |= processed.is_err();
            // This sends the answer, or an alert. If the kernel has no room for an alert, the
            // client sees only the end of the connection.
            let mut no_wake = Context::from_waker(Waker::noop());
            let _ = flush(&*self.inner, connection, &mut no_wake);
            processed
        };
        tokio::task::yield_now().await;
        drop(turn);
        processed.map(drop)
    }

    fn is_handshaking(&self) -> bool {
        let session = self.session.borrow();
        session.connection.as_deref().is_some_and(|connection| connection.is_handshaking())
    }

    fn describe(&self, acceptor: &Rc<TlsAcceptor>) -> Result<TlsInfo, HandshakeFailure> {
        let session = self.session.borrow();
        let connection = session.connection.as_deref();
        let server_name = connection.and_then(ServerConnection::server_name);
        let cipher = connection.and_then(|connection| connection.negotiated_cipher_suite());
        let certificates = acceptor.set_of(self.inner.listener(), server_name);
        let chain = connection.and_then(|connection| connection.peer_certificates());
        let client = chain.filter(|chain| !chain.is_empty()).map(|chain| {
            let client = acceptor.client_certificate(certificates, chain, clock::unix_seconds());
            client
                .ok_or(HandshakeFailure::ClientCertificate("the client's certificate has expired"))
        });
        Ok(TlsInfo {
            client: client.transpose()?,
            server_name: server_name.map(Into::into),
            alpn: connection.and_then(|connection| connection.alpn_protocol()).map(Into::into),
            version: match connection.and_then(|connection| connection.protocol_version()) {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: cipher.and_then(|cipher| cipher.suite().as_str()).unwrap_or_default(),
            certificates,
            is_resumed: connection.and_then(|connection| connection.handshake_kind())
                == Some(HandshakeKind::Resumed),
        })
    }
}

pub(super) fn failure(error: &TlsError) -> HandshakeFailure {
    match error {
        TlsError::AlertReceived(alert) => HandshakeFailure::Alert(*alert),
        TlsError::General(_) => HandshakeFailure::NoCertificate,
        TlsError::NoCertificatesPresented => {
            HandshakeFailure::ClientCertificate("the client has no certificate")
        }
        TlsError::InvalidCertificate(why) => HandshakeFailure::ClientCertificate(refusal_of(why)),
        TlsError::PeerIncompatible(_) | TlsError::NoApplicationProtocol => {
            HandshakeFailure::Incompatible(error.to_string())
        }
        error => HandshakeFailure::Malformed(error.to_string()),
    }
}

impl HandshakeFailure {
    /// Returns the counter of the reason.
    pub(crate) fn counter(&self) -> Counter {
        match self {
            HandshakeFailure::TimedOut => Counter::TlsTimedOut,
            HandshakeFailure::Gone => Counter::TlsGone,
            HandshakeFailure::NotTls => Counter::TlsNotTls,
            HandshakeFailure::NoCertificate => Counter::TlsNoCertificate,
            HandshakeFailure::ClientCertificate(_) => Counter::TlsClientCertificatesRefused,
            HandshakeFailure::Incompatible(_) => Counter::TlsIncompatible,
            HandshakeFailure::Alert(_) => Counter::TlsAlerts,
            HandshakeFailure::Malformed(_) => Counter::TlsMalformed,
        }
    }
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeFailure::TimedOut => f.write_str("the handshake took too long"),
            HandshakeFailure::Gone => f.write_str("the client closed the connection"),
            HandshakeFailure::NotTls => f.write_str("the first bytes are not TLS"),
            HandshakeFailure::NoCertificate => {
                f.write_str("no certificate serves the name that the client asked for")
            }
            HandshakeFailure::ClientCertificate(why) => f.write_str(why),
            HandshakeFailure::Incompatible(why) | HandshakeFailure::Malformed(why) => {
                f.write_str(why)
            }
            HandshakeFailure::Alert(alert) => write!(f, "the client sent the alert {alert:?}"),
        }
    }
}
