//! From request bytes to reply bytes, without I/O.

pub(crate) mod fixed;
pub(crate) mod origin;
pub(crate) mod parsed;

use std::mem::MaybeUninit;

/// The field lines after `Date`, the same in every responder, so that a stored response has a head
/// of ordinary size.
const COMMON_FIELDS: &str = "Content-Type: text/plain\r\n\
    Last-Modified: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    Accept-Ranges: bytes\r\n";

/// The most header fields that are read. A client of the benchmark sends only a few.
const FIELDS_MAX: usize = 32;

/// Bodies up to this size are copied behind their head, so that one buffer leaves in one send.
/// Longer bodies are sent from their own memory: a copy of 64 KiB would cost more than it saves.
const COPY_BYTES_MAX: usize = 4096;

/// A responder, which answers requests.
pub(crate) trait Answer {
    /// Answers the first request in `input` by filling the cleared `reply`, or returns `None`
    /// while its head is not complete.
    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered>;

    /// Sets the index of the address that gets the following requests. Most responders ignore it.
    fn set_address(&mut self, _index: usize) {}
}

/// The length of the answered request, and whether the connection stays open.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Answered {
    /// Bytes of the input that belong to this request.
    pub(crate) bytes: usize,
    /// Whether the connection stays open.
    pub(crate) keep: bool,
}

/// A reply in two parts: bytes written for this request, then bytes that many requests share.
#[derive(Default)]
pub(crate) struct Reply {
    /// The bytes that are sent first.
    pub(crate) own: Vec<u8>,
    /// The bytes that are sent after `own`, without a copy.
    pub(crate) shared: &'static [u8],
}

impl Reply {
    /// Empties the reply, keeping its memory.
    pub(crate) fn clear(&mut self) {
        self.own.clear();
        self.shared = &[];
    }

    fn push(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Appends the last part of the reply. Short bodies are copied, and long bodies are shared.
    fn finish(&mut self, body: &'static [u8]) {
        if body.len() <= COPY_BYTES_MAX {
            self.push(body);
        } else {
            self.shared = body;
        }
    }

    /// A whole reply without a body, for requests that are not served.
    fn refuse(&mut self, status: &str) {
        self.push(b"HTTP/1.1 ");
        self.push(status.as_bytes());
        self.push(b"\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
    }
}

/// The parts of a request head that the responders use.
struct Request<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a [u8],
    /// Whether the connection stays open. `Connection: close` and HTTP/1.0 end it.
    keep: bool,
    bytes: usize,
}

/// The reason why no request was parsed.
enum NoRequest {
    Incomplete,
    Malformed,
}

/// Parses a request head. It refuses only heads that it cannot read, so it protects no server.
fn parse_request(input: &[u8]) -> Result<Request<'_>, NoRequest> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let bytes = match head.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Err(NoRequest::Incomplete),
        Err(_) => return Err(NoRequest::Malformed),
    };
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return Err(NoRequest::Malformed);
    };
    let mut request = Request { method, target, host: b"", keep: head.version == Some(1), bytes };
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("host") {
            request.host = field.value;
        } else if field.name.eq_ignore_ascii_case("connection") {
            request.keep &= !field.value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok(request)
}

/// Returns the field `Connection: close` if the connection ends after this reply (RFC 9112 §9.6).
fn connection_field(keep: bool) -> &'static [u8] {
    if keep { b"" } else { b"Connection: close\r\n" }
}
