//! The origins of the guarded sites. They fail in some runs, also in the middle of an answer.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::sleep;

use super::guarded::{FORBIDDEN, LIMITED_HOST, ROUTED_HOST, SIGNED_HOST, TUNNEL_HOST};
use super::in_progress::OWN;
use super::origin::receive;
use super::rng::Rng;
use super::run::Run;
use super::tunnels;
use super::wire::WireEnd;

/// The length of a long body: longer than the buffers of a connection.
const LONG_BYTES: usize = 120_000;

/// The end of an answer that has a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerFault {
    None,
    /// The connection ends before the answer.
    NoHead {
        is_reset: bool,
    },
    /// The answer is a 503.
    Busy,
    /// The connection ends before the body.
    Short,
    /// The connection ends after a chunk.
    ChunkedShort,
    /// The second chunk has no valid size.
    BadChunk,
}

impl AnswerFault {
    fn of(rng: &mut Rng, percent: u64) -> AnswerFault {
        use AnswerFault::{BadChunk, Busy, ChunkedShort, NoHead, Short};
        match rng.percent(percent) {
            false => AnswerFault::None,
            true => rng.pick(&[
                NoHead { is_reset: false },
                NoHead { is_reset: true },
                Busy,
                Short,
                ChunkedShort,
                BadChunk,
            ]),
        }
    }
}

/// Answers the requests on a connection to the origin with this index.
pub(super) async fn connection(run: &Run, end: WireEnd, origin: u64) -> io::Result<()> {
    let (end, mut input) = (Rc::new(end), Vec::new());
    while let Some((request, Some(size))) = receive(run, &end, &mut input, true).await? {
        input.drain(..size);
        if host_is(&request, TUNNEL_HOST) {
            return tunnels::answer(run, &end, &request, input).await;
        }
        let (mut rng, _) = run.origin_request();
        let fault = AnswerFault::of(&mut rng, run.guarded.fault_percent);
        run.trace(&format!("guarded {origin} {} {fault:?}", request.method), &[]);
        let is_limited = host_is(&request, LIMITED_HOST);
        let address = request.head.field("x-forwarded-for").unwrap_or_default();
        let _in_progress = match is_limited && request.target.starts_with(OWN) {
            true => Some(run.guarded.in_progress.begin_exchange(run, address, &end).await),
            false => None,
        };
        check(run, &request);
        let delays_ms: &[u64] =
            if is_limited { &[0, 100, 800, 2_000, 5_000] } else { &[0, 0, 40, 400] };
        sleep(Duration::from_millis(rng.pick(delays_ms))).await;
        let is_long = is_limited && rng.percent(40);
        let answer = GuardedAnswer::to(run, &request, origin, is_long);
        let sending = answer.send(&end, &request, fault);
        let log = &run.guarded.in_progress;
        if !log.watch_answer(run, &request.target, sending).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Checks that a request has a right to its page.
fn check(run: &Run, request: &Request) {
    if let Some(right) = request.head.field(FORBIDDEN) {
        run.fail(format!("a request without a right ({right}) reached the origin"));
    }
    if host_is(request, SIGNED_HOST) && request.target.contains("signature=") {
        run.fail(format!("the origin got a signature: {}", request.target));
    }
}

fn host_is(request: &Request, host: &str) -> bool {
    request.head.field("host") == Some(host)
}

/// An answer: the fields of its head, and its body.
struct GuardedAnswer {
    status: &'static str,
    fields: String,
    body: Vec<u8>,
}

impl GuardedAnswer {
    fn to(run: &Run, request: &Request, origin: u64, is_long: bool) -> GuardedAnswer {
        let page = request.target.split('?').next().unwrap_or_default();
        let mut fields = format!("X-Origin: {origin}\r\nX-Page: {page}\r\n");
        fields += match request.target.starts_with(OWN) {
            true => "Cache-Control: no-store\r\n",
            false => "Cache-Control: max-age=3, stale-while-revalidate=2\r\n",
        };
        let mut status = "200 OK";
        if host_is(request, ROUTED_HOST) {
            let mut versions = run.guarded.versions.borrow_mut();
            let versions = versions.entry(page.to_owned()).or_default();
            versions.current += u64::from(matches!(request.method.as_str(), "POST" | "PUT"));
            fields += &format!("X-Version: {}\r\n", versions.current);
        } else if host_is(request, SIGNED_HOST) {
            fields += "ETag: \"page\"\r\n";
            let tags = request.head.field("if-none-match").unwrap_or_default();
            if tags == "*" || tags.contains("\"page\"") {
                status = "304 Not Modified";
            }
        }
        let unit = format!("[{page} of {origin}]");
        let count = if is_long { LONG_BYTES / unit.len() } else { 1 };
        GuardedAnswer { status, fields, body: unit.into_bytes().repeat(count) }
    }

    /// Sends the answer; returns whether the connection can take another request.
    async fn send(&self, end: &WireEnd, request: &Request, fault: AnswerFault) -> io::Result<bool> {
        let GuardedAnswer { status, fields, body } = self;
        let length = body.len();
        let has_body = status.starts_with("200") && request.method != "HEAD";
        match fault {
            AnswerFault::NoHead { is_reset } => {
                if is_reset {
                    end.reset();
                }
                return Ok(false);
            }
            AnswerFault::Busy => {
                let head = "HTTP/1.1 503 x\r\nContent-Length: 0\r\nX-Origin: busy\r\n\r\n";
                end.write(head.as_bytes()).await?;
                return Ok(true);
            }
            AnswerFault::ChunkedShort | AnswerFault::BadChunk if has_body => {
                let head = format!("HTTP/1.1 {status}\r\n{fields}Transfer-Encoding: chunked\r\n");
                end.write(format!("{head}\r\n{length:x}\r\n").as_bytes()).await?;
                end.write(body).await?;
                let rest: &[u8] =
                    if fault == AnswerFault::BadChunk { b"\r\nzz\r\n" } else { b"\r\n" };
                end.write(rest).await?;
                return Ok(false);
            }
            _ => {}
        }
        let framing = match status.starts_with("304") {
            true => String::new(),
            false => format!("Content-Length: {length}\r\n"),
        };
        end.write(format!("HTTP/1.1 {status}\r\n{fields}{framing}\r\n").as_bytes()).await?;
        if fault == AnswerFault::Short {
            return Ok(false);
        }
        if has_body {
            end.write(body).await?;
        }
        Ok(true)
    }
}
