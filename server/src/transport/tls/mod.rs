//! TLS over any transport, for connections from clients and to origins.
//!
//! No other module names a type of the TLS library, except for the certificates of the
//! configuration. A [`TlsTransport`] does its handshake in the connection's task
//! ([`TlsTransport::handshake`]); afterwards it is a [`Transport`](super::Transport) like any
//! other. Invariants:
//!
//! - Bodies are encrypted from the slices that `poll_write` gets. A write counts as done only once
//!   the kernel has its last encrypted byte, so a connection holds at most
//!   [`TLS_WRITE_BYTES_MAX`](crate::limits::TLS_WRITE_BYTES_MAX) encrypted bytes.
//! - The end of the stream is the client's close_notify. A connection that ends without a
//!   close_notify causes a read error, so a truncated body is never taken for a complete one.
//! - A connection that sends nothing holds no TLS state. The state is created when the first bytes
//!   arrive, in one of a limited number of handshake slots ([`HandshakeSlots`]).
//! - Each worker has its own copy of the server's TLS settings ([`TlsAcceptor`]). The copies share
//!   only the certificates and their keys.

mod acceptor;
mod client_certificate;
mod handshake;
mod hello;
mod listener;
mod origin;
mod origin_pins;
mod session;
mod slots;
mod tickets;
mod turns;

pub(crate) use acceptor::{TlsAcceptor, acceptor};
pub(crate) use client_certificate::ClientCertificate;
pub(crate) use listener::{TlsListener, WorkerTls};
pub(crate) use origin::{OfferedProtocols, OriginTlsConnector, refused_certificate};
pub(crate) use session::{TlsInfo, TlsTransport};
pub(crate) use tickets::{TICKET_KEYS_BYTES, TicketKeys};
