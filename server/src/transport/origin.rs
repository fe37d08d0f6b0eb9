//! Connections to origins, and the trait for opening them.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Opens connections to origins.
pub(crate) trait Connector {
    /// Opens a connection to `address`. Dropping the future cancels the attempt.
    fn connect(&self, address: SocketAddr) -> Connecting;

    /// Opens a connection to the Unix socket at `path`. Dropping the future cancels the attempt.
    fn connect_socket(&self, path: &Path) -> Connecting;
}

/// A connection that is being opened.
pub(crate) type Connecting = Pin<Box<dyn Future<Output = io::Result<OriginConnection>>>>;

/// An open connection to an origin.
pub(crate) struct OriginConnection {
    pub(crate) io: Box<dyn OriginIo>,
    pub(crate) ends: Option<OriginEnds>,
    /// Whether the origin has chosen HTTP/2 in the TLS handshake.
    pub(crate) is_http2: bool,
}

/// The addresses at both ends of a connection to an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginEnds {
    /// The origin's address.
    pub(crate) server: IpAddr,
    /// This server's address.
    pub(crate) local: IpAddr,
}

/// The byte stream of a connection to an origin, which the HTTP client reads and writes.
pub(crate) trait OriginIo: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> OriginIo for T {}
