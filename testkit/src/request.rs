//! A request as an origin received it: parsed strictly, with the faults of the proxy that sent it.

use crate::message::{Body, Framing, Head, is_token};

/// One request as the origin received it. The body may still be arriving.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The number of the origin's connection that carried the request, counted from 0.
    pub connection: usize,
    /// The number of earlier requests for this target.
    pub nth: usize,
    /// The method.
    pub method: String,
    /// The target as sent.
    pub target: String,
    /// The whole head.
    pub head: Head,
    /// The content so far, decoded.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
    /// Whether the body is complete.
    pub is_whole: bool,
    /// Faults of the proxy that do not keep the request from being parsed.
    pub faults: Vec<String>,
}

/// Fields for a single connection (RFC 9110 §7.6.1), which a proxy must not forward to the origin.
const HOP_BY_HOP: &[&str] =
    &["keep-alive", "proxy-connection", "te", "upgrade", "proxy-authenticate"];

/// Fields that a trailer section must not hold (RFC 9110 §6.5.1).
const NOT_IN_TRAILERS: &[&str] = &[
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
];

impl Request {
    /// Parses the request at the start of `bytes`, and returns it with its length once it is whole.
    /// Returns `None` while the head is incomplete. After an error the rest of the stream has no
    /// meaning.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Request, Option<usize>)>, String> {
        let Some((head, head_size)) = Head::parse(bytes)? else {
            return Ok(None);
        };
        let words: Vec<&str> = head.start.split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else {
            return Err(format!("bad request line {:?}", head.start));
        };
        if !is_token(method) || target.is_empty() {
            return Err(format!("bad request line {:?}", head.start));
        }
        let rest = &bytes[head_size..];
        let body = match head.framing()? {
            Framing::Unsaid => Body::of_length(rest, 0),
            Framing::Length(length) => Body::of_length(rest, length),
            Framing::Chunked => Body::of_chunks(rest)?,
        };
        let (method, target) = (method.to_string(), target.to_string());
        let mut request = Request { method, target, head, ..Request::default() };
        request.is_whole = body.wire_size.is_some();
        request.body = body.bytes;
        request.trailers = body.trailers;
        request.faults = request.lint();
        Ok(Some((request, body.wire_size.map(|size| head_size + size))))
    }

    fn lint(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let origin_form = self.target.starts_with('/') && !self.target.contains('#');
        if !origin_form && (self.method.as_str(), self.target.as_str()) != ("OPTIONS", "*") {
            faults.push(format!("the target {:?} is not in origin-form", self.target));
        }
        if self.head.all("host").count() != 1 {
            faults.push("the request does not have exactly one Host field".into());
        }
        for value in self.head.all("connection") {
            if !["close", "keep-alive"].contains(&value.to_ascii_lowercase().as_str()) {
                faults.push(format!("Connection: {value}"));
            }
        }
        let sent = |name: &&&str| self.head.has(name);
        faults.extend(
            HOP_BY_HOP
                .iter()
                .filter(sent)
                .map(|name| format!("hop-by-hop field {name} was forwarded")),
        );
        for (name, _) in &self.trailers {
            if NOT_IN_TRAILERS.contains(&name.to_ascii_lowercase().as_str()) {
                faults.push(format!("trailer {name}"));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD_TRAILER: &str = concat!(
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "0\r\nHost: b\r\n\r\n",
    );

    #[test]
    fn what_a_proxy_must_not_send_is_a_fault() {
        let cases = [
            ("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 0),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 1),
            ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nTE: gzip\r\nUpgrade: h2c\r\n\r\n", 3),
            (BAD_TRAILER, 1),
        ];
        for (text, count) in cases {
            let (request, size) = Request::parse(text.as_bytes()).expect(text).expect(text);
            assert_eq!(request.faults.len(), count, "{text:?} {:?}", request.faults);
            assert_eq!(size, Some(text.len()), "{text:?}");
        }
        for bad in [
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        ] {
            assert!(Request::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
