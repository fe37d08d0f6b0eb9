//! The responses of the origin, before faults are applied.

use std::io;

use forebay_http::date::write_date;
use forebay_testkit::Request;

use super::ranges::{partial_content, ranges_of};
use super::run::Run;
use super::wire::WireEnd;
use super::world::{
    Content, HEURISTIC_PERCENT, LANGUAGES, THEMES, URL_COUNT, UrlKind, kind_of, tag_of, variant_of,
    varies_by,
};
use crate::clock;

/// Fields that are not part of the cache's key. If a request has one of them, the origin puts the
/// field's value at the beginning of the body, as if it made links from the value.
pub(super) const REFLECTED: &[&str] = &[
    "X-Forwarded-Host",
    "X_Forwarded_Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-Real-IP",
    "Forwarded",
    "Proxy",
];

/// A response of the origin: its head as text, and its body without framing.
pub(super) struct OriginReply {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) is_chunked: bool,
}

impl OriginReply {
    pub(super) async fn send(&self, end: &WireEnd, piece: &[u8]) -> io::Result<()> {
        if self.is_chunked && !piece.is_empty() {
            end.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            end.write(piece).await?;
            return end.write(b"\r\n").await;
        }
        end.write(piece).await
    }

    /// Adds the number of the exchange, so that a response that a client gets can be traced back to
    /// its exchange.
    pub(super) fn number(&mut self, exchange: u64) {
        let line_bytes = self.head.find("\r\n").map_or(0, |at| at + 2);
        self.head.insert_str(line_bytes, &format!("X-Exchange: {exchange}\r\n"));
    }

    /// Turns the response to a request with several entity tags into a 304 that names none of them.
    pub(super) fn confirm_no_tag(&mut self) {
        let is_kept = |line: &&str| {
            let dropped = ["HTTP/1.1", "ETag", "Content-Length", "Transfer-Encoding"];
            !dropped.iter().any(|start| line.starts_with(start))
        };
        let lines: String = self.head.split_inclusive("\r\n").filter(is_kept).collect();
        self.head = format!("HTTP/1.1 304 Not Modified\r\nETag: \"none\"\r\n{lines}");
        (self.body, self.is_chunked) = (Vec::new(), false);
    }

    /// Removes the framing, so that the end of the connection marks the end of the body.
    pub(super) fn unframe(&mut self) {
        let is_framing = |line: &&str| {
            line.starts_with("Content-Length") || line.starts_with("Transfer-Encoding")
        };
        self.head = self.head.split_inclusive("\r\n").filter(|line| !is_framing(line)).collect();
        self.is_chunked = false;
    }

    /// Returns an error response without a lifetime, which a heuristic could keep fresh for a long
    /// time.
    pub(super) fn missing() -> OriginReply {
        let head = format!("HTTP/1.1 404 x\r\n{}", last_modified(100_000_000))
            + "Cache-Control: stale-if-error=0\r\nContent-Length: 0\r\n\r\n";
        OriginReply { head, body: Vec::new(), is_chunked: false }
    }

    /// Returns the response to a request, with the current version of the URL. Returns `None` if
    /// neither a client nor the cache could have sent such a request.
    pub(super) fn to(run: &Run, request: &Request) -> Option<OriginReply> {
        let url = url_of(request)?;
        let kind = kind_of(url);
        let now_ms = run.now_ms();
        let mut world = run.world.borrow_mut();
        let version = match request.method.as_str() {
            "POST" => world.change(url, now_ms),
            "GET" | "HEAD" => world.version(url),
            _ => return None,
        };
        let is_post = request.method == "POST";
        let known = |names: &[&'static str], field| {
            let asked = request.head.field(field).unwrap_or_default();
            names.iter().copied().find(|name| *name == asked)
        };
        let (language, theme) = (known(LANGUAGES, "accept-language"), known(THEMES, "x-theme"));
        if !is_post && (language.is_none() || theme.is_none()) {
            return None;
        }
        let asked = (language.unwrap_or_default(), theme.unwrap_or_default());
        let variant = variant_of(url, version, asked);
        let (content, tag) = (Content { url, version, variant }, tag_of(url));
        let mut head =
            format!("X-Version: {version}\r\nX-Variant: {variant}\r\nSurrogate-Key: {tag}\r\n");
        head += &freshness(url);
        if let Some(cookie) = request.head.field("cookie").filter(|cookie| is_own(cookie)) {
            head += &match kind {
                UrlKind { sets_cookie: true, .. } => format!("Set-Cookie: {cookie}\r\n"),
                UrlKind { is_heuristic: true, .. } => format!("X-Page-Of: {cookie}\r\n"),
                _ => String::new(),
            };
        }
        if kind.has_etag {
            head += &format!("ETag: {}\r\nLink: {}\r\n", content.etag(), content.links());
        }
        head += varies_by(url, version).line();
        if is_post {
            head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
            return Some(OriginReply { head, body: Vec::new(), is_chunked: false });
        }
        let is_current = |field| request.head.field(field) == Some(content.etag().as_str());
        let mut listed =
            request.head.field("if-none-match").into_iter().flat_map(|list| list.split(", "));
        if kind.has_etag && listed.any(|tag| tag == content.etag()) {
            head = format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n");
            return Some(OriginReply { head, body: Vec::new(), is_chunked: false });
        }
        let mut body = content.body();
        let reflected = REFLECTED.iter().find_map(|name| request.head.field(name));
        body.splice(..0, reflected.unwrap_or_default().bytes());
        let may_send_part =
            request.method == "GET" && (!request.head.has("if-range") || is_current("if-range"));
        let range = request.head.field("range").filter(|_| may_send_part);
        let (mut status, mut is_chunked) = ("200 OK", kind.is_chunked);
        let ranges = range.map(|range| ranges_of(range, body.len())).unwrap_or_default();
        if !ranges.is_empty() {
            let (line, parts) = partial_content(&ranges, &body);
            head += &line;
            (status, is_chunked, body) = ("206 Partial Content", false, parts);
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

/// Returns the fields that forbid storing, or that set a lifetime and limits on staleness. For some
/// URLs these are targeted fields, and a Cache-Control beside them says the opposite.
fn freshness(url: usize) -> String {
    let UrlKind { fresh_s, stale_s, is_heuristic, .. } = kind_of(url);
    if *is_heuristic {
        return last_modified(fresh_s.unwrap_or(0) * 100 / HEURISTIC_PERCENT);
    }
    let mut directive =
        fresh_s.map_or("no-store".to_owned(), |seconds| format!("max-age={seconds}"));
    if let Some((revalidate_s, error_s)) = stale_s {
        let limits = format!(", stale-while-revalidate={revalidate_s}, stale-if-error={error_s}");
        directive += &limits;
    }
    match url % 5 {
        0 => format!("CDN-Cache-Control: {directive}\r\nCache-Control: max-age=100000\r\n"),
        1 => format!("CDN-Cache-Control: {directive}\r\nCache-Control: no-store\r\n"),
        2 => format!("CDN-Cache-Control: max-age=1e9\r\nCache-Control: {directive}\r\n"),
        _ => format!("Cache-Control: {directive}\r\n"),
    }
}

/// Returns a `Last-Modified` field with the time `ago_s` seconds ago.
fn last_modified(ago_s: u64) -> String {
    let date = write_date(clock::unix_seconds() - ago_s);
    format!("Last-Modified: {}\r\n", String::from_utf8_lossy(&date))
}

/// Returns the index of the requested URL; `None` if there is no such URL, or if the response may
/// be shared and the request is not in its normal form.
pub(super) fn url_of(request: &Request) -> Option<usize> {
    let (path, is_normal) = match request.target.split_once('?') {
        Some((path, _)) => (path, false),
        None => (request.target.as_str(), request.head.all("cookie").all(is_own)),
    };
    let url = path.strip_prefix("/u")?.parse().ok()?;
    (url < URL_COUNT && (is_normal || request.method == "POST")).then_some(url)
}

/// Whether a Cookie field has only the client's own cookie, which the settings keep.
fn is_own(cookie: &str) -> bool {
    cookie.starts_with("client=") && !cookie.contains(';')
}
