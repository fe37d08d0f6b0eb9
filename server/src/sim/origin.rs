//! Origins, and their faults.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::sleep;

use super::rng::Rng;
use super::run::Run;
use super::wire::{PendingConnections, WireEnd};
use super::world::{Content, LANGUAGES, URL_COUNT, kind_of, tag_of};

/// The fault of one response; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginFault {
    None,
    /// The head comes late.
    Late(u64),
    /// The connection ends before the head.
    NoHead {
        is_reset: bool,
    },
    Error,
    /// The body ends early, after so many bytes.
    Short {
        is_reset: bool,
        bytes: usize,
    },
    /// The body stops after so many bytes.
    Stall {
        bytes: usize,
        ms: u64,
    },
    /// The body comes in small pieces.
    Drip {
        ms: u64,
    },
    /// The bytes are no response.
    Garbage,
    /// Something follows the response.
    Unasked,
}

impl OriginFault {
    fn of(rng: &mut Rng, percent: u64) -> OriginFault {
        if !rng.percent(percent) {
            return OriginFault::None;
        }
        match rng.below(9) {
            0 => OriginFault::Late(rng.between(1, 5_000)),
            1 => OriginFault::NoHead { is_reset: rng.percent(50) },
            2 => OriginFault::Error,
            3 | 4 => {
                let bytes = rng.between(0, 150_000) as usize;
                OriginFault::Short { is_reset: rng.percent(50), bytes }
            }
            5 => OriginFault::Stall {
                bytes: rng.between(0, 100_000) as usize,
                ms: rng.between(1, 5_000),
            },
            6 => OriginFault::Drip { ms: rng.between(1, 300) },
            7 => OriginFault::Garbage,
            _ => OriginFault::Unasked,
        }
    }
}

/// Accepts connections for as long as the run lasts.
pub(super) async fn serve(run: Rc<Run>, queue: PendingConnections) {
    loop {
        let (end, _) = std::future::poll_fn(|cx| queue.poll_next(cx)).await;
        let run = Rc::clone(&run);
        tokio::task::spawn_local(async move {
            // One of the two sides has ended the connection.
            let _ = connection(&run, end).await;
        });
    }
}

async fn connection(run: &Run, end: WireEnd) -> io::Result<()> {
    let mut input = Vec::new();
    loop {
        let (request, size) = loop {
            match Request::parse(&input) {
                Ok(Some((request, Some(size)))) => break (request, size),
                Ok(_) => {}
                Err(error) => {
                    run.fail(format!("the origin got a bad request: {error}"));
                    return Ok(());
                }
            }
            let bytes = end.read().await?;
            if bytes.is_empty() {
                return Ok(());
            }
            input.extend_from_slice(&bytes);
        };
        input.drain(..size);
        if !request.faults.is_empty() {
            run.fail(format!("the origin got {:?}", request.faults));
        }
        if !respond(run, &end, &request).await? {
            return Ok(());
        }
    }
}

/// Sends a response; whether the connection takes another request.
async fn respond(run: &Run, end: &WireEnd, request: &Request) -> io::Result<bool> {
    let (mut rng, fault_percent) = run.origin_request();
    let fault = OriginFault::of(&mut rng, fault_percent);
    run.trace(&format!("origin {} {} {fault:?}", request.method, request.target), &[]);
    match fault {
        OriginFault::Late(ms) => sleep(Duration::from_millis(ms)).await,
        OriginFault::NoHead { is_reset } => {
            if is_reset {
                end.reset();
            }
            return Ok(false);
        }
        OriginFault::Error => {
            end.write(b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nbusy").await?;
            return Ok(true);
        }
        OriginFault::Garbage => {
            let garbage = [
                "HTTP/1.1 20x\r\n\r\n",
                "\0\0\0\0\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\
                Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            ];
            end.write(rng.pick(&garbage).as_bytes()).await?;
            return Ok(false);
        }
        _ => {}
    }
    let Some(answer) = OriginReply::to(run, request) else {
        run.fail(format!("the origin got {} {}", request.method, request.target));
        return Ok(false);
    };
    end.write(answer.head.as_bytes()).await?;
    let is_whole = send_body(end, &answer, fault).await?;
    if fault == OriginFault::Unasked {
        end.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfoe").await?;
    }
    Ok(is_whole)
}

/// Sends the body; no, if the connection must end, as it is not whole.
async fn send_body(end: &WireEnd, answer: &OriginReply, fault: OriginFault) -> io::Result<bool> {
    let piece_bytes = match fault {
        OriginFault::Drip { .. } => answer.body.len() / 10 + 1,
        _ => 16 * 1024,
    };
    let mut sent = 0;
    for piece in answer.body.chunks(piece_bytes) {
        match fault {
            OriginFault::Drip { ms } => sleep(Duration::from_millis(ms)).await,
            OriginFault::Stall { bytes, ms } if (sent..sent + piece.len()).contains(&bytes) => {
                sleep(Duration::from_millis(ms)).await;
            }
            OriginFault::Short { is_reset, bytes }
                if (sent..sent + piece.len()).contains(&bytes) =>
            {
                answer.send(end, &piece[..bytes - sent]).await?;
                if is_reset {
                    end.reset();
                }
                return Ok(false);
            }
            _ => {}
        }
        answer.send(end, piece).await?;
        sent += piece.len();
    }
    if answer.is_chunked {
        end.write(b"0\r\n\r\n").await?;
    }
    Ok(true)
}

/// A response as it is sent.
struct OriginReply {
    head: String,
    body: Vec<u8>,
    is_chunked: bool,
}

impl OriginReply {
    async fn send(&self, end: &WireEnd, piece: &[u8]) -> io::Result<()> {
        if self.is_chunked && !piece.is_empty() {
            end.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            end.write(piece).await?;
            return end.write(b"\r\n").await;
        }
        end.write(piece).await
    }

    /// The response to a request, with the version of this moment.
    fn to(run: &Run, request: &Request) -> Option<OriginReply> {
        let url = request.target.strip_prefix("/u")?.parse().ok().filter(|url| *url < URL_COUNT)?;
        let kind = kind_of(url);
        let now_ms = run.now_ms();
        let mut world = run.world.borrow_mut();
        let version = match request.method.as_str() {
            "POST" => world.change(url, now_ms),
            "GET" | "HEAD" => world.version(url),
            _ => return None,
        };
        let asked = request.head.field("accept-language").unwrap_or_default();
        let language = LANGUAGES.iter().find(|language| kind.varies && **language == asked);
        let content = Content { url, version, language: language.copied().unwrap_or_default() };
        let (language, tag) = (content.language, tag_of(url));
        let mut head =
            format!("X-Version: {version}\r\nX-Language: {language}\r\nSurrogate-Key: {tag}\r\n");
        match kind.fresh_s {
            Some(seconds) => head += &format!("Cache-Control: max-age={seconds}\r\n"),
            None => head += "Cache-Control: no-store\r\n",
        }
        if kind.has_etag {
            head += &format!("ETag: {}\r\n", content.etag());
        }
        if kind.varies {
            head += "Vary: Accept-Language\r\n";
        }
        if request.method == "POST" {
            head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
            return Some(OriginReply { head, body: Vec::new(), is_chunked: false });
        }
        let is_current = |field| request.head.field(field) == Some(content.etag().as_str());
        if kind.has_etag && is_current("if-none-match") {
            head = format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n");
            return Some(OriginReply { head, body: Vec::new(), is_chunked: false });
        }
        let mut body = content.body();
        let range = request.head.field("range").filter(|_| is_current("if-range"));
        let (mut status, mut is_chunked) = ("200 OK", kind.is_chunked);
        if let Some((first, last)) = range.and_then(|range| range_of(range, body.len())) {
            head += &format!("Content-Range: bytes {first}-{last}/{}\r\n", body.len());
            body = body[first..=last].to_vec();
            (status, is_chunked) = ("206 Partial Content", false);
        }
        head += &match is_chunked {
            true => "Transfer-Encoding: chunked\r\n".to_owned(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        if request.method == "HEAD" {
            (body, is_chunked) = (Vec::new(), false);
        }
        Some(OriginReply { head: format!("HTTP/1.1 {status}\r\n{head}\r\n"), body, is_chunked })
    }
}

/// The only kind of range that a cache asks for.
fn range_of(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let last: usize = if last.is_empty() { length.checked_sub(1)? } else { last.parse().ok()? };
    let (first, last) = (first.parse::<usize>().ok()?, last.min(length.checked_sub(1)?));
    (first <= last).then_some((first, last))
}
