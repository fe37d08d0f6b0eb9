//! Sends the requests of a client.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::sleep;

use super::client::Session;
use super::ideal::PermittedReuse;
use super::ranges::range_line;
use super::run::Run;
use super::scenario::{Ask, BreakOff};
use super::world::{Content, kind_of, post_body};

/// How long a client waits for `100 Continue` before it sends the body anyway.
pub(super) const CONTINUE_MS: u64 = 1_000;

/// The properties of a request that depend on the moment at which it was sent.
#[derive(Clone, Debug)]
pub(super) struct SentRequest {
    pub(super) event: u64,
    pub(super) began_ms: u64,
    /// The version in the request's `If-None-Match`, which the client claims to have.
    pub(super) has: Option<Content>,
    /// The cookie in the request, which no other client sends.
    pub(super) cookie: Option<String>,
    /// The reuse of a stored response that RFC 9111 permits for this request.
    pub(super) reuse: Option<PermittedReuse>,
}

/// Notes a request that is sent now. Returns its field lines after Host, and its properties.
pub(super) fn request_of(run: &Run, act: u64, ask: &Ask) -> (String, SentRequest) {
    let (event, began_ms) = (run.world.borrow_mut().event(), run.now_ms());
    let mut lines = format!("X-Ask: {event}\r\n");
    lines += &ask.spelling.lines(ask.language);
    let version = run.world.borrow().version(ask.url);
    let has = Content::of(ask.url, version, ask);
    let has = (ask.is_conditional && kind_of(ask.url).has_etag).then_some(has);
    if let Some(has) = &has {
        lines += &format!("If-None-Match: {}\r\n", has.etag());
    }
    lines += &range_line(&ask.ranges);
    if !ask.theme.is_empty() {
        lines += &format!("X-Theme: {}\r\n", ask.theme);
    }
    if ask.is_navigation {
        lines += "Sec-Fetch-Mode: navigate\r\n";
    }
    let cookie = ask.has_cookie.then(|| format!("client={act}"));
    if let Some(cookie) = &cookie {
        lines += &format!("Cookie: {cookie}\r\n");
    }
    if ask.no_cache {
        lines += "Cache-Control: no-cache\r\n";
    }
    if let Some(body) = ask.post {
        lines += &format!("X-Act: {act}\r\nX-Body-Bytes: {}\r\n", body.bytes);
        if body.expects_continue {
            lines += "Expect: 100-continue\r\n";
        }
    }
    let reuse = run.ideal.permitted(ask);
    (lines, SentRequest { event, began_ms, has, cookie, reuse })
}

impl Session<'_> {
    /// Sends a request; returns whether the connection can take another request.
    pub(super) async fn send(&self, ask: &Ask, sent: &RefCell<Vec<SentRequest>>) -> bool {
        let (method, query) = (ask.method(), ask.spelling.query);
        let version = if ask.is_http_10 { "1.0" } else { "1.1" };
        let mut head = format!("{method} /u{}{query} HTTP/{version}\r\nHost: a.test\r\n", ask.url);
        let (lines, asked) = request_of(self.run, self.act, ask);
        head += &lines;
        sent.borrow_mut().push(asked);
        match ask.post {
            Some(_) => self.send_post(ask, head).await,
            None => self.end.write((head + "\r\n").as_bytes()).await.is_ok(),
        }
    }

    async fn send_post(&self, ask: &Ask, mut head: String) -> bool {
        let Some(body) = ask.post else {
            return false;
        };
        head += &match body.is_chunked {
            true => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
            false => format!("Content-Length: {}\r\n\r\n", body.bytes),
        };
        if self.end.write(head.as_bytes()).await.is_err() {
            return false;
        }
        if body.expects_continue {
            sleep(Duration::from_millis(CONTINUE_MS)).await;
        }
        let bytes = post_body(self.act, body.bytes);
        let mut text = Vec::new();
        if body.is_chunked {
            for piece in bytes.chunks(30_000) {
                text.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                text.extend_from_slice(piece);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
        } else {
            text = bytes;
        }
        match body.break_off {
            BreakOff::Never => self.end.write(&text).await.is_ok(),
            BreakOff::Stop(bytes) | BreakOff::Reset(bytes) => {
                let is_sent = self.end.write(&text[..bytes.min(text.len())]).await.is_ok();
                if is_sent && matches!(body.break_off, BreakOff::Reset(_)) {
                    self.end.reset();
                }
                false
            }
        }
    }
}
