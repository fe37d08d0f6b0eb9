//! Hostile clients, from one network or from several. They stop by themselves. Their actions do not
//! excuse the failure of another client's request.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::paths::TOO_LONG_CHUNK;
use super::rng::Rng;
use super::run::Run;
use super::wire::WireEnd;
use super::{beside, http2_attack, poison};

/// The number of hostile clients in an attack. There are so many that another client would not get
/// a connection to the origin in time if it had to wait behind all of them.
const CLIENT_COUNT: u64 = 300;

/// The largest number of connections of a worker: enough for the clients of an attack and for those
/// of all other acts.
pub(super) const CONNECTIONS_MAX: u64 = 450;

/// The number of hostile clients with idle connections: more than a worker accepts.
const IDLE_COUNT: u64 = CONNECTIONS_MAX + 150;

/// The number of clients that request [`OWN`] or [`UNSTORABLE`]: few enough for all of them to have
/// a connection to the origin at the same time.
const OWN_COUNT: u64 = 40;

/// The largest number of fetches of one network that may be in progress after their clients have
/// left.
pub(super) const ABANDONED_MAX: usize = 8;

/// The largest number of connections to the origin in a run with an attack.
pub(super) const ORIGIN_CONNECTIONS: u32 = 64;

/// The longest time that a request waits for a connection to the origin in a run with an attack. A
/// slow client loses its connection to the origin after about a second.
pub(super) const ORIGIN_WAIT_MS: u64 = 4_000;

/// How long an attack lasts, unless the server ends the connections earlier.
pub(super) const ATTACK_MS: u64 = 15_000;

/// The prefix of the targets that only hostile clients request. Unless a constant below says
/// otherwise, the origin answers them late, and its answers must not be stored.
pub(super) const TARGET: &str = "/attack";

/// The path prefix of a route below [`TARGET`]. The responses of this route must not be stored,
/// although the origin permits it.
pub(super) const CLOSED: &str = "/attack/closed";

/// Spellings of a path below [`CLOSED`]. Each of them is resolved to that path by some origins.
pub(super) const CLOSED_SPELLINGS: &[&str] =
    &["/attack//closed", "/attack/%63losed", "/attack/x/..%2fclosed", "/attack/closed;x", CLOSED];

/// The path prefix of a route below [`TARGET`] that permits content in GET requests. The origin
/// does not read such content, but parses it as the next request.
pub(super) const UNREAD: &str = "/attack/unread";

/// The prefix of the targets that have long responses, and whose clients leave before the end.
pub(super) const ABANDONED: &str = "/attack/abandoned";

/// A site that only hostile clients use; the prefix of the targets that they invalidate; and the
/// prefix of its long pages, which the origin sends slowly.
pub(super) const BUSY_HOST: &str = "busy.test";
pub(super) const POSTED: &str = "/attack/posted";
pub(super) const DRIPPED: &str = "/attack/dripped";

/// A site to which no client sends invalidations, and one of the site's pages.
pub(super) const QUIET_HOST: &str = "quiet.test";
pub(super) const QUIET: &str = "/attack/quiet";

/// Four pages of the quiet site. The origin sends `OWN` late to requests with Authorization.
/// `UNSTORABLE` must not be stored. The origin never responds to requests for `FAILING`. `OWN` and
/// `VARIED`, which has variants, may be stored.
pub(super) const OWN: &str = "/attack/own";
pub(super) const UNSTORABLE: &str = "/attack/unstorable";
pub(super) const FAILING: &str = "/attack/failing";
pub(super) const VARIED: &str = "/attack/varied";

/// The delay of the origin's late answers, in milliseconds.
pub(super) const LATE_MS: u64 = 2_000;

/// How long clients wait before they leave, in milliseconds.
const LEAVE_MS: u64 = 200;

/// Number of pipelined requests of a client that reads nothing.
const PIPELINED_COUNT: usize = 200;

/// The behaviour of all hostile clients of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    /// Send heads that never end, one byte at a time.
    Heads,
    /// Send uploads slowly.
    Uploads,
    /// Begin uploads, wait for a 100, and then send nothing.
    Continues,
    /// Send pipelined requests for a URL, and do not read the responses.
    Pipelines { url: usize },
    /// Send requests that the origin answers late, one after the other.
    Misses,
    /// Send requests with Authorization for a URL; the origin answers them late.
    Authorized { url: usize },
    /// Request spellings of a path that disguise its route.
    Paths,
    /// Send uploads whose first chunk has a size of 2^63 bytes, or one that exceeds every limit.
    Chunks,
    /// Keep idle connections open, more than a worker accepts.
    Idle,
    /// Request long responses, and leave before the end.
    Abandons,
    /// Request a URL with fields that are not in the key.
    Fields { url: usize },
    /// Send content with methods that give content no meaning.
    Contents,
    /// Invalidate pages of one site.
    Purges,
    /// Request long pages of one site, which its origin sends slowly.
    Drips,
    /// Send requests with Authorization for a page that the origin sends late to such clients, but
    /// without delay to clients without Authorization.
    Own,
    /// Request a page that cannot be stored, and that the origin sends late.
    Unstorable,
    /// Request a page whose origin fails.
    Failures,
    /// Request variants of a page, one of which another client uses.
    Variants,
    /// Send random frames of HTTP/2.
    Frames,
}

impl Attack {
    pub(super) fn of(rng: &mut Rng, url: usize) -> Attack {
        match rng.below(19) {
            0 => Attack::Heads,
            1 => Attack::Uploads,
            2 => Attack::Continues,
            3 => Attack::Pipelines { url },
            4 => Attack::Misses,
            5 => Attack::Paths,
            6 => Attack::Chunks,
            7 => Attack::Idle,
            8 => Attack::Abandons,
            9 => Attack::Fields { url },
            10 => Attack::Contents,
            11 => Attack::Purges,
            12 => Attack::Drips,
            13 => Attack::Own,
            14 => Attack::Failures,
            15 => Attack::Variants,
            16 => Attack::Unstorable,
            17 => Attack::Frames,
            _ => Attack::Authorized { url },
        }
    }

    fn client_count(self) -> u64 {
        match self {
            Attack::Idle => IDLE_COUNT,
            Attack::Own | Attack::Unstorable => OWN_COUNT,
            _ => CLIENT_COUNT,
        }
    }
}

/// Starts the hostile clients of an act, spread evenly over `network_count` networks.
pub(super) fn start(
    run: &Rc<Run>,
    act: u64,
    worker: usize,
    (attack, network_count): (Attack, u64),
) -> impl Iterator<Item = JoinHandle<()>> {
    (0..attack.client_count()).map(move |number| {
        let network = (number % network_count) as u8;
        let from = SocketAddr::from(([10, 9, network, 1], 40_000 + number as u16));
        // No two connections of a run get the same number, because there are far fewer than 2^32
        // acts, and far fewer than 2^32 clients in each of them.
        let end = run.connect(worker, from, (act + 1) << 32 | number);
        let run = Rc::clone(run);
        tokio::task::spawn_local(async move {
            let play = play(&run, &end, attack, number);
            // The server may end the connection at any time, so the result does not matter.
            let _ = timeout(Duration::from_millis(ATTACK_MS), play).await;
            end.reset();
        })
    })
}

async fn play(run: &Run, end: &WireEnd, attack: Attack, number: u64) -> Option<()> {
    match attack {
        Attack::Heads => {
            let head = format!("GET /u0 HTTP/1.1\r\nHost: a.test\r\nX-Long: {}", "x".repeat(100));
            drip(end, head.as_bytes()).await
        }
        Attack::Uploads => {
            let head = format!(
                "POST {TARGET} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n"
            );
            write(end, head.as_bytes()).await?;
            // The content is longer than the part that the server reads before the request takes a
            // connection to the origin.
            write(end, &vec![b'x'; 70_000]).await?;
            drip(end, &[b'x'; 100]).await
        }
        Attack::Continues => {
            let head = format!(
                "POST {TARGET} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\
                 Expect: 100-continue\r\n\r\n"
            );
            write(end, head.as_bytes()).await?;
            read_to_end(run, end).await
        }
        Attack::Pipelines { url } => {
            let request = format!("GET /u{url} HTTP/1.1\r\nHost: a.test\r\n\r\n");
            write(end, request.repeat(PIPELINED_COUNT).as_bytes()).await?;
            std::future::pending().await
        }
        Attack::Misses => loop {
            let target = format!("{TARGET}/{number}");
            let head = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
            write(end, head.as_bytes()).await?;
            read(run, end).await?;
        },
        Attack::Authorized { url } => {
            let head =
                format!("GET /u{url} HTTP/1.1\r\nHost: a.test\r\nAuthorization: {number}\r\n\r\n");
            write(end, head.as_bytes()).await?;
            read_to_end(run, end).await
        }
        Attack::Chunks => chunks(run, end, number).await,
        Attack::Idle => read_to_end(run, end).await,
        Attack::Abandons => {
            let head = format!("GET {ABANDONED}/{number} HTTP/1.1\r\nHost: a.test\r\n\r\n");
            write(end, head.as_bytes()).await?;
            sleep(Duration::from_millis(LEAVE_MS)).await;
            Some(())
        }
        Attack::Paths => poison::paths(run, end, number).await,
        Attack::Fields { url } => poison::fields(run, end, url, number).await,
        Attack::Contents => poison::contents(run, end, number).await,
        Attack::Purges => beside::purges(run, end, number).await,
        Attack::Drips => beside::drips(run, end, number).await,
        Attack::Own => beside::own(run, end, number).await,
        Attack::Unstorable => beside::unstorable(run, end).await,
        Attack::Failures => beside::failures(run, end).await,
        Attack::Variants => beside::variants(run, end, number).await,
        Attack::Frames => http2_attack::frames(run, end, number).await,
    }
}

/// Announces a chunk whose size no server accepts, and checks that the server refuses it.
async fn chunks(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    let (size, status) = match number % 2 {
        0 => ("8000000000000000", "400"),
        _ => ("7fffffffffff", "413"),
    };
    let head = format!(
        "POST {TARGET} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n\
         {size}\r\n"
    );
    write(end, head.as_bytes()).await?;
    let head = read_head(run, end).await?;
    run.paths.count(TOO_LONG_CHUNK);
    if !head.starts_with(&format!("HTTP/1.1 {status}")) {
        run.fail(format!("a chunk of 0x{size} bytes was answered with {head}"));
    }
    Some(())
}

pub(super) async fn write(end: &WireEnd, bytes: &[u8]) -> Option<()> {
    end.write(bytes).await.ok()
}

/// Sends the bytes slowly, a few per second.
async fn drip(end: &WireEnd, bytes: &[u8]) -> Option<()> {
    for piece in bytes.chunks(2) {
        write(end, piece).await?;
        sleep(Duration::from_millis(400)).await;
    }
    Some(())
}

/// Reads once; returns `None` at the end of the connection.
async fn read(run: &Run, end: &WireEnd) -> Option<Vec<u8>> {
    let bytes = end.read().await.ok().filter(|bytes| !bytes.is_empty())?;
    run.trace("hostile", &bytes);
    Some(bytes)
}

/// Reads until a whole head has arrived, perhaps with a part of its body.
pub(super) async fn read_head(run: &Run, end: &WireEnd) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        bytes.extend(read(run, end).await?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) async fn read_to_end(run: &Run, end: &WireEnd) -> Option<()> {
    loop {
        read(run, end).await?;
    }
}
