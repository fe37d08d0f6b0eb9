//! Clients, and their checks of each response.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use forebay_testkit::Response;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answers::{ArrivedResponse, blame, judge};
use super::blame::FailedRequest;
use super::ideal::PendingRemoval;
use super::run::{REQUEST_MS_MAX, Run};
use super::scenario::{Act, ActKind, Ask, BreakOff, Reading};
use super::sending::SentRequest;
use super::wire::WireEnd;
use super::world::{URL_COUNT, tag_of};

/// The time within which the server must close the connection of a client that stops in the middle
/// of a head.
const SILENCE_MS_MAX: u64 = 15_000;

/// How long a client may be idle between two requests without losing its connection.
pub(super) const IDLE_MS: u64 = 900;

/// How long a client may pause without being too slow: a little less than `body_grace_ms`.
pub(super) const GRACE_MS: u64 = 7_500;

/// Plays the client of an act; does nothing for an act without a client.
pub(super) async fn play(run: &Run, act: &Act) {
    match &act.kind {
        ActKind::Session { worker, asks, is_pipelined, reading } => {
            let end = connect(run, act, *worker);
            let session = Session { run, end: &end, worker: *worker, act: act.number };
            session.play(asks, *is_pipelined, *reading).await;
        }
        ActKind::Purge { worker, url, is_soft, by_tag, spelling } => {
            let end = connect(run, act, *worker);
            let session = Session { run, end: &end, worker: *worker, act: act.number };
            session.purge((*url, spelling.query), *is_soft, *by_tag).await;
        }
        ActKind::Silence { worker, bytes } => {
            silence(run, &connect(run, act, *worker), *bytes).await
        }
        ActKind::Change { .. }
        | ActKind::PurgeAll { .. }
        | ActKind::ClockStep { .. }
        | ActKind::Reload { .. }
        | ActKind::Restart { .. }
        | ActKind::Exhaust { .. }
        | ActKind::Attack { .. }
        | ActKind::Visit { .. }
        | ActKind::Http2 { .. } => {}
    }
}

/// Opens the connection of the client of an act.
pub(super) fn connect(run: &Run, act: &Act, worker: usize) -> WireEnd {
    let number = act.number as u32;
    let from = SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 40_000));
    run.connect(worker, from, act.number)
}

/// The reading side of a client's connection.
struct Responses<'a> {
    run: &'a Run,
    end: &'a WireEnd,
    input: Vec<u8>,
    /// The number of responses that have arrived.
    count: usize,
    has_ended: bool,
    /// Whether a reset ended the connection. A reset may cut off the last response. That response
    /// is then incomplete, even if only the end of the connection would mark its end.
    is_reset: bool,
    reading: Reading,
    read_bytes: usize,
    /// The total time for which the client has paused.
    paused_ms: u64,
    /// The time by which the current request must have ended.
    deadline: Instant,
    /// The value of [`Run::pressure`] at the time when the connection was opened.
    pressure: u64,
}

/// The reason why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoResponse {
    /// The server ended the connection.
    Ended,
    /// The client ended the connection.
    ByClient,
}

impl<'a> Responses<'a> {
    fn new(run: &'a Run, end: &'a WireEnd, reading: Reading) -> Self {
        Responses {
            run,
            end,
            input: Vec::new(),
            count: 0,
            has_ended: false,
            is_reset: false,
            reading,
            read_bytes: 0,
            paused_ms: 0,
            deadline: deadline(),
            pressure: run.pressure(),
        }
    }

    /// Returns the next final response: the whole response, or the part of it that arrived.
    async fn next(&mut self, method: &str) -> Result<Response, NoResponse> {
        loop {
            let is_closed = self.has_ended && !self.is_reset;
            match Response::parse(&self.input, method, is_closed) {
                Ok(Some((response, Some(size)))) => {
                    self.count += 1;
                    self.input.drain(..size);
                    return Ok(response);
                }
                Ok(Some((response, None))) if self.has_ended => {
                    self.input.clear();
                    return Ok(response);
                }
                Ok(_) if self.has_ended => return Err(NoResponse::Ended),
                Ok(_) => {}
                Err(error) => {
                    self.run.fail(format!("a client got a bad response: {error}"));
                    return Err(NoResponse::ByClient);
                }
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), NoResponse> {
        match self.reading {
            Reading::Pause { bytes, ms } if self.read_bytes >= bytes => {
                self.reading = Reading::Eager;
                self.paused_ms += ms;
                self.deadline += Duration::from_millis(ms);
                sleep(Duration::from_millis(ms)).await;
            }
            Reading::Reset { bytes } if self.read_bytes >= bytes => {
                self.end.reset();
                return Err(NoResponse::ByClient);
            }
            _ => {}
        }
        match timeout_at(self.deadline, self.end.read()).await {
            Err(_) => {
                self.run.fail(format!("a request did not end within {REQUEST_MS_MAX} ms"));
                Err(NoResponse::ByClient)
            }
            Ok(Ok(bytes)) => {
                self.run.trace("client", &bytes);
                self.has_ended = bytes.is_empty();
                self.read_bytes += bytes.len();
                self.input.extend_from_slice(&bytes);
                Ok(())
            }
            Ok(Err(_)) => {
                self.run.trace("client reset", &[]);
                (self.has_ended, self.is_reset) = (true, true);
                Ok(())
            }
        }
    }

    /// Checks that no byte follows the last response: neither an unexpected body nor an unrequested
    /// response.
    async fn expect_end(&mut self) {
        self.deadline = deadline();
        while self.input.is_empty() && !self.has_ended {
            if self.read().await.is_err() {
                return;
            }
        }
        if !self.input.is_empty() {
            let text = String::from_utf8_lossy(&self.input[..self.input.len().min(200)]);
            self.run.fail(format!("bytes follow the last response: {text:?}"));
        }
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_millis(REQUEST_MS_MAX)
}

/// A client's connection during an act.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    pub(super) run: &'a Run,
    pub(super) end: &'a WireEnd,
    worker: usize,
    pub(super) act: u64,
}

impl Session<'_> {
    async fn play(&self, asks: &[Ask], is_pipelined: bool, reading: Reading) {
        let mut responses = Responses::new(self.run, self.end, reading);
        let together = if is_pipelined { asks.len() } else { 1 };
        for batch in asks.chunks(together.max(1)) {
            if !self.batch(batch, &mut responses).await {
                return;
            }
        }
        self.end.end();
        responses.expect_end().await;
    }

    /// Sends requests, and reads their responses at the same time. Returns whether the connection
    /// can take further requests.
    async fn batch(&self, asks: &[Ask], responses: &mut Responses<'_>) -> bool {
        let sent = RefCell::new(Vec::new());
        responses.deadline = deadline();
        let mut writing = pin!(async {
            for ask in asks {
                if !self.send(ask, &sent).await {
                    return;
                }
            }
        });
        let mut is_written = false;
        let goes_on = {
            let mut reading = pin!(self.answers(asks, responses, &sent));
            poll_fn(|cx| {
                is_written = is_written || writing.as_mut().poll(cx).is_ready();
                reading.as_mut().poll(cx)
            })
            .await
        };
        if !goes_on {
            return false;
        }
        if !is_written && timeout_at(responses.deadline, writing).await.is_err() {
            self.run.fail(format!("the server did not read a request within {REQUEST_MS_MAX} ms"));
            return false;
        }
        true
    }

    /// Reads a response to each request; returns whether the connection can take further requests.
    async fn answers(
        &self,
        asks: &[Ask],
        responses: &mut Responses<'_>,
        sent: &RefCell<Vec<SentRequest>>,
    ) -> bool {
        // A reset may also destroy responses to earlier requests.
        let resets = asks.iter().any(|ask| matches!(ask.break_off(), BreakOff::Reset(_)));
        for (index, ask) in asks.iter().enumerate() {
            responses.deadline = deadline();
            let answer = responses.next(ask.method()).await;
            let Some(mut asked) = sent.borrow().get(index).cloned() else {
                // The client was silent, so the server may close its connection.
                if answer.is_ok() {
                    self.run.fail("a response came before its request was sent".into());
                }
                return false;
            };
            let is_broken_off = ask.break_off() != BreakOff::Never || resets;
            let mut response = match answer {
                Err(NoResponse::ByClient) => return false,
                Err(NoResponse::Ended) => {
                    let may_be_lost = self.may_be_lost(responses);
                    if !is_broken_off && !may_be_lost && !self.may_end_idle(responses) {
                        blame(
                            self.run,
                            self.worker,
                            (&asks[index..], &asked),
                            (false, "a request got no response"),
                        );
                    }
                    return false;
                }
                Ok(response) => response,
            };
            // A worker that is killed cannot reset its connections, so its clients see an orderly
            // end of the stream.
            if response.ends_with_connection {
                response.is_whole &= !self.run.blame.was_restarted(self.worker, asked.began_ms);
            }
            let arrived = ArrivedResponse {
                worker: self.worker,
                is_broken_off,
                may_be_cut: self.may_be_cut(responses),
                sharing: &asks[index..],
            };
            judge(self.run, &arrived, &mut asked, &response);
            // The server may look up a pipelined request only now, after the previous response.
            if let (Some(next), Some(ask)) =
                (sent.borrow_mut().get_mut(index + 1), asks.get(index + 1))
            {
                next.reuse = next.reuse.take().and_then(|_| self.run.ideal.permitted(ask));
            }
            if !response.is_whole {
                return false;
            }
            if response.says_close() || ask.ends_connection() {
                responses.expect_end().await;
                return false;
            }
        }
        true
    }

    /// Whether the server may close the connection between two requests, because the client paused
    /// for too long, or because another connection needed the place of this one.
    fn may_end_idle(&self, responses: &Responses<'_>) -> bool {
        let may_be_displaced = responses.count > 0 && self.run.pressure() > responses.pressure;
        responses.paused_ms >= IDLE_MS || may_be_displaced
    }

    /// Whether the server may cut off the client, because the client paused for too long, or
    /// because the client occupied memory or a connection that the cache or another request needed.
    fn may_be_cut(&self, responses: &Responses<'_>) -> bool {
        responses.paused_ms >= GRACE_MS || self.run.pressure() > responses.pressure
    }

    /// Whether the reset that ended the connection may have destroyed a response that was cut off
    /// while the client paused.
    fn may_be_lost(&self, responses: &Responses<'_>) -> bool {
        responses.is_reset && responses.paused_ms > 0 && self.may_be_cut(responses)
    }

    async fn purge(&self, (url, query): (usize, &str), is_soft: bool, by_tag: bool) {
        let run = self.run;
        let (began_ms, worker) = (run.now_ms(), self.worker);
        let is_purged = |other: &usize| *other == url || by_tag && tag_of(*other) == tag_of(url);
        let purged = (0..URL_COUNT).filter(is_purged);
        let removals: Vec<_> = purged.clone().map(|url| run.ideal.remove(url, is_soft)).collect();
        let change = |url| (url, run.world.borrow_mut().change(url, began_ms));
        let versions: Vec<(usize, usize)> = purged.map(change).collect();
        let mut head = format!("PURGE /u{url}{query} HTTP/1.1\r\nHost: a.test\r\n");
        if is_soft {
            head += "Fastly-Soft-Purge: 1\r\n";
        }
        if by_tag {
            head += &format!("Surrogate-Key: {}\r\n", tag_of(url));
        }
        head += "\r\n";
        let mut responses = Responses::new(run, self.end, Reading::Eager);
        let answer = match timeout_at(responses.deadline, self.end.write(head.as_bytes())).await {
            // If the connection does not accept the request, there is no response to wait for.
            Ok(_) => responses.next("PURGE").await,
            Err(_) => return run.fail("the server did not read a PURGE request".into()),
        };
        // The origin takes no part in a purge, so no fault for a URL excuses a failed purge.
        let url = URL_COUNT;
        let failed = FailedRequest { url, worker, is_unsafe: false, has_begun: false, began_ms };
        match answer {
            Ok(response) if response.is_whole && matches!(response.status, 200 | 204 | 404) => {
                removals.iter().for_each(PendingRemoval::end);
                run.promise_all(versions, is_soft);
                self.end.end();
                responses.expect_end().await;
            }
            Ok(response) => {
                run.blame([failed], &format!("a PURGE request got {:?}", response.head))
            }
            Err(_) => run.blame([failed], "a PURGE request got no response"),
        }
    }
}

/// Sends a part of a head, then waits until the server ends the connection.
async fn silence(run: &Run, end: &WireEnd, bytes: usize) {
    let head = b"GET /u0 HTTP/1.1\r\nHost: a.test\r\nAccept: text/plain\r\n\r\n";
    let until_end = async {
        let _ = end.write(&head[..bytes.min(head.len() - 1)]).await;
        while let Ok(bytes) = end.read().await {
            if bytes.is_empty() {
                break;
            }
        }
    };
    if timeout(Duration::from_millis(SILENCE_MS_MAX), until_end).await.is_err() {
        run.fail(format!(
            "the connection of a silent client was still open after {SILENCE_MS_MAX} ms"
        ));
    }
}
