//! The simulated origin, and its faults.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::sleep;

use super::blame::Scope;
use super::flaps::OriginState;
use super::hints::ORIGIN_HINT;
use super::missed::FetchStart;
use super::origin_fault::OriginFault;
use super::paths::{
    ANSWERED_BUSY, ANSWERED_EARLY, CLOSED_UNANSWERED, CONFIRMED_NO_TAG, CUT_OF_SEVERAL,
    CUT_UNFRAMED,
};
use super::reply::{OriginReply, url_of};
use super::rng::Rng;
use super::run::Run;
use super::wire::{FIRST_PORT, GUARDED_PORT, PendingConnections, WireEnd};
use super::world::post_body;
use super::{attacked, guarded_origin};

/// How long the origin waits between the last bytes of a response that it cuts off and the reset,
/// in milliseconds.
const UNREAD_MS: u64 = 20;

/// Accepts connections until the task is aborted.
pub(super) async fn serve(run: Rc<Run>, queue: PendingConnections) {
    loop {
        let (end, from) = std::future::poll_fn(|cx| queue.poll_next(cx)).await;
        let guarded = from.port().checked_sub(GUARDED_PORT).map(u64::from);
        let origin = from.port().checked_sub(FIRST_PORT + 1).map(u64::from);
        let run = Rc::clone(&run);
        tokio::task::spawn_local(async move {
            let _watch = OriginTaskGuard(Rc::clone(&run));
            // An error means that the server or the origin has closed the connection. If the server
            // is just sending a request on it, the request is lost.
            if let Some(origin) = guarded {
                let _ = guarded_origin::connection(&run, end, origin).await;
                return;
            }
            let _ = connection(&run, end, origin).await;
            run.blame.note(Scope::Unsafe, run.now_ms());
        });
    }
}

/// Fails the run if the origin's task that owns this guard panics.
struct OriginTaskGuard(Rc<Run>);

impl Drop for OriginTaskGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the origin of the simulation panicked".into());
        }
    }
}

/// A response in progress, and the disturbance that its fault causes.
struct InProgress<'a> {
    run: &'a Run,
    url: Option<usize>,
    disturbance: Option<usize>,
}

impl<'a> InProgress<'a> {
    fn begin(run: &'a Run, request: &Request, fault: OriginFault) -> Self {
        let url = url_of(request);
        run.arriving.borrow_mut().extend(url);
        let scope = match fault {
            // If such bytes arrive after the next request was sent, the server takes them for the
            // response to that request.
            OriginFault::Unasked | OriginFault::TooLong => Some(Scope::Origin),
            _ => url.filter(|_| fault.is_harmful()).map(Scope::Url),
        };
        let disturbance = scope.map(|scope| run.blame.begin(scope));
        InProgress { run, url, disturbance }
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.disturbance {
            self.run.blame.end(number, self.run.now_ms());
        }
        let mut arriving = self.run.arriving.borrow_mut();
        if let Some(index) = arriving.iter().position(|url| Some(*url) == self.url) {
            arriving.swap_remove(index);
        }
    }
}

/// Answers the requests on a connection to an origin. If the site has several origins, `origin` is
/// the index of the origin that answers.
async fn connection(run: &Run, end: WireEnd, origin: Option<u64>) -> io::Result<()> {
    let mut input = Vec::new();
    while let Some((request, size)) = receive(run, &end, &mut input, false).await? {
        run.receipts.note(run, &request, origin.unwrap_or(0));
        let state = origin.map(|origin| run.scenario.origins.state(origin, run.now_ms()));
        match state {
            Some(OriginState::Refuses | OriginState::Resets) => {
                run.trace("origin resets", &[]);
                end.reset();
                return Ok(());
            }
            Some(OriginState::Closes) => {
                run.trace("origin closes", &[]);
                run.paths.count(CLOSED_UNANSWERED);
                return Ok(());
            }
            Some(OriginState::Slow(ms)) => sleep(Duration::from_millis(ms)).await,
            Some(OriginState::Up | OriginState::Busy | OriginState::BreaksBodies) | None => {}
        }
        let (mut rng, fault_percent) = run.origin_request();
        let fault = match state {
            _ if attacked::is_hostile(&request) => OriginFault::None,
            Some(OriginState::Busy) => OriginFault::Busy,
            Some(OriginState::BreaksBodies) => {
                run.paths.count(CUT_OF_SEVERAL);
                OriginFault::broken_body(&mut rng)
            }
            _ => OriginFault::of(&mut rng, fault_percent),
        };
        let ask = request.head.field("x-ask").unwrap_or_default();
        run.trace(&format!("origin {} {} {ask} {fault:?}", request.method, request.target), &[]);
        let is_early = size.is_none() && fault == OriginFault::EarlyAnswer;
        let (in_progress, start) = (InProgress::begin(run, &request, fault), run.fetch_start());
        if size.is_none() && !is_early {
            if fault == OriginFault::EarlyClose {
                return Ok(());
            }
            if request.head.has("expect") && rng.percent(70) {
                end.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
        }
        if is_early {
            run.paths.count(ANSWERED_EARLY);
            if !respond(run, &end, (&request, start), fault, rng.clone()).await? {
                return Ok(());
            }
            // After an early response, the origin may close the connection.
            if rng.percent(30) {
                return Ok(());
            }
        }
        let Some((request, Some(size))) = receive(run, &end, &mut input, true).await? else {
            return Ok(());
        };
        input.drain(..size - attacked::unread_bytes(run, &request));
        check_request(run, &request);
        if !is_early && !respond(run, &end, (&request, start), fault, rng).await? {
            return Ok(());
        }
        drop(in_progress);
        if let OriginFault::IdleReset(ms) = fault {
            sleep(Duration::from_millis(ms)).await;
            end.reset();
            return Ok(());
        }
    }
    Ok(())
}

/// Waits for the next request, and returns it as soon as its head has arrived; with `is_whole`,
/// only once all of it has arrived. If all of it has arrived, also returns its size.
pub(super) async fn receive(
    run: &Run,
    end: &WireEnd,
    input: &mut Vec<u8>,
    is_whole: bool,
) -> io::Result<Option<(Request, Option<usize>)>> {
    loop {
        match Request::parse(input) {
            Ok(Some((request, size))) if size.is_some() || !is_whole => {
                return Ok(Some((request, size)));
            }
            Ok(_) => {}
            Err(error) => {
                run.fail(format!("the origin got a bad request: {error}"));
                return Ok(None);
            }
        }
        let bytes = end.read().await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        input.extend_from_slice(&bytes);
    }
}

/// Checks that a whole request is, byte for byte, a request that some client sent.
fn check_request(run: &Run, request: &Request) {
    if !request.faults.is_empty() {
        run.fail(format!("the origin got a request with faults: {:?}", request.faults));
    }
    if attacked::is_hostile(request) {
        return;
    }
    let number = |name| request.head.field(name).and_then(|text| text.parse::<u64>().ok());
    let expected = match (number("x-act"), number("x-body-bytes")) {
        (Some(act), Some(bytes)) => post_body(act, bytes as usize),
        _ => Vec::new(),
    };
    if request.body != expected {
        let at = expected.iter().zip(&request.body).take_while(|(left, right)| left == right);
        let (count, target) = (request.body.len(), &request.target);
        let at = at.count();
        run.fail(format!("the origin got {count} bytes for {target}, wrong from byte {at} on"));
    }
}

/// Sends the response to a request. Returns whether the connection can take another request.
async fn respond(
    run: &Run,
    end: &WireEnd,
    (request, start): (&Request, FetchStart),
    fault: OriginFault,
    mut rng: Rng,
) -> io::Result<bool> {
    if attacked::respond(run, end, request).await? {
        return Ok(true);
    }
    if !matches!(fault, OriginFault::NoHead { .. } | OriginFault::Busy) {
        run.receipts.answered(request);
    }
    if fault == OriginFault::Missing {
        let mut answer = OriginReply::missing();
        let reply = run.ideal.reply(request, &mut answer, start);
        end.write(answer.head.as_bytes()).await?;
        run.ideal.take(&request.method, reply, end.arrival());
        return Ok(true);
    }
    if let Some(goes_on) = respond_instead(run, end, request, fault, &mut rng).await? {
        return Ok(goes_on);
    }
    let Some(mut answer) = OriginReply::to(run, request) else {
        run.fail(format!("the origin got an unexpected {} {}", request.method, request.target));
        return Ok(false);
    };
    let tags = request.head.field("if-none-match");
    if tags.is_some_and(|tags| tags.contains(", ")) && rng.percent(15) {
        run.paths.count(CONFIRMED_NO_TAG);
        answer.confirm_no_tag();
        end.write(answer.head.as_bytes()).await?;
        return Ok(true);
    }
    let reply = run.ideal.reply(request, &mut answer, start);
    if let OriginFault::Unframed { cut } = fault
        && !answer.body.is_empty()
    {
        answer.unframe();
        let goes_on = send_unframed(run, end, &answer, cut).await?;
        if cut.is_none() {
            run.ideal.take(&request.method, reply, end.arrival());
        }
        return Ok(goes_on);
    }
    end.write(answer.head.as_bytes()).await?;
    if fault == OriginFault::BadChunk && answer.is_chunked && !answer.body.is_empty() {
        answer.send(end, &answer.body[..2]).await?;
        let sizes = ["zz", "", "-1", "8000000000000000", "ffffffffffffffffff", "3 3"];
        let size = rng.pick(&sizes);
        end.write(format!("{size}\r\n").as_bytes()).await?;
        // A faulty server might accept 2^63 as a chunk size, and pass on the bytes that follow.
        let is_size = size.starts_with('8');
        end.write(if is_size { &answer.body[2..5] } else { b"abc\r\n" }).await?;
        return Ok(false);
    }
    let is_whole = send_body(end, &answer, fault).await?;
    if is_whole {
        run.ideal.take(&request.method, reply, end.arrival());
    }
    let unasked: &[u8] = match fault {
        OriginFault::Unasked => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfoe",
        OriginFault::TooLong => b"foe",
        _ => b"",
    };
    if !unasked.is_empty() {
        run.blame.note(Scope::Unsafe, run.now_ms());
        end.write(unasked).await?;
    }
    Ok(is_whole)
}

/// Sends the bytes that a fault puts in place of the response, or before the response. If they
/// replace the response, returns whether the connection can take another request; otherwise returns
/// `None`.
async fn respond_instead(
    run: &Run,
    end: &WireEnd,
    request: &Request,
    fault: OriginFault,
    rng: &mut Rng,
) -> io::Result<Option<bool>> {
    match fault {
        OriginFault::Late(ms) => sleep(Duration::from_millis(ms)).await,
        OriginFault::NoHead { is_reset } => {
            if is_reset {
                end.reset();
            }
            return Ok(Some(false));
        }
        OriginFault::Busy => {
            run.paths.count(ANSWERED_BUSY);
            // A request gets this answer if it must not be repeated, or if the server leaves the
            // other origins out because of their own faults.
            let is_final = run.has_ejections();
            let url = url_of(request).filter(|_| is_final);
            run.blame.note(url.map_or(Scope::Unsafe, Scope::Url), run.now_ms());
            end.write(b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").await?;
            return Ok(Some(true));
        }
        OriginFault::Error => {
            end.write(b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nbusy").await?;
            return Ok(Some(true));
        }
        OriginFault::Garbage => {
            let garbage = [
                "HTTP/1.1 20x\r\n\r\n",
                "\0\0\0\0\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\
                Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            ];
            end.write(rng.pick(&garbage).as_bytes()).await?;
            return Ok(Some(false));
        }
        OriginFault::UnaskedNotModified if !request.head.has("if-none-match") => {
            end.write(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n").await?;
            return Ok(Some(false));
        }
        OriginFault::UnaskedPart if !request.head.has("range") => {
            let head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/9";
            end.write(format!("{head}\r\nContent-Length: 3\r\n\r\nabc").as_bytes()).await?;
            return Ok(Some(false));
        }
        OriginFault::Interim => {
            let hint = url_of(request).map(|url| (url, run.now_ms()));
            run.origin_hints.borrow_mut().extend(hint);
            let head = format!("HTTP/1.1 103 Early Hints\r\nLink: {ORIGIN_HINT}\r\n\r\n");
            end.write(head.as_bytes()).await?;
        }
        _ => {}
    }
    Ok(None)
}

/// Sends a response whose body ends with the connection, or which a reset cuts off after `cut`
/// bytes. Returns false, because the connection cannot take another request.
async fn send_unframed(
    run: &Run,
    end: &WireEnd,
    answer: &OriginReply,
    cut: Option<usize>,
) -> io::Result<bool> {
    let bytes = cut.map_or(answer.body.len(), |bytes| bytes % answer.body.len());
    end.write(answer.head.as_bytes()).await?;
    end.write(&answer.body[..bytes]).await?;
    if cut.is_some() {
        run.paths.count(CUT_UNFRAMED);
        // A reset destroys bytes that have not been read yet, so the server gets time to read them.
        sleep(Duration::from_millis(UNREAD_MS)).await;
        end.reset();
    }
    Ok(false)
}

/// Sends the body of a response. Returns false if the fault cuts off the body, so that the
/// connection must end.
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
