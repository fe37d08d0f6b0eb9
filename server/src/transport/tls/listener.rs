//! Listening sockets whose connections use TLS.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::acceptor::TlsAcceptor;
use super::client_certificate::ClientCertificate;
use super::session::{TlsInfo, TlsTransport};
use super::slots::HandshakeSlots;
use super::turns::HandshakeTurns;
use crate::clock;
use crate::counters::Counter;
use crate::transport::{Listener, Transport};
use crate::worker::Worker;

/// The state that all TLS connections of a worker share.
pub(crate) struct WorkerTls {
    /// The TLS settings for new connections; `None` if the server has no listener for TLS.
    acceptor: RefCell<Option<Rc<TlsAcceptor>>>,
    pub(super) slots: Rc<HandshakeSlots>,
    /// Each turn of the event loop runs at most one step of one handshake, and requests of other
    /// connections are answered between two steps.
    pub(super) turns: HandshakeTurns,
    /// The number of handshakes in progress, for the gauge.
    handshake_count: Cell<u64>,
}

impl WorkerTls {
    pub(crate) fn new(acceptor: Option<TlsAcceptor>) -> WorkerTls {
        WorkerTls {
            acceptor: RefCell::new(acceptor.map(Rc::new)),
            slots: Rc::default(),
            turns: HandshakeTurns::default(),
            handshake_count: Cell::default(),
        }
    }

    /// Replaces the TLS settings for connections whose handshake begins from now on.
    pub(crate) fn replace(&self, acceptor: TlsAcceptor) {
        *self.acceptor.borrow_mut() = Some(Rc::new(acceptor));
    }

    /// Returns the certificate of a client whose connection has this handshake; `None` if it has
    /// shown none, or if the certificate is no longer valid for the names of the connection.
    pub(crate) fn valid_client<'a>(&self, info: &'a TlsInfo) -> Option<&'a ClientCertificate> {
        let client = info.client.as_ref()?;
        let now_s = clock::unix_seconds();
        let acceptor = self.acceptor.borrow();
        acceptor.as_deref()?.accepts(info.certificates, client, now_s).then_some(client)
    }

    /// Counts a handshake in progress, until the guard is dropped.
    pub(crate) fn handshaking<'a>(&'a self, worker: &'a Worker) -> Handshaking<'a> {
        self.handshake_count.update(|count| count + 1);
        let guard = Handshaking { tls: self, worker };
        guard.show();
        guard
    }

    /// Returns the current TLS settings.
    pub(super) fn acceptor(&self) -> Option<Rc<TlsAcceptor>> {
        self.acceptor.borrow().clone()
    }
}

/// Counts a handshake in progress, until this guard is dropped.
pub(crate) struct Handshaking<'a> {
    tls: &'a WorkerTls,
    worker: &'a Worker,
}

impl Handshaking<'_> {
    fn show(&self) {
        self.worker.gauge(Counter::TlsHandshaking, self.tls.handshake_count.get());
    }
}

impl Drop for Handshaking<'_> {
    fn drop(&mut self) {
        self.tls.handshake_count.update(|count| count.saturating_sub(1));
        self.show();
    }
}

/// A listener that adds TLS to the connections of another listener.
pub(crate) struct TlsListener {
    inner: Box<dyn Listener>,
    tls: Rc<WorkerTls>,
}

impl TlsListener {
    pub(crate) fn over(inner: Box<dyn Listener>, tls: Rc<WorkerTls>) -> Box<dyn Listener> {
        Box::new(TlsListener { inner, tls })
    }
}

impl Listener for TlsListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Transport>>> {
        let accepted = self.inner.poll_accept(cx);
        accepted.map_ok(|transport| TlsTransport::boxed(transport, Rc::clone(&self.tls)))
    }

    fn close(self: Box<Self>, accept: &mut dyn FnMut(Box<dyn Transport>)) {
        let TlsListener { inner, tls } = *self;
        inner.close(&mut |transport| accept(TlsTransport::boxed(transport, Rc::clone(&tls))));
    }
}
