//! TLS connections of clients and to origins, over any transport.
//!
//! No other module names a type of the TLS library, except for the certificates of the
//! configuration. A [`TlsTransport`] does its handshake in the connection's task
//! ([`TlsTransport::handshake`]); afterwards it is a [`Transport`](super::Transport) like any
//! other. Its invariants:
//!
//! - Bodies are encrypted from the slices that `poll_write` gets. A write counts as done only once
//!   the kernel has its last encrypted byte, so a connection holds at most
//!   [`TLS_WRITE_BYTES_MAX`](crate::limits::TLS_WRITE_BYTES_MAX) encrypted bytes.
//! - The end of the stream is the client's close_notify. A connection that ends without it reads as
//!   an error, so a truncated body is never taken for a whole one.
//! - A connection that sends nothing holds no TLS state. The state begins with the first bytes, in
//!   one of a limited number of handshake slots ([`HandshakeSlots`]).
//! - Each worker has a copy of the server's settings for TLS ([`TlsAcceptor`]) and shares nothing
//!   with the others.

mod acceptor;
mod handshake;
mod listener;
mod origin;
mod session;
mod slots;
mod tickets;

pub(crate) use acceptor::{TlsAcceptor, acceptor};
pub(crate) use listener::{TlsListener, WorkerTls};
pub(crate) use origin::OriginTlsConnector;
pub(crate) use session::{TlsInfo, TlsTransport};
pub(crate) use tickets::{TICKET_KEYS_BYTES, TicketKeys};
