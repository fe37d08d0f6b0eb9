//! New connections to origins: finds the addresses, connects, and passes the connection to hyper.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::hosts;
use super::http2::{SharedConnection, StreamPlace};
use super::proxy_header::{ClientEnds, proxy_header};
use super::tunnel::OriginTunnel;
use super::upload::OutboundBody;
use crate::clock;
use crate::config::{OriginAddress, OriginHttp2, ServerSettings};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::limits::{ORIGIN_BUFFER_BYTES_MAX, ORIGIN_LIMITS};
use crate::transport::tls::OfferedProtocols;
use crate::transport::{OriginConnection, OriginEnds, OriginIo};
use crate::worker::Worker;

/// The state of a connection, which the task that drives the connection updates.
#[derive(Debug, Default)]
pub(super) struct Link {
    unasked: Cell<bool>,
}

impl Link {
    /// Whether the origin sent bytes beyond the responses to this server's requests.
    pub(super) fn unasked(&self) -> bool {
        self.unasked.get()
    }
}

/// A place for one request on a connection to an origin.
pub(super) enum ReadyConnection {
    /// A connection that serves no other request at the same time.
    Http1(Connection),
    /// A stream of a connection that other requests share.
    Http2(StreamPlace),
}

impl ReadyConnection {
    /// Returns the addresses of both ends, if the system knows them.
    pub(super) fn ends(&self) -> Option<OriginEnds> {
        match self {
            ReadyConnection::Http1(connection) => connection.ends,
            ReadyConnection::Http2(stream) => stream.connection.ends,
        }
    }
}

/// A connection to an origin over HTTP/1.1, ready for a request.
pub(super) struct Connection {
    pub(super) sender: http1::SendRequest<OutboundBody>,
    pub(super) link: Rc<Link>,
    /// The addresses of both ends, if the system knows them.
    pub(super) ends: Option<OriginEnds>,
    /// Receives the bare connection once it has switched to another protocol; `None` if this
    /// connection cannot switch.
    pub(super) switched: Option<oneshot::Receiver<OriginTunnel>>,
    /// The addresses that the origin was told, so that the connection serves no other client.
    pub(super) client: Option<ClientEnds>,
}

/// The terms on which a connection is opened.
#[derive(Clone, Copy)]
pub(super) struct ConnectTerms<'a> {
    pub(super) settings: &'a ServerSettings,
    /// The time for resolving the name, connecting and the TLS handshake.
    pub(super) timeout_ms: u32,
    /// Whether the connection takes only one request, and may switch to another protocol. Such a
    /// connection uses HTTP/1.1.
    pub(super) is_switchable: bool,
    /// The number of streams that an origin with HTTP/2 is expected to permit.
    pub(super) streams_max: usize,
    /// The addresses of the client that the connection serves, for an origin that is told them;
    /// `None` if no client waits for the request.
    pub(super) client: Option<ClientEnds>,
}

/// The reason why no connection could be opened.
#[derive(Clone, Debug)]
pub(super) struct ConnectFailure {
    pub(super) fault: Fault,
    /// The last address that was tried, and the system's error with its error number.
    pub(super) cause: Option<String>,
}

impl From<Fault> for ConnectFailure {
    fn from(fault: Fault) -> ConnectFailure {
        ConnectFailure { fault, cause: None }
    }
}

/// Opens a connection to `origin` for requests.
///
/// # Errors
/// See [`connect_bare`].
pub(super) async fn connect(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    terms: ConnectTerms<'_>,
) -> Result<ReadyConnection, ConnectFailure> {
    let connection = connect_bare(worker, origin, terms).await?;
    let is_known = origin.http2 == OriginHttp2::Always && !terms.is_switchable;
    if is_known || connection.is_http2 {
        let (client, streams_max) = (terms.client, terms.streams_max);
        let begun = SharedConnection::begin(worker, connection, client, streams_max).await?;
        worker.count(Counter::OriginConnections);
        return Ok(ReadyConnection::Http2(begun.stream().ok_or(Fault::OriginConnect)?));
    }
    let OriginConnection { io, ends, .. } = connection;
    let (sender, connection) = http1::Builder::new()
        .max_headers(usize::from(ORIGIN_LIMITS.field_count_max))
        .max_buf_size(ORIGIN_BUFFER_BYTES_MAX)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|_| Fault::OriginConnect)?;
    let link = Rc::new(Link::default());
    worker.count(Counter::OriginConnections);
    let switched = match terms.is_switchable {
        true => Some(drive_until_switched(worker, connection)),
        false => {
            drive(worker, connection, Rc::clone(&link), origin.authority.clone());
            None
        }
    };
    let client = terms.client;
    Ok(ReadyConnection::Http1(Connection { sender, link, ends, switched, client }))
}

/// Opens a connection to `origin` that is a tunnel from its first byte.
///
/// # Errors
/// See [`connect_bare`].
pub(super) async fn connect_tunnel(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    terms: ConnectTerms<'_>,
) -> Result<OriginTunnel, ConnectFailure> {
    let OriginConnection { io, .. } = connect_bare(worker, origin, terms).await?;
    worker.count(Counter::OriginConnections);
    Ok(OriginTunnel::new(io, Bytes::new(), worker.origins.open_guard(worker)))
}

/// Opens a connection to `origin`.
///
/// # Errors
/// The name has no address, no address accepts the connection, the TLS handshake fails, or
/// connecting takes too long.
async fn connect_bare(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    terms: ConnectTerms<'_>,
) -> Result<OriginConnection, ConnectFailure> {
    if let Some(service) = origin.whole_service() {
        let cause = Some(format!("no targets of {} are known", service.name));
        return Err(ConnectFailure { fault: Fault::OriginName, cause });
    }
    match &origin.socket {
        Some(path) => open_socket(worker, origin, path, terms).await,
        None => open(worker, origin, terms).await,
    }
}

/// Opens a connection to the origin's Unix socket.
async fn open_socket(
    worker: &Worker,
    origin: &OriginAddress,
    path: &Path,
    terms: ConnectTerms<'_>,
) -> Result<OriginConnection, ConnectFailure> {
    let limit = Duration::from_millis(u64::from(terms.timeout_ms));
    let connected = async {
        let connected = worker.connector.connect_socket(path).await?;
        send_proxy_header(origin, connected, terms.client).await
    };
    let connected = timeout(limit, connected).await;
    let failed = |fault, why: &dyn fmt::Display| ConnectFailure {
        fault,
        cause: Some(format!("{}: {why}", path.display())),
    };
    match connected {
        Ok(connected) => connected.map_err(|error| failed(Fault::OriginConnect, &error)),
        Err(_) => {
            let why = format_args!("no connection in {} ms", terms.timeout_ms);
            Err(failed(Fault::OriginConnectTimeout, &why))
        }
    }
}

/// Tries the origin's addresses, with TLS if the origin's URL asks for it. If all of them fail, the
/// origin may have moved: tries the addresses that a new resolution of its name finds, once.
async fn open(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    terms: ConnectTerms<'_>,
) -> Result<OriginConnection, ConnectFailure> {
    let deadline_ms = clock::monotonic_ms() + u64::from(terms.timeout_ms);
    let tried = hosts::addresses(worker, origin, terms.settings, deadline_ms).await?;
    let mut opening = pin!(open_one(worker, origin, &tried, (deadline_ms, terms)));
    // If the only address does not answer for half of the time, the other half is for new ones.
    let left_ms = deadline_ms.saturating_sub(clock::monotonic_ms());
    let wait_ms = if tried.len() == 1 { left_ms / 2 } else { left_ms };
    let failure = match timeout(Duration::from_millis(wait_ms), opening.as_mut()).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(failure)) => Some(failure),
        Err(_) => None,
    };
    hosts::note_all_failed(worker, origin, &tried);
    let new = hosts::new_addresses(worker, origin, terms.settings, deadline_ms, &tried).await;
    match failure {
        Some(failure) if new.is_empty() => return Err(failure),
        None if new.is_empty() => return opening.await,
        _ => {}
    }
    let opened = open_one(worker, origin, &new, (deadline_ms, terms)).await;
    if opened.is_err() {
        hosts::note_all_failed(worker, origin, &new);
    }
    opened
}

/// Tries the addresses one after the other, and records which of them fail. Each address gets a
/// share of the remaining time, so that an address that does not answer leaves time for the next
/// address.
async fn open_one(
    worker: &Rc<Worker>,
    origin: &OriginAddress,
    addresses: &[SocketAddr],
    (deadline_ms, terms): (u64, ConnectTerms<'_>),
) -> Result<OriginConnection, ConnectFailure> {
    let mut failure = ConnectFailure::from(Fault::OriginName);
    for (index, address) in addresses.iter().enumerate() {
        let left_ms = deadline_ms.saturating_sub(clock::monotonic_ms());
        let share_ms = (left_ms / (addresses.len() - index) as u64).max(1);
        let secured = async {
            let connected = worker.connector.connect(*address).await;
            let failed = |fault, why: &dyn fmt::Display| ConnectFailure {
                fault,
                cause: Some(format!("{address}: {why}")),
            };
            let connected = connected.map_err(|error| failed(Fault::OriginConnect, &error))?;
            let sent = send_proxy_header(origin, connected, terms.client).await;
            let connected = sent.map_err(|error| failed(Fault::OriginConnect, &error))?;
            let secured = secure(worker, origin, connected, terms.is_switchable).await;
            secured.map_err(|fault| failed(fault, &fault.reason()))
        };
        match timeout(Duration::from_millis(share_ms), secured).await {
            Ok(Ok(connection)) => {
                hosts::note_worked(worker, origin, *address);
                return Ok(connection);
            }
            Ok(Err(failed)) => failure = failed,
            Err(_) => {
                let cause = Some(format!("{address}: no answer in {share_ms} ms"));
                failure = ConnectFailure { fault: Fault::OriginConnectTimeout, cause };
            }
        }
        hosts::note_failed(worker, origin, *address);
    }
    Err(failure)
}

/// Sends the header of the PROXY protocol, if the origin gets one. It comes before the TLS
/// handshake.
async fn send_proxy_header(
    origin: &OriginAddress,
    mut connection: OriginConnection,
    client: Option<ClientEnds>,
) -> io::Result<OriginConnection> {
    let header = proxy_header(origin.proxy_protocol, client);
    connection.io.write_all(&header).await?;
    Ok(connection)
}

/// Adds TLS to a connection, if the origin's URL asks for it.
///
/// # Errors
/// [`Fault::OriginTls`]: the handshake failed.
async fn secure(
    worker: &Worker,
    origin: &OriginAddress,
    connection: OriginConnection,
    is_switchable: bool,
) -> Result<OriginConnection, Fault> {
    let Some(tls) = &origin.tls else { return Ok(connection) };
    let protocols = OfferedProtocols::to(origin, is_switchable);
    let secured = worker.origins.tls.connect(tls, protocols, connection).await?;
    worker.count(Counter::OriginTlsHandshakes);
    Ok(secured)
}

type HttpConnection = http1::Connection<TokioIo<Box<dyn OriginIo>>, OutboundBody>;

/// Starts a task that drives the connection until it ends or has switched to another protocol.
/// After a switch the receiver gets the bare connection; if the receiver is gone, the connection is
/// closed.
fn drive_until_switched(
    worker: &Rc<Worker>,
    connection: HttpConnection,
) -> oneshot::Receiver<OriginTunnel> {
    let (give, switched) = oneshot::channel();
    let driver = Rc::clone(worker);
    worker.spawn(async move {
        let open = driver.origins.open_guard(&driver);
        // An error also ends the exchange, which reports it.
        if let Ok(parts) = connection.without_shutdown().await {
            let _ = give.send(OriginTunnel::new(parts.io.into_inner(), parts.read_buf, open));
        }
    });
    switched
}

/// Starts a task that drives the connection until it ends. If the origin sends bytes without a
/// request, the task records this in `link`, and counts and reports it.
fn drive(worker: &Rc<Worker>, connection: HttpConnection, link: Rc<Link>, authority: String) {
    let driver = Rc::clone(worker);
    worker.spawn(async move {
        let worker = driver;
        let open = worker.origins.open_guard(&worker);
        if let Err(error) = connection.await
            && is_unasked(&error)
        {
            link.unasked.set(true);
            worker.count(Counter::OriginUnasked);
            worker.event(Event::OriginUnasked, &authority);
        }
        drop(open);
    });
}

/// Whether the error means that the origin sent bytes without a request. hyper has no method that
/// recognises this kind of error, so all other kinds are excluded.
fn is_unasked(error: &hyper::Error) -> bool {
    let other = error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || error.is_parse()
        || error.is_user()
        || error.is_timeout()
        || error.is_body_write_aborted();
    let broken = error.source().is_some_and(|source| source.is::<io::Error>());
    !other && !broken
}
