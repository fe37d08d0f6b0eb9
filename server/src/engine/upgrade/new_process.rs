//! The new process of an upgrade: asks the running server for its sockets, and takes over once it
//! is ready to serve.
//!
//! Waits block the calling thread, each for a bounded time; the process does not serve requests
//! yet.

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_shm::DirId;
use socket2::{Domain, SockAddr, Socket, Type};

use super::VERSION;
use super::message::{
    CacheDirId, HEAD_BYTES, Hello, Offer, Readiness, UpgradeMessage, UpgradeTotals,
};
use super::wire;
use crate::config::ServerSettings;
use crate::limits::{UPGRADE_ANSWER_MS_MAX, UPGRADE_DESCRIPTORS_MAX, UPGRADE_SOCKETS_MAX};
use crate::transport::tls::TicketKeys;

/// A connection to the running server, which waits until this process is ready.
pub(in crate::engine) struct Predecessor {
    stream: UnixStream,
}

/// The sockets that a running server offered. The running server uses them itself until
/// [`Predecessor::commit`].
pub(in crate::engine) struct InheritedSockets {
    /// The running server's socket for upgrades.
    pub(in crate::engine) upgrade: UnixListener,
    /// The running server's admin socket: TCP or Unix.
    pub(in crate::engine) admin: OwnedFd,
    /// The lock of the running server's cache directory, if it has one.
    pub(in crate::engine) guard: Option<OwnedFd>,
    pub(in crate::engine) sockets: Vec<TcpListener>,
    pub(in crate::engine) totals: UpgradeTotals,
    pub(in crate::engine) ticket_keys: TicketKeys,
}

/// The reason why a process could not take over. A running server continues.
#[derive(Debug)]
pub enum UpgradeError {
    /// The setting `listen` has port 0, so it does not identify the running server.
    NoPort,
    /// The process cannot connect to the server at this socket.
    Unreachable(PathBuf, io::Error),
    /// The server at this socket runs as another user.
    NotOurUser(PathBuf),
    /// The running server refuses to hand over; the text is the reason.
    Refused(String),
    /// The running server ended, or was told to stop.
    Gone,
    /// The running server did not answer in time.
    TimedOut,
    /// The running server sent an invalid message.
    Garbled,
    /// The sockets of the running server cannot be used.
    Unusable(io::Error),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpgradeError::NoPort => {
                f.write_str("`listen` must have the port of the running server")
            }
            UpgradeError::Unreachable(path, error) => {
                write!(f, "cannot connect to the running server at {}: {error}", path.display())
            }
            UpgradeError::NotOurUser(path) => {
                write!(f, "the server at {} runs as another user", path.display())
            }
            UpgradeError::Refused(why) => {
                write!(f, "the running server refuses the upgrade: {why}")
            }
            UpgradeError::Gone => f.write_str("the running server ended before it handed over"),
            UpgradeError::TimedOut => f.write_str(
                "the running server does not answer in time; another upgrade may be in progress",
            ),
            UpgradeError::Garbled => {
                f.write_str("the process at the upgrade socket is not a Forebay server")
            }
            UpgradeError::Unusable(error) => {
                write!(f, "cannot use the sockets of the running server: {error}")
            }
        }
    }
}

impl std::error::Error for UpgradeError {}

impl From<io::Error> for UpgradeError {
    fn from(error: io::Error) -> UpgradeError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => UpgradeError::TimedOut,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => UpgradeError::Gone,
            _ => UpgradeError::Unusable(error),
        }
    }
}

impl Predecessor {
    /// Asks the server at this socket to hand over; returns `None` if there is no server.
    ///
    /// # Errors
    /// See [`UpgradeError`].
    pub(in crate::engine) fn meet(
        path: &Path,
        settings: &ServerSettings,
    ) -> Result<Option<(Predecessor, InheritedSockets)>, UpgradeError> {
        if settings.listen.first.port() == 0 {
            return Err(UpgradeError::NoPort);
        }
        let stream = match connect(path) {
            Ok(stream) => stream,
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(UpgradeError::Unreachable(path.to_owned(), error)),
        };
        if !wire::is_of_our_user(&stream) {
            return Err(UpgradeError::NotOurUser(path.to_owned()));
        }
        let predecessor = Predecessor { stream };
        let cache_dir = match settings.cache_dir.path() {
            None => CacheDirId::None,
            Some(dir) => DirId::of(dir).map_or(CacheDirId::Absent, CacheDirId::Is),
        };
        let hello = Hello { version: VERSION, listen: settings.listen.first, cache_dir };
        // If sending fails because the server closed the connection, its last message may contain
        // the reason, so that message is read first.
        let said = predecessor.say(&UpgradeMessage::Hello(hello));
        let mut passed = Vec::new();
        let offer = match predecessor.hear(&mut passed) {
            Ok(UpgradeMessage::Offer(offer)) => offer,
            Ok(UpgradeMessage::Refused(why)) => return Err(UpgradeError::Refused(why)),
            Ok(_) => return Err(UpgradeError::Garbled),
            Err(error) => return Err(said.map_or_else(UpgradeError::from, |()| error)),
        };
        let taken = predecessor.take(offer, passed)?;
        forebay_shm::crash_point!("upgrade.taken");
        Ok(Some((predecessor, taken)))
    }

    fn take(
        &self,
        offer: Offer,
        mut passed: Vec<OwnedFd>,
    ) -> Result<InheritedSockets, UpgradeError> {
        let socket_count = offer.socket_count as usize;
        if socket_count > UPGRADE_SOCKETS_MAX {
            return Err(UpgradeError::Garbled);
        }
        let wanted = 2 + usize::from(offer.has_guard) + socket_count;
        while passed.len() < wanted {
            let before = passed.len();
            let UpgradeMessage::Descriptors(count) = self.hear(&mut passed)? else {
                return Err(UpgradeError::Garbled);
            };
            let came = passed.len() - before;
            if came != count as usize || !(1..=UPGRADE_DESCRIPTORS_MAX).contains(&came) {
                return Err(UpgradeError::Garbled);
            }
        }
        let mut passed = passed.into_iter();
        let (Some(upgrade), Some(admin)) = (passed.next(), passed.next()) else {
            return Err(UpgradeError::Garbled);
        };
        let guard = if offer.has_guard { passed.next() } else { None };
        let sockets = passed.map(TcpListener::from).collect();
        Ok(InheritedSockets {
            upgrade: upgrade.into(),
            admin,
            guard,
            sockets,
            totals: offer.totals,
            ticket_keys: offer.ticket_keys,
        })
    }

    /// Tells the running server why this process does not take over. If that fails, the server
    /// still notices that the connection is closed.
    pub(in crate::engine) fn decline(&self, why: &dyn fmt::Display) {
        let _ = self.say(&UpgradeMessage::Refused(why.to_string()));
    }

    /// Takes over. If this succeeds, the old process accepts no further connections.
    ///
    /// # Errors
    /// The running server did not hand over: it continues, or has ended.
    pub(in crate::engine) fn commit(self, ready: Readiness) -> Result<(), UpgradeError> {
        let said = self.say(&UpgradeMessage::Ready(ready));
        let answer = match self.hear(&mut Vec::new()) {
            Err(UpgradeError::TimedOut) => {
                // From here on the server cannot send anything, so both sides agree on the outcome.
                self.stream.shutdown(Shutdown::Read)?;
                let last = self.hear(&mut Vec::new());
                last.map_err(|error| match error {
                    UpgradeError::Gone => UpgradeError::TimedOut,
                    other => other,
                })
            }
            answer => answer,
        };
        match answer {
            Ok(UpgradeMessage::Yours) => Ok(()),
            Ok(UpgradeMessage::Refused(why)) => Err(UpgradeError::Refused(why)),
            Ok(_) => Err(UpgradeError::Garbled),
            Err(error) => Err(said.map_or_else(UpgradeError::from, |()| error)),
        }
    }

    fn say(&self, message: &UpgradeMessage) -> io::Result<()> {
        wire::send(&self.stream, &message.encode(), &[])
    }

    fn hear(&self, passed: &mut Vec<OwnedFd>) -> Result<UpgradeMessage, UpgradeError> {
        let mut head = [0; HEAD_BYTES];
        if !wire::receive(&self.stream, &mut head, passed)? {
            return Err(UpgradeError::Gone);
        }
        let (kind, length) = UpgradeMessage::head(head).ok_or(UpgradeError::Garbled)?;
        let mut contents = vec![0; length];
        if length > 0 && !wire::receive(&self.stream, &mut contents, passed)? {
            return Err(UpgradeError::Gone);
        }
        UpgradeMessage::decode(kind, &contents).ok_or(UpgradeError::Garbled)
    }
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let limit = Some(Duration::from_millis(UPGRADE_ANSWER_MS_MAX));
    // The limits are set before connecting, because connecting waits while the server's accept
    // queue is full.
    socket.set_write_timeout(limit)?;
    socket.set_read_timeout(limit)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// Whether the error means that no server runs: there is no socket, or only one that a killed
/// server left.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
