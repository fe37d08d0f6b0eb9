//! The old process: it waits for a successor, and hands over to one that is ready.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::VERSION;
use super::message::{CacheDirId, HEAD_BYTES, Hello, Message, Offer};
use super::wire;
use crate::counters::Counter;
use crate::engine::Control;
use crate::events::Event;
use crate::limits::{
    ACCEPT_RETRY_MS, UPGRADE_ANSWER_MS_MAX, UPGRADE_DESCRIPTORS_MAX, UPGRADE_HELLO_MS_MAX,
    UPGRADE_READY_MS_MAX,
};

/// Another descriptor of what a successor gets. The socket for upgrades is given to [`give`], the
/// lock of the cache directory is [`Control::guard`].
pub(in crate::engine) struct Estate {
    pub(in crate::engine) address: SocketAddr,
    pub(in crate::engine) sockets: Vec<std::net::TcpListener>,
    pub(in crate::engine) admin: OwnedFd,
}

/// Another process serves from now on.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct HandedOver {
    /// Its admin socket is ours.
    pub(in crate::engine) has_admin: bool,
}

/// Why a process did not take over.
enum Failure {
    /// It only looked whether somebody answers.
    Nothing,
    /// We refused, or no longer wait.
    Refused(String),
    /// It said that it cannot.
    Declined(String),
    /// It closed, or died.
    Gone,
    /// It does not speak as it should.
    Garbled,
    Io(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Nothing => f.write_str("it asked for nothing"),
            Failure::Refused(why) => f.write_str(why),
            Failure::Declined(why) => write!(f, "the new process: {why}"),
            Failure::Gone => f.write_str("the new process ended before it was ready"),
            Failure::Garbled => f.write_str("what asked is not a Forebay server"),
            Failure::Io(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => Failure::Gone,
            _ => Failure::Io(error),
        }
    }
}

/// Waits for a successor. What fails changes nothing but a counter and the log; when this ends or
/// is dropped, the estate's descriptors are closed.
pub(in crate::engine) async fn give(
    control: &Control,
    listener: UnixListener,
    estate: Estate,
) -> HandedOver {
    loop {
        let mut stream = accept(&listener).await;
        // Who comes meanwhile waits in the queue, which a successor shares.
        let ended = converse(control, (&listener, &estate), &mut stream).await;
        let failure = match ended {
            Ok(handed_over) => return handed_over,
            Err(Failure::Nothing) => continue,
            Err(failure) => failure,
        };
        if let Failure::Refused(why) = &failure {
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

/// Says so if the other side still listens; there is nothing to be done if not.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = wire::send(stream, &Message::Refused(why.to_owned()).encode(), &[]);
}

async fn converse(
    control: &Control,
    (listener, estate): (&UnixListener, &Estate),
    stream: &mut UnixStream,
) -> Result<HandedOver, Failure> {
    if !wire::is_of_our_user(&*stream) {
        return Err(Failure::Refused("the other process is not of the same user".to_owned()));
    }
    let hello_limit = Duration::from_millis(UPGRADE_HELLO_MS_MAX);
    let Ok(hello) = timeout(hello_limit, receive(stream)).await else {
        return Err(Failure::Refused("it did not say in time what it wants".to_owned()));
    };
    let hello = match hello? {
        Some(Message::Hello(hello)) => hello,
        Some(_) => return Err(Failure::Garbled),
        None => return Err(Failure::Nothing),
    };
    let own_cache_dir = control.guard.as_ref();
    if let Some(why) = objection(&hello, estate.address, own_cache_dir.map(|guard| guard.id())) {
        return Err(Failure::Refused(why));
    }
    Event::UpgradeBegun.log(&format_args!("{} sockets", estate.sockets.len()));
    let answer_limit = Duration::from_millis(UPGRADE_ANSWER_MS_MAX);
    let offered = offer(control, (listener, estate), stream);
    let Ok(offered) = timeout(answer_limit, offered).await else {
        return Err(Failure::Refused("it did not take what it was given".to_owned()));
    };
    offered?;
    forebay_shm::crash_point!("upgrade.offered");
    let ready_limit = Duration::from_millis(UPGRADE_READY_MS_MAX);
    let Ok(ready) = timeout(ready_limit, receive(stream)).await else {
        let why = format!("it was not ready within {} s", ready_limit.as_secs());
        return Err(Failure::Refused(why));
    };
    let ready = match ready? {
        Some(Message::Ready(ready)) => ready,
        Some(Message::Refused(why)) => return Err(Failure::Declined(why)),
        Some(_) => return Err(Failure::Garbled),
        None => return Err(Failure::Gone),
    };
    if !ready.shares_store {
        control.use_store(false).await;
    }
    let handed_over = hand_over(stream).await;
    if handed_over.is_err() && !ready.shares_store {
        control.use_store(true).await;
    }
    handed_over.map(|()| HandedOver { has_admin: ready.has_admin })
}

async fn hand_over(stream: &UnixStream) -> Result<(), Failure> {
    let yours = Message::Yours.encode();
    let answer_limit = Duration::from_millis(UPGRADE_ANSWER_MS_MAX);
    let Ok(handed_over) = timeout(answer_limit, say(stream, &yours, &[])).await else {
        return Err(Failure::Refused("it did not listen any more".to_owned()));
    };
    Ok(handed_over?)
}

/// Why a process may not take over.
fn objection(
    hello: &Hello,
    address: SocketAddr,
    cache_dir: Option<forebay_shm::DirId>,
) -> Option<String> {
    if hello.version != VERSION {
        return Some(format!(
            "upgrades between these versions are not possible ({VERSION} and {}): stop this server \
             and start the new one",
            hello.version
        ));
    }
    if hello.listen != address {
        return Some(format!("this server listens on {address}, not on {}", hello.listen));
    }
    let is_same = match (hello.cache_dir, cache_dir) {
        (CacheDirId::None, None) => true,
        (CacheDirId::Is(its), Some(ours)) => its == ours,
        _ => false,
    };
    (!is_same).then(|| "this server has another `cache_dir`".to_owned())
}

async fn offer(
    control: &Control,
    (listener, estate): (&UnixListener, &Estate),
    stream: &UnixStream,
) -> io::Result<()> {
    let mut descriptors = vec![listener.as_fd(), estate.admin.as_fd()];
    descriptors.extend(control.guard.as_ref().map(AsFd::as_fd));
    descriptors.extend(estate.sockets.iter().map(AsFd::as_fd));
    let offer = Offer {
        has_guard: control.guard.is_some(),
        socket_count: u32::try_from(estate.sockets.len()).unwrap_or(u32::MAX),
        totals: control.upgrade_totals(),
    };
    say(stream, &Message::Offer(offer).encode(), &[]).await?;
    for piece in descriptors.chunks(UPGRADE_DESCRIPTORS_MAX) {
        let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        say(stream, &Message::Descriptors(count).encode(), piece).await?;
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

/// The next message, `None` if the other side closed instead. Descriptors that come with it are
/// not wanted, and the kernel closes them.
async fn receive(stream: &mut UnixStream) -> Result<Option<Message>, Failure> {
    let mut head = [0; HEAD_BYTES];
    let (first, rest) = head.split_at_mut(1);
    if stream.read(first).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(rest).await?;
    let (kind, length) = Message::head(head).ok_or(Failure::Garbled)?;
    let mut contents = vec![0; length];
    stream.read_exact(&mut contents).await?;
    Message::decode(kind, &contents).map(Some).ok_or(Failure::Garbled)
}
