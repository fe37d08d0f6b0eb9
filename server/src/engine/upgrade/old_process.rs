//! The old process of an upgrade: waits for a successor, and hands over once the successor is
//! ready.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::VERSION;
use super::message::{CacheDirId, HEAD_BYTES, Hello, Offer, UpgradeMessage};
use super::wire;
use crate::counters::Counter;
use crate::engine::{Control, StuckWorkers};
use crate::events::Event;
use crate::limits::{
    ACCEPT_RETRY_MS, UPGRADE_ANSWER_MS_MAX, UPGRADE_DESCRIPTORS_MAX, UPGRADE_HELLO_MS_MAX,
    UPGRADE_READY_MS_MAX,
};

/// Duplicates of the descriptors that a successor gets. It also gets two that are not in this
/// struct: the socket for upgrades, which is an argument of [`serve_upgrades`], and the lock of the
/// cache directory, which is in [`Control::guard`].
pub(in crate::engine) struct Handover {
    pub(in crate::engine) address: SocketAddr,
    pub(in crate::engine) sockets: Vec<std::net::TcpListener>,
    pub(in crate::engine) admin: OwnedFd,
}

/// The outcome of a complete handover: another process serves from now on.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct HandoverOutcome {
    /// Whether the new process uses this process's admin socket.
    pub(in crate::engine) has_admin: bool,
}

/// The reason why a handover failed.
enum HandoverError {
    /// The connecting process sent nothing: it only tested whether a server answers.
    Nothing,
    /// This process refused, or stopped waiting for the new process.
    Refused(String),
    /// The new process gave up; the text is the reason.
    Declined(String),
    /// The new process closed the connection, or died.
    Gone,
    /// The new process sent an invalid message.
    Garbled,
    Io(io::Error),
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandoverError::Nothing => f.write_str("the connecting process sent no message"),
            HandoverError::Refused(why) => f.write_str(why),
            HandoverError::Declined(why) => write!(f, "the new process gave up: {why}"),
            HandoverError::Gone => f.write_str("the new process ended before it was ready"),
            HandoverError::Garbled => f.write_str("the connecting process is not a Forebay server"),
            HandoverError::Io(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for HandoverError {
    fn from(error: io::Error) -> HandoverError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => HandoverError::Gone,
            _ => HandoverError::Io(error),
        }
    }
}

/// Waits for a successor until a handover is complete. A failed handover is counted and logged.
/// When this future ends or is dropped, the descriptors of the handover are closed.
pub(in crate::engine) async fn serve_upgrades(
    control: &Control,
    listener: UnixListener,
    handover: Handover,
) -> HandoverOutcome {
    loop {
        let mut stream = accept(&listener).await;
        // Other processes wait in the accept queue, which a successor takes over.
        let ended = converse(control, (&listener, &handover), &mut stream).await;
        let failure = match ended {
            Ok(handed_over) => return handed_over,
            Err(HandoverError::Nothing) => continue,
            Err(failure) => failure,
        };
        if let HandoverError::Refused(why) = &failure {
            refuse(&stream, why);
        }
        control.count(Counter::UpgradesFailed, 1);
        Event::UpgradeFailed.log(&failure);
    }
}

async fn accept(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                Event::UpgradeFailed.log(&error);
                tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
            }
        }
    }
}

/// Tells the other process why it is refused. Ignores an error, which means that the other process
/// has ended.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = wire::send(stream, &UpgradeMessage::Refused(why.to_owned()).encode(), &[]);
}

async fn converse(
    control: &Control,
    (listener, handover): (&UnixListener, &Handover),
    stream: &mut UnixStream,
) -> Result<HandoverOutcome, HandoverError> {
    if !wire::is_of_our_user(&*stream) {
        return Err(HandoverError::Refused("the other process runs as another user".to_owned()));
    }
    let hello_limit = Duration::from_millis(UPGRADE_HELLO_MS_MAX);
    let Ok(hello) = timeout(hello_limit, receive(stream)).await else {
        return Err(HandoverError::Refused(
            "the new process sent no upgrade request in time".to_owned(),
        ));
    };
    let hello = match hello? {
        Some(UpgradeMessage::Hello(hello)) => hello,
        Some(_) => return Err(HandoverError::Garbled),
        None => return Err(HandoverError::Nothing),
    };
    let guard = control.guard.as_ref().filter(|guard| !guard.is_deleted());
    let own_dir = match (&control.guard, guard) {
        (Some(_), None) => OwnCacheDir::Deleted,
        (_, Some(guard)) => OwnCacheDir::Is(guard.id()),
        (None, None) => OwnCacheDir::None,
    };
    if let Some(why) = objection(&hello, handover.address, own_dir) {
        return Err(HandoverError::Refused(why));
    }
    // Without a cache directory the new process has a store of its own. Then a handover is refused
    // if a worker is stuck, because it cannot leave the old store.
    let stuck = control.stuck_workers();
    if hello.cache_dir == CacheDirId::None && !stuck.is_empty() {
        return Err(cannot_leave_store(&stuck));
    }
    Event::UpgradeBegun.log(&format_args!("{} sockets", handover.sockets.len()));
    let answer_limit = Duration::from_millis(UPGRADE_ANSWER_MS_MAX);
    let offered = offer(control, (listener, handover), stream);
    let Ok(offered) = timeout(answer_limit, offered).await else {
        return Err(HandoverError::Refused(
            "the new process did not read the offered sockets in time".to_owned(),
        ));
    };
    offered?;
    forebay_shm::crash_point!("upgrade.offered");
    let ready_limit = Duration::from_millis(UPGRADE_READY_MS_MAX);
    let Ok(ready) = timeout(ready_limit, receive(stream)).await else {
        let why = format!("the new process was not ready within {} s", ready_limit.as_secs());
        return Err(HandoverError::Refused(why));
    };
    let ready = match ready? {
        Some(UpgradeMessage::Ready(ready)) => ready,
        Some(UpgradeMessage::Refused(why)) => return Err(HandoverError::Declined(why)),
        Some(_) => return Err(HandoverError::Garbled),
        None => return Err(HandoverError::Gone),
    };
    if !ready.shares_store {
        control.leave_store().await.map_err(|stuck| cannot_leave_store(&stuck))?;
    }
    let handed_over = hand_over(stream).await;
    if handed_over.is_err() && !ready.shares_store {
        control.return_to_store();
    }
    handed_over.map(|()| HandoverOutcome { has_admin: ready.has_admin })
}

/// Refuses a process with a store of its own: purges would not reach a worker that still answers
/// from the old store.
fn cannot_leave_store(stuck: &StuckWorkers) -> HandoverError {
    let why = format!("{stuck}, and may answer from the cache of this process; restart the server");
    HandoverError::Refused(why)
}

async fn hand_over(stream: &UnixStream) -> Result<(), HandoverError> {
    let yours = UpgradeMessage::Yours.encode();
    let answer_limit = Duration::from_millis(UPGRADE_ANSWER_MS_MAX);
    let Ok(handed_over) = timeout(answer_limit, say(stream, &yours, &[])).await else {
        return Err(HandoverError::Refused("the new process no longer reads messages".to_owned()));
    };
    Ok(handed_over?)
}

/// The cache directory of this process.
#[derive(Clone, Copy, Debug)]
enum OwnCacheDir {
    None,
    Is(forebay_shm::DirId),
    /// The directory was deleted while the server ran.
    Deleted,
}

/// Returns the reason why a process is not allowed to take over; `None` if it is allowed to.
fn objection(hello: &Hello, address: SocketAddr, cache_dir: OwnCacheDir) -> Option<String> {
    if hello.version != VERSION {
        return Some(format!(
            "cannot upgrade between protocol versions {VERSION} and {}: stop this server and start \
             the new one",
            hello.version
        ));
    }
    if hello.listen != address {
        return Some(format!("this server listens on {address}, not on {}", hello.listen));
    }
    let is_same = match (hello.cache_dir, cache_dir) {
        (CacheDirId::None, OwnCacheDir::None) => true,
        (CacheDirId::Is(its), OwnCacheDir::Is(ours)) => its == ours,
        // The new process creates the directory, or uses one that was created since.
        (CacheDirId::Is(_) | CacheDirId::Absent, OwnCacheDir::Deleted) => true,
        _ => false,
    };
    (!is_same)
        .then(|| "the `cache_dir` of this server differs from that of the new process".to_owned())
}

async fn offer(
    control: &Control,
    (listener, handover): (&UnixListener, &Handover),
    stream: &UnixStream,
) -> io::Result<()> {
    let mut descriptors = vec![listener.as_fd(), handover.admin.as_fd()];
    let guard = control.guard.as_ref().filter(|guard| !guard.is_deleted());
    descriptors.extend(guard.map(AsFd::as_fd));
    descriptors.extend(handover.sockets.iter().map(AsFd::as_fd));
    let offer = Offer {
        has_guard: guard.is_some(),
        socket_count: u32::try_from(handover.sockets.len()).unwrap_or(u32::MAX),
        totals: control.upgrade_totals(),
        ticket_keys: control.ticket_keys.get().0,
    };
    say(stream, &UpgradeMessage::Offer(offer).encode(), &[]).await?;
    for piece in descriptors.chunks(UPGRADE_DESCRIPTORS_MAX) {
        let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        say(stream, &UpgradeMessage::Descriptors(count).encode(), piece).await?;
    }
    Ok(())
}

async fn say(
    stream: &UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    stream.async_io(Interest::WRITABLE, || wire::send(stream, message, descriptors)).await
}

/// Returns the next message, or `None` if the other side closed the connection instead. Messages to
/// the old process carry no descriptors; the kernel closes any that arrive.
async fn receive(stream: &mut UnixStream) -> Result<Option<UpgradeMessage>, HandoverError> {
    let mut head = [0; HEAD_BYTES];
    let (first, rest) = head.split_at_mut(1);
    if stream.read(first).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(rest).await?;
    let (kind, length) = UpgradeMessage::head(head).ok_or(HandoverError::Garbled)?;
    let mut contents = vec![0; length];
    stream.read_exact(&mut contents).await?;
    UpgradeMessage::decode(kind, &contents).map(Some).ok_or(HandoverError::Garbled)
}
