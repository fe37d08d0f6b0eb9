//! Clients of a site that limits the requests in progress, and the log of these requests. The run
//! fails if the origin has more requests in progress than the limits permit, if a request is
//! refused although the limits were not reached, if a request that has ended still counts, and if
//! an answer is not ended soon whose client has left.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_testkit::Response;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::guarded::{GuardedClient, IN_PROGRESS_MAX, LIMITED_HOST};
use super::guarded_http2::GuardedStreams;
use super::paths::{LEFT_IN_PROGRESS, LIMITED_ADDRESS, LIMITED_ROUTE, RESET_IN_PROGRESS};
use super::rng::Rng;
use super::run::Run;
use super::wire::WireEnd;

/// The prefix of pages that are not stored, so that each request in progress is in progress at the
/// origin too.
pub(super) const OWN: &str = "/own/";

/// How long a request may count after its client has left: the server may notice only when the
/// origin answers or is too slow.
const LEFT_MS: u64 = 10_000;

/// The time within which the end of a request must have reached the origin.
const END_MS: u64 = 1;

/// How long the origin may send an answer that no client waits for: until the server has read as
/// much of it as it holds for a client, and notices that the client has left.
const UNWANTED_MS: u64 = 1_000;

/// Starts several clients with one address, each on its own connection.
pub(super) fn start(run: &Rc<Run>, act: u64, mut rng: Rng) -> Vec<JoinHandle<()>> {
    let from = SocketAddr::from(([10, 8, 2, rng.below(3) as u8], 40_000));
    let clients = (0..rng.between(3, 9)).map(|number| {
        let worker = rng.below(run.scenario.worker_count as u64) as usize;
        let (run, rng) = (Rc::clone(run), Rng::of(&[rng.next()]));
        tokio::task::spawn_local(async move {
            client(&run, worker, from, (act, number), rng).await;
        })
    });
    clients.collect()
}

async fn client(
    run: &Run,
    worker: usize,
    from: SocketAddr,
    (act, number): (u64, u64),
    mut rng: Rng,
) {
    sleep(Duration::from_millis(rng.below(300))).await;
    let mut connection = GuardedConnection::open(run, worker, from, (act, number), rng.percent(50));
    for request in 0..rng.between(1, 4) {
        let target = match rng.percent(25) {
            true => format!("/shared{}", rng.below(2)),
            false => format!("{OWN}{act}-{number}-{request}"),
        };
        connection.set_pause(rng.pick(&[0, 0, 0, 500, 3_000]));
        let leaves_ms = if rng.percent(20) { rng.below(2_500) } else { u64::from(u32::MAX) };
        let log = &run.guarded.in_progress;
        let index = log.begin(from, run.now_ms());
        let exchange = connection.get(&target);
        let Ok(answered) = timeout(Duration::from_millis(leaves_ms), exchange).await else {
            connection.leave(run, rng.percent(50)).await;
            log.leave(index, run.now_ms());
            log.note_left(target, run.now_ms());
            if connection.is_usable() {
                continue;
            }
            return;
        };
        let Some(response) = answered else {
            log.leave(index, run.now_ms());
            if connection.is_usable() {
                continue;
            }
            return;
        };
        log.end(index, run.now_ms());
        check(run, index, &response);
        if response.says_close() || !connection.is_usable() {
            return;
        }
    }
}

/// A client of the limited site.
enum GuardedConnection<'a> {
    Http1 {
        connection: GuardedClient<'a>,
        /// Whether the client has reset the connection, or the server has ended it.
        is_over: bool,
    },
    Http2(Box<GuardedStreams<'a>>),
}

impl<'a> GuardedConnection<'a> {
    fn open(
        run: &'a Run,
        worker: usize,
        from: SocketAddr,
        number: (u64, u64),
        is_http2: bool,
    ) -> GuardedConnection<'a> {
        match is_http2 {
            true => {
                let connection = GuardedStreams::open(run, worker, from, number);
                GuardedConnection::Http2(Box::new(connection))
            }
            false => {
                let connection = GuardedClient::open(run, worker, from, number);
                GuardedConnection::Http1 { connection, is_over: false }
            }
        }
    }

    fn set_pause(&mut self, pause_ms: u64) {
        match self {
            GuardedConnection::Http1 { connection, .. } => connection.pause_ms = pause_ms,
            GuardedConnection::Http2(connection) => connection.pause_ms = pause_ms,
        }
    }

    /// Requests a page; returns the response if all of it arrives.
    async fn get(&mut self, target: &str) -> Option<Response> {
        match self {
            GuardedConnection::Http1 { connection, is_over } => {
                let text = format!("GET {target} HTTP/1.1\r\nHost: {LIMITED_HOST}\r\n\r\n");
                let response = connection.exchange("GET", &text).await;
                *is_over |= response.is_none();
                response
            }
            GuardedConnection::Http2(connection) => connection.get(LIMITED_HOST, target).await,
        }
    }

    /// Ends the request: resets its stream or, without streams or with `ends_connection`, the
    /// connection. Returns once the server knows.
    async fn leave(&mut self, run: &Run, ends_connection: bool) {
        run.paths.count(LEFT_IN_PROGRESS);
        match self {
            GuardedConnection::Http1 { connection, is_over } => {
                connection.reset();
                *is_over = true;
            }
            GuardedConnection::Http2(connection) if ends_connection => connection.leave(),
            GuardedConnection::Http2(connection) => {
                run.paths.count(RESET_IN_PROGRESS);
                connection.cancel().await;
            }
        }
    }

    /// Whether the connection takes further requests.
    fn is_usable(&self) -> bool {
        match self {
            GuardedConnection::Http1 { is_over, .. } => !is_over,
            GuardedConnection::Http2(connection) => connection.is_usable(),
        }
    }
}

fn check(run: &Run, index: usize, response: &Response) {
    let log = &run.guarded.in_progress;
    let (of_address, of_route) = IN_PROGRESS_MAX;
    let is_limited = response.field("x-origin").is_none() && response.head.has("retry-after");
    let (path, is_permitted) = match response.status {
        429 => (LIMITED_ADDRESS, log.beside(index, true) >= of_address),
        503 if is_limited => (LIMITED_ROUTE, log.beside(index, false) >= of_route),
        200 | 502..=504 => return,
        status => return run.fail(format!("a request of a limited site got status {status}")),
    };
    log.refused.update(|count| count + 1);
    run.paths.count(path);
    if !is_permitted {
        run.fail(format!("a request got {} although no limit was reached", response.status));
    }
}

/// The requests of the limited site, as their clients and their origin see them.
#[derive(Default)]
pub(super) struct InProgressLog {
    requests: RefCell<Vec<LimitedRequest>>,
    /// The requests that the origin is answering: the address of each client, and the connection.
    exchanges: RefCell<Vec<(String, Rc<WireEnd>)>>,
    /// The number of requests that were refused because of a limit.
    refused: Cell<u64>,
    /// The number of requests whose clients got no response.
    unanswered: Cell<u64>,
    /// The pages whose clients have left, and the times at which the server knew.
    left_ms: RefCell<BTreeMap<String, u64>>,
}

/// A request, and the times between which it may count against the limits.
struct LimitedRequest {
    from: SocketAddr,
    began_ms: u64,
    ended_ms: u64,
}

impl InProgressLog {
    fn begin(&self, from: SocketAddr, now_ms: u64) -> usize {
        let mut requests = self.requests.borrow_mut();
        requests.push(LimitedRequest { from, began_ms: now_ms, ended_ms: u64::MAX });
        requests.len() - 1
    }

    fn end(&self, index: usize, now_ms: u64) {
        self.requests.borrow_mut()[index].ended_ms = now_ms;
    }

    fn leave(&self, index: usize, now_ms: u64) {
        self.unanswered.update(|count| count + 1);
        self.end(index, now_ms + LEFT_MS);
    }

    /// Records that the only client of a page has left.
    fn note_left(&self, page: String, now_ms: u64) {
        if page.starts_with(OWN) {
            self.left_ms.borrow_mut().insert(page, now_ms);
        }
    }

    /// Sends the answer to a request for a page. The run fails if the server takes the answer
    /// neither completely nor ends the connection although the client has left.
    pub(super) async fn watch_answer<T>(
        &self,
        run: &Run,
        page: &str,
        sending: impl Future<Output = T>,
    ) -> T {
        let mut sending = pin!(sending);
        loop {
            let began_ms = run.now_ms();
            let turn = timeout(Duration::from_millis(UNWANTED_MS), sending.as_mut());
            if let Ok(sent) = turn.await {
                return sent;
            }
            if self.left_ms.borrow().get(page).is_some_and(|left_ms| *left_ms <= began_ms) {
                run.fail(format!("the answer for {page} goes on although its client has left"));
            }
        }
    }

    /// Returns the number of other requests that may have been in progress at some moment of this
    /// request: those of its address, or of all addresses.
    fn beside(&self, index: usize, has_address: bool) -> usize {
        let requests = self.requests.borrow();
        let own = &requests[index];
        let is_beside = |(at, other): &(usize, &LimitedRequest)| {
            *at != index
                && (!has_address || other.from == own.from)
                && other.began_ms <= own.ended_ms
                && other.ended_ms >= own.began_ms
        };
        requests.iter().enumerate().filter(is_beside).count()
    }

    /// Checks that `counted`, the server's count of refused requests, is right.
    pub(super) fn check_refused(&self, run: &Run, counted: u64) {
        let (refused, unanswered) = (self.refused.get(), self.unanswered.get());
        if !(refused..=refused + unanswered).contains(&counted) {
            run.fail(format!(
                "the server counts {counted} requests as refused because of limits on requests in \
                 progress, but clients got {refused} such responses, and {unanswered} got none"
            ));
        }
    }

    /// Counts a request as in progress at the origin, until the returned guard is dropped or the
    /// server closes the connection. The run fails if there are too many of them.
    pub(super) async fn begin_exchange<'a>(
        &'a self,
        run: &Run,
        address: &str,
        end: &Rc<WireEnd>,
    ) -> ExchangeGuard<'a> {
        self.exchanges.borrow_mut().push((address.to_owned(), Rc::clone(end)));
        let guard = ExchangeGuard { log: self, end: Rc::clone(end) };
        if self.exceeds(address) {
            // The end of an earlier request may not have reached its connection yet.
            sleep(Duration::from_millis(END_MS)).await;
            if self.exceeds(address) {
                run.fail(format!("the origin has too many requests in progress of {address}"));
            }
        }
        guard
    }

    fn exceeds(&self, address: &str) -> bool {
        let mut exchanges = self.exchanges.borrow_mut();
        exchanges.retain(|(_, end)| !end.is_closed());
        let of_address = exchanges.iter().filter(|(other, _)| other == address).count();
        of_address > IN_PROGRESS_MAX.0 || exchanges.len() > IN_PROGRESS_MAX.1
    }
}

/// Counts a request as in progress at the origin until it is dropped.
pub(super) struct ExchangeGuard<'a> {
    log: &'a InProgressLog,
    end: Rc<WireEnd>,
}

impl Drop for ExchangeGuard<'_> {
    fn drop(&mut self) {
        self.log.exchanges.borrow_mut().retain(|(_, end)| !Rc::ptr_eq(end, &self.end));
    }
}
