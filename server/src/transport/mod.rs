//! The boundary to the network: the operations on connections that a worker needs, over any
//! transport.
//!
//! No other code that handles a request names a socket type; the engine opens the listening sockets
//! and passes them on. TCP is one implementation of these traits. It can be replaced by an
//! implementation in memory, or by one that uses other system calls.
//!
//! | trait | stands for |
//! |---|---|
//! | [`Listener`] | a queue of connections that clients have opened |
//! | [`Transport`] | one connection of a client |
//! | [`Connector`] | a means to open connections to origins |
//!
//! [`tls`] is a transport over another transport.
//!
//! Each value of these types belongs to one worker and stays on its thread.

mod listeners;
mod origin;
mod tcp;
pub(crate) mod tls;

pub(crate) use listeners::{AllListeners, ListenPlace, ListenSocket, Listeners};
pub(crate) use origin::{Connecting, Connector, OriginConnection, OriginEnds, OriginIo};
pub(crate) use tcp::{TcpConnector, TcpListener};

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use forebay_http::target::Scheme;

use self::tls::TlsInfo;
use crate::config::ListenerNumber;

/// One connection of a client.
///
/// A poll borrows the stream only until it returns, so one task may read a request body and write a
/// response at the same time. A poll that returns `Pending` wakes the task when it can proceed.
pub(crate) trait Transport {
    /// Reads into `space`; `Ready(0)` is the end of the stream.
    fn poll_read(&self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Reads the bytes that have arrived. This includes bytes that the event loop has not noticed
    /// yet, because it checks sockets only between its turns. Returns `None` if no bytes have
    /// arrived.
    fn read_now(&self, space: &mut [u8]) -> Option<usize>;

    /// Writes bytes from the start of `slices`; returns the number of bytes written.
    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Shuts down the sending side once the bytes that were written have been sent.
    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Returns whether the client has ended the connection, without reading from it.
    fn client_end(&self) -> ClientEnd {
        ClientEnd::Open
    }

    /// Returns the client's address and port.
    fn peer(&self) -> SocketAddr;

    /// Returns the address and port that the client connected to, if the system still knows them.
    fn local(&self) -> Option<SocketAddr>;

    /// Returns the number of the listener that accepted the connection.
    fn listener(&self) -> ListenerNumber;

    /// Marks all further packets with this code point (RFC 2474), 0 to 63. The mark is a hint:
    /// networks may ignore it, and a response is sent even if the mark cannot be set.
    fn set_dscp(&self, dscp: u8);

    /// Makes the connection end with a reset, so that the client does not take a truncated response
    /// for a complete one.
    fn reset_on_close(&self);

    /// Returns the connection as a TLS connection, if it is one. The caller must run its handshake
    /// before any other operation.
    fn tls(&self) -> Option<&tls::TlsTransport> {
        None
    }

    /// Returns the scheme of the connection's requests: `https` if it uses TLS.
    fn scheme(&self) -> Scheme {
        Scheme::Http
    }

    /// Returns the result of the TLS handshake; `None` without TLS, or before it is complete.
    fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        None
    }

    /// Whether this is a stream of an HTTP/2 connection. If so, the HTTP/2 connection watches the
    /// client's speed, because one stream may have to wait for another stream.
    fn is_http2_stream(&self) -> bool {
        false
    }
}

/// Whether a client has ended its connection, as far as the system knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    Open,
    /// The client sends nothing more. Most such clients have closed the connection, but some still
    /// wait for their response.
    Half,
    /// The connection was reset, or both sides have ended it.
    Both,
}

/// A queue of connections that clients have opened.
pub(crate) trait Listener {
    /// Takes the next connection; if there is none, wakes the task when one arrives.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Transport>>>;

    /// Passes every queued connection to `accept`, then closes the queue. Closing resets
    /// connections that are still queued.
    fn close(self: Box<Self>, accept: &mut dyn FnMut(Box<dyn Transport>));
}
