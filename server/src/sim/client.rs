//! Clients, and their checks of each response.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use forebay_testkit::Response;
use tokio::time::{sleep, timeout};

use super::run::Run;
use super::scenario::{Act, ActKind, Ask, Reading};
use super::wire::WireEnd;
use super::world::{Content, LANGUAGES, URL_COUNT, kind_of, tag_of};

/// No request of a client that reads may take longer.
const REQUEST_MS_MAX: u64 = 40_000;

/// A client that stops in the middle of a head loses its connection within this time.
const SILENCE_MS_MAX: u64 = 15_000;

/// Plays the part of a client in an act.
pub(super) async fn play(run: &Run, act: &Act) {
    match &act.kind {
        ActKind::Session { worker, asks, is_pipelined, reading } => {
            let end = connect(run, act, *worker);
            session(run, &end, asks, *is_pipelined, *reading).await;
        }
        ActKind::Purge { worker, url, is_soft, by_tag } => {
            let end = connect(run, act, *worker);
            purge(run, &end, *url, *is_soft, *by_tag).await;
        }
        ActKind::Post { worker, url, body_bytes, is_chunked } => {
            let end = connect(run, act, *worker);
            post(run, &end, *url, *body_bytes, *is_chunked).await;
        }
        ActKind::Silence { worker, bytes } => {
            silence(run, &connect(run, act, *worker), *bytes).await
        }
        ActKind::Change { .. }
        | ActKind::PurgeAll { .. }
        | ActKind::ClockStep { .. }
        | ActKind::Reload { .. }
        | ActKind::Restart { .. } => {}
    }
}

fn connect(run: &Run, act: &Act, worker: usize) -> WireEnd {
    let number = act.number as u32;
    let from = SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 40_000));
    run.connect(worker, from, act.number)
}

/// A connection on which responses are read.
struct Responses<'a> {
    run: &'a Run,
    end: &'a WireEnd,
    input: Vec<u8>,
    has_ended: bool,
    reading: Reading,
    read_bytes: usize,
}

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoResponse {
    /// The server ended the connection.
    Ended,
    /// The client did.
    ByClient,
}

impl<'a> Responses<'a> {
    fn new(run: &'a Run, end: &'a WireEnd, reading: Reading) -> Self {
        Responses { run, end, input: Vec::new(), has_ended: false, reading, read_bytes: 0 }
    }

    /// The next final response: whole, or the part that arrived.
    async fn next(&mut self, method: &str) -> Result<Response, NoResponse> {
        loop {
            match Response::parse(&self.input, method, self.has_ended) {
                Ok(Some((response, Some(size)))) => {
                    self.input.drain(..size);
                    return Ok(response);
                }
                Ok(Some((response, None))) if self.has_ended => return Ok(response),
                Ok(_) if self.has_ended => return Err(NoResponse::Ended),
                Ok(_) => {}
                Err(error) => {
                    self.run.fail(format!("a client got a bad response: {error}"));
                    return Err(NoResponse::Ended);
                }
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), NoResponse> {
        match self.reading {
            Reading::Pause { bytes, ms } if self.read_bytes >= bytes => {
                self.reading = Reading::Eager;
                sleep(Duration::from_millis(ms)).await;
            }
            Reading::Reset { bytes } if self.read_bytes >= bytes => {
                self.end.reset();
                return Err(NoResponse::ByClient);
            }
            _ => {}
        }
        let read = timeout(Duration::from_millis(REQUEST_MS_MAX), self.end.read());
        match read.await {
            Err(_) => {
                self.run.fail(format!("nothing came for {REQUEST_MS_MAX} ms"));
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
                self.has_ended = true;
                // A response that a reset has cut is not known to be whole.
                Ok(())
            }
        }
    }
}

async fn session(run: &Run, end: &WireEnd, asks: &[Ask], is_pipelined: bool, reading: Reading) {
    let mut responses = Responses::new(run, end, reading);
    let mut sent = Vec::new();
    if is_pipelined {
        for ask in asks {
            sent.push(send(run, end, ask).await);
        }
    }
    for (index, ask) in asks.iter().enumerate() {
        let asked = match sent.get(index) {
            Some(asked) => asked.clone(),
            None => send(run, end, ask).await,
        };
        let Ok(asked) = asked else {
            return run.fail_if_calm("a client could not send a request");
        };
        let method = if ask.is_head { "HEAD" } else { "GET" };
        match responses.next(method).await {
            Err(NoResponse::ByClient) => return,
            Err(NoResponse::Ended) => return run.fail_if_calm("a client got no response"),
            Ok(response) => {
                check(run, ask, &asked, &response);
                run.answered();
                if response.says_close() || !response.is_whole {
                    return;
                }
            }
        }
    }
}

/// The parts of a request that depend on the moment.
#[derive(Clone, Debug)]
struct SentRequest {
    event: u64,
    began_ms: u64,
    /// The version that the client says it has.
    has: Option<Content>,
}

async fn send(run: &Run, end: &WireEnd, ask: &Ask) -> Result<SentRequest, io::ErrorKind> {
    let kind = kind_of(ask.url);
    let method = if ask.is_head { "HEAD" } else { "GET" };
    let mut head = format!("{method} /u{} HTTP/1.1\r\nHost: a.test\r\n", ask.url);
    if !ask.language.is_empty() {
        head += &format!("Accept-Language: {}\r\n", ask.language);
    }
    let language = if kind.varies { ask.language } else { "" };
    let version = run.world.borrow().version(ask.url);
    let has = Content { url: ask.url, version, language };
    let has = (ask.is_conditional && kind.has_etag).then_some(has);
    if let Some(has) = &has {
        head += &format!("If-None-Match: {}\r\n", has.etag());
    }
    if let Some((first, last)) = ask.range {
        head += &format!("Range: bytes={first}-{last}\r\n");
    }
    if ask.no_cache {
        head += "Cache-Control: no-cache\r\n";
    }
    let (event, began_ms) = (run.world.borrow_mut().event(), run.now_ms());
    head += "\r\n";
    end.write(head.as_bytes()).await.map_err(|error| error.kind())?;
    Ok(SentRequest { event, began_ms, has })
}

fn check(run: &Run, ask: &Ask, asked: &SentRequest, response: &Response) {
    if let Err(why) = check_response(run, ask, asked, response) {
        let head = &response.head;
        run.fail(format!("{why}; {ask:?} from {} ms got {head:?}", asked.began_ms));
    }
}

fn check_response(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    let times = (asked.began_ms, run.now_ms());
    let calm = run.scenario.is_calm();
    match response.status {
        200 | 206 => {}
        304 => {
            let has = asked.has.as_ref().ok_or("304 without a condition")?;
            return run.world.borrow().check(has, ask.no_cache, asked.event, times);
        }
        416 if ask.range.is_some() => return Ok(()),
        502..=504 if !calm => return Ok(()),
        status => return Err(format!("status {status}")),
    }
    let content = content_of(ask, response)?;
    run.world.borrow().check(&content, ask.no_cache, asked.event, times)?;
    if ask.is_head {
        return Ok(());
    }
    let mut body = content.body();
    if response.status == 206 {
        let (first, last) = ask.range.ok_or("206 without a range")?;
        let last = last.min(body.len().saturating_sub(1));
        let expected = format!("bytes {first}-{last}/{}", body.len());
        if response.field("content-range") != Some(expected.as_str()) {
            return Err(format!("the range is not {expected}"));
        }
        body = body.get(first..=last).ok_or("206 for a range outside the body")?.to_vec();
    }
    if response.is_whole && response.body.len() != body.len() {
        return Err(format!("{} bytes are called whole, not {}", response.body.len(), body.len()));
    }
    if !body.starts_with(&response.body) {
        let at = body.iter().zip(&response.body).take_while(|(left, right)| left == right).count();
        return Err(format!("the body differs from byte {at} on"));
    }
    if !response.is_whole && calm {
        return Err("the response is not whole".into());
    }
    Ok(())
}

/// Which content a response says it is: by its head, which must fit the request.
fn content_of(ask: &Ask, response: &Response) -> Result<Content, String> {
    let version = response.field("x-version").and_then(|text| text.parse().ok());
    let version = version.ok_or("there is no version")?;
    let language = response.field("x-language").unwrap_or_default();
    let language = LANGUAGES.iter().copied().find(|known| *known == language);
    let content = Content { url: ask.url, version, language: language.ok_or("no language")? };
    let expected = if kind_of(ask.url).varies { ask.language } else { "" };
    if content.language != expected {
        return Err(format!("variant {:?}, not {expected:?}", content.language));
    }
    let has_etag = kind_of(ask.url).has_etag;
    if has_etag && response.field("etag") != Some(content.etag().as_str()) {
        return Err("the entity tag is another version's".into());
    }
    Ok(content)
}

async fn purge(run: &Run, end: &WireEnd, url: usize, is_soft: bool, by_tag: bool) {
    let now_ms = run.now_ms();
    let is_purged = |other: &usize| *other == url || by_tag && tag_of(*other) == tag_of(url);
    let purged = (0..URL_COUNT).filter(is_purged);
    let change = |url| (url, run.world.borrow_mut().change(url, now_ms));
    let versions: Vec<(usize, usize)> = purged.map(change).collect();
    let mut head = format!("PURGE /u{url} HTTP/1.1\r\nHost: a.test\r\n");
    if is_soft {
        head += "Fastly-Soft-Purge: 1\r\n";
    }
    if by_tag {
        head += &format!("Surrogate-Key: {}\r\n", tag_of(url));
    }
    head += "\r\n";
    if end.write(head.as_bytes()).await.is_err() {
        return;
    }
    match Responses::new(run, end, Reading::Eager).next("PURGE").await {
        Ok(response) if response.is_whole && matches!(response.status, 200 | 204 | 404) => {
            let mut world = run.world.borrow_mut();
            versions.into_iter().for_each(|(url, version)| {
                world.promise(url, version);
            });
        }
        Ok(response) => run.fail_if_calm(&format!("a purge got {:?}", response.head)),
        Err(_) => run.fail_if_calm("a purge got no response"),
    }
}

async fn post(run: &Run, end: &WireEnd, url: usize, body_bytes: usize, is_chunked: bool) {
    let mut text = format!("POST /u{url} HTTP/1.1\r\nHost: a.test\r\n").into_bytes();
    let body = vec![b'p'; body_bytes];
    if is_chunked {
        text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(30_000) {
            text.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            text.extend_from_slice(piece);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
    } else {
        text.extend_from_slice(format!("Content-Length: {body_bytes}\r\n\r\n").as_bytes());
        text.extend_from_slice(&body);
    }
    // The response may come before all of it was sent.
    let _ = end.write(&text).await;
    match Responses::new(run, end, Reading::Eager).next("POST").await {
        Ok(response) if response.status == 200 && response.is_whole => {
            let version = response.field("x-version").and_then(|text| text.parse().ok());
            match version {
                Some(version) => run.world.borrow_mut().promise(url, version),
                None => run.fail("a POST got no version".into()),
            }
        }
        Ok(response) => run.fail_if_calm(&format!("a POST got {:?}", response.head)),
        Err(_) => run.fail_if_calm("a POST got no response"),
    }
}

/// Sends a part of a head, then waits for the end of the connection.
async fn silence(run: &Run, end: &WireEnd, bytes: usize) {
    let head = b"GET /u0 HTTP/1.1\r\nHost: a.test\r\nAccept: text/plain\r\n\r\n";
    let _ = end.write(&head[..bytes.min(head.len() - 1)]).await;
    let until_end = async {
        while let Ok(bytes) = end.read().await {
            if bytes.is_empty() {
                break;
            }
        }
    };
    if timeout(Duration::from_millis(SILENCE_MS_MAX), until_end).await.is_err() {
        run.fail(format!("a silent client still had its connection after {SILENCE_MS_MAX} ms"));
    }
}
