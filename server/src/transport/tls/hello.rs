//! The beginning of a handshake whose settings depend on the name that the client asks for.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use rustls::Error as TlsError;
use rustls::ServerConnection;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};

use super::acceptor::TlsAcceptor;
use super::handshake::{HandshakeFailure, failure};
use super::session::{EncryptedInput, EncryptedOutput, TlsTransport, would_block};
use crate::accept::ClientNetwork;

impl TlsTransport {
    /// Waits for the client's first message, and begins the session with the settings for the name
    /// that the message asks for. `head` are the first bytes of the client.
    ///
    /// # Errors
    /// See [`HandshakeFailure`].
    pub(super) async fn accept_named(
        &self,
        settings: &TlsAcceptor,
        mut head: &[u8],
        (network, is_overdue): (ClientNetwork, &dyn Fn() -> bool),
    ) -> Result<ServerConnection, HandshakeFailure> {
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut head).map_err(|_| HandshakeFailure::Gone)?;
        loop {
            poll_fn(|cx| self.poll_hello(&mut acceptor, cx, is_overdue)).await?;
            let accepted = acceptor.accept().map_err(|refused| self.refuse(refused))?;
            if let Some(accepted) = accepted {
                return self.answer_hello(settings, accepted, (network, is_overdue)).await;
            }
        }
    }

    /// Waits for bytes of the client's first message.
    fn poll_hello(
        &self,
        acceptor: &mut Acceptor,
        cx: &mut Context<'_>,
        is_overdue: &dyn Fn() -> bool,
    ) -> Poll<Result<(), HandshakeFailure>> {
        let mut read = |space: &mut [u8]| would_block(self.inner.poll_read(cx, space));
        match acceptor.read_tls(&mut EncryptedInput(&mut read)) {
            Ok(0) => Poll::Ready(Err(HandshakeFailure::Gone)),
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => match is_overdue() {
                true => Poll::Ready(Err(HandshakeFailure::TimedOut)),
                false => Poll::Pending,
            },
            Err(_) => Poll::Ready(Err(HandshakeFailure::Gone)),
        }
    }

    /// Answers the client's first message. This runs in a turn of the event loop in which no other
    /// handshake takes a step, because the answer has a signature.
    async fn answer_hello(
        &self,
        settings: &TlsAcceptor,
        accepted: Accepted,
        (network, is_overdue): (ClientNetwork, &dyn Fn() -> bool),
    ) -> Result<ServerConnection, HandshakeFailure> {
        let turn = self.tls.turns.acquire(network).await;
        if is_overdue() {
            return Err(HandshakeFailure::TimedOut);
        }
        let listener = self.inner.listener();
        let config = settings.config_for_hello(listener, &accepted.client_hello());
        let connection = accepted.into_connection(config);
        tokio::task::yield_now().await;
        drop(turn);
        connection.map_err(|refused| self.refuse(refused))
    }

    /// Sends the alert of a refused message. If the kernel has no room for it, the client sees only
    /// the end of the connection.
    fn refuse(&self, (error, mut alert): (TlsError, AcceptedAlert)) -> HandshakeFailure {
        let mut no_wake = Context::from_waker(Waker::noop());
        let mut output = EncryptedOutput { inner: &*self.inner, cx: &mut no_wake };
        let _ = alert.write_all(&mut output);
        failure(&error)
    }
}
