//! The origin's responses to hostile clients.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::sleep;

use super::attack::{
    ABANDONED, ABANDONED_MAX, DRIPPED, FAILING, LATE_MS, OWN, POSTED, QUIET, TARGET, UNREAD, VARIED,
};
use super::paths::{CONTENT_UNREAD, FAILED_FETCHES};
use super::run::Run;
use super::wire::WireEnd;

/// The number of pieces of a response for [`ABANDONED`], and the time between them in milliseconds.
/// Even of a slow origin, the response ends within [`super::attack::ORIGIN_WAIT_MS`]: attackers in
/// many networks may have all connections, and then others wait until one is returned.
const PIECES: (usize, u64) = (10, 180);

/// The time within which the server must have stopped the fetches that exceed the limit on
/// abandoned fetches.
const ABANDONED_MS: u64 = 1_000;

/// The length of a response for [`DRIPPED`]: so long that a few of them fill the memory for
/// arriving responses.
const DRIPPED_BYTES: usize = 230_000;

/// The length of the response for [`QUIET`]: so long that it would find no room if the responses
/// for [`DRIPPED`] were allowed to take all of the memory, but no longer than an eighth of this
/// memory, because responses of a third site may take a quarter.
const QUIET_BYTES: usize = 50_000;

/// The largest number of requests for [`FAILING`] that the origin may receive: three fetches that
/// other requests follow, and a few requests that go to the origin by themselves.
const FAILING_MAX: u64 = 12;

/// Whether only hostile clients request the target.
pub(super) fn is_hostile(request: &Request) -> bool {
    request.target.starts_with(TARGET)
}

/// Returns how many bytes of this request's content the origin leaves unread and then parses as the
/// next request on the connection. This is the whole content if the target starts with [`UNREAD`],
/// otherwise 0.
pub(super) fn unread_bytes(run: &Run, request: &Request) -> usize {
    if !request.target.starts_with(UNREAD) {
        return 0;
    }
    run.paths.count(CONTENT_UNREAD);
    request.body.len()
}

/// Responds to a request for a target of hostile clients. Delays the response to any other request
/// that has Authorization, because a hostile client may have sent it. Returns whether the response
/// has been sent.
pub(super) async fn respond(run: &Run, end: &WireEnd, request: &Request) -> io::Result<bool> {
    let (target, is_hostile) = (&request.target, is_hostile(request));
    if target.starts_with(ABANDONED) {
        send_slowly(run, end, request).await?;
        return Ok(true);
    }
    if target.starts_with(DRIPPED) {
        return drip(end).await;
    }
    let is_prompt = |page: &&str| target.starts_with(*page);
    let is_late = is_hostile && ![POSTED, OWN, VARIED].iter().any(is_prompt);
    if is_late || request.head.has("authorization") {
        sleep(Duration::from_millis(LATE_MS)).await;
    }
    if target.starts_with(FAILING) {
        return Err(run.attacked.fail(run));
    }
    if is_hostile {
        // All spellings of a closed path contain these letters.
        let is_storable = target.contains("losed") || [QUIET, OWN, VARIED].iter().any(is_prompt);
        let control = if is_storable { "max-age=600" } else { "no-store" };
        let bytes = if target.starts_with(QUIET) { QUIET_BYTES } else { 4 };
        let vary = if target.starts_with(VARIED) { "Vary: X-Kind\r\n" } else { "" };
        let head =
            format!("HTTP/1.1 200 OK\r\n{vary}Cache-Control: {control}\r\nContent-Length: {bytes}");
        let body = if request.method == "HEAD" { 0 } else { bytes };
        end.write(format!("{head}\r\n\r\n{}", "x".repeat(body)).as_bytes()).await?;
    }
    Ok(is_hostile)
}

/// Sends a response whose client does not wait for its end, and checks that the server keeps only
/// few such fetches of one network.
async fn send_slowly(run: &Run, end: &WireEnd, request: &Request) -> io::Result<()> {
    let network = request.head.field("x-forwarded-for").unwrap_or_default();
    let _sending = run.attacked.begin(network, run.now_ms());
    let (count, pause_ms) = PIECES;
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {count}");
    end.write(format!("{head}\r\n\r\n").as_bytes()).await?;
    for _ in 0..count {
        sleep(Duration::from_millis(pause_ms)).await;
        end.write(b"x").await?;
        let old_count = run.attacked.count_old(network, run.now_ms());
        if old_count > ABANDONED_MAX {
            run.fail(format!("{old_count} fetches continue although their clients have left"));
        }
    }
    Ok(())
}

/// Sends a long response slowly, until the server ends the connection.
async fn drip(end: &WireEnd) -> io::Result<bool> {
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {DRIPPED_BYTES}");
    end.write(format!("{head}\r\n\r\n").as_bytes()).await?;
    for _ in 0..DRIPPED_BYTES {
        sleep(Duration::from_millis(PIECES.1)).await;
        end.write(b"x").await?;
    }
    Ok(true)
}

/// The log of the origin's responses to hostile clients.
#[derive(Default)]
pub(super) struct AttackedLog {
    /// The responses for [`ABANDONED`] that the origin is sending: the network of each client, and
    /// the time at which the response began.
    abandoned: RefCell<Vec<(String, u64)>>,
    /// The number of requests for [`FAILING`].
    failed_count: Cell<u64>,
}

/// Removes an entry of the log when the response ends.
struct SlowResponseGuard<'a> {
    log: &'a AttackedLog,
    entry: (String, u64),
}

impl AttackedLog {
    /// Counts a request for [`FAILING`], and returns the error that ends its connection.
    fn fail(&self, run: &Run) -> io::Error {
        run.paths.count(FAILED_FETCHES);
        self.failed_count.update(|count| count + 1);
        if self.failed_count.get() > FAILING_MAX {
            run.fail(format!("the origin got {} requests for {FAILING}", self.failed_count.get()));
        }
        io::ErrorKind::ConnectionAborted.into()
    }

    fn begin(&self, network: &str, now_ms: u64) -> SlowResponseGuard<'_> {
        let entry = (network.to_owned(), now_ms);
        self.abandoned.borrow_mut().push(entry.clone());
        SlowResponseGuard { log: self, entry }
    }

    /// Returns how many responses for a network are so old that the server must have stopped them
    /// if there are too many.
    fn count_old(&self, network: &str, now_ms: u64) -> usize {
        let is_old = |began_ms: &u64| began_ms + ABANDONED_MS <= now_ms;
        let entries = self.abandoned.borrow();
        entries.iter().filter(|(other, began_ms)| other == network && is_old(began_ms)).count()
    }
}

impl Drop for SlowResponseGuard<'_> {
    fn drop(&mut self) {
        let mut entries = self.log.abandoned.borrow_mut();
        if let Some(index) = entries.iter().position(|entry| *entry == self.entry) {
            entries.swap_remove(index);
        }
    }
}
