//! From request bytes to reply bytes, without I/O.

pub(crate) mod fixed;
pub(crate) mod origin;
pub(crate) mod parsed;

use std::mem::MaybeUninit;

/// Field lines after `Date` and before the end of the head, the same in every program here, so
/// that a stored response has a head of ordinary size.
const COMMON_FIELDS: &str = "Content-Type: text/plain\r\n\
    Last-Modified: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    Accept-Ranges: bytes\r\n";

/// Most header fields that are read; a client of the benchmark sends a handful.
const FIELDS_MAX: usize = 32;

/// Bodies up to this size are copied behind their head, so that one buffer leaves in one plain
/// send; longer ones are sent from where they lie. Copying 64 KiB would cost more than sending.
const COPY_BYTES_MAX: usize = 4096;

/// Something that answers requests.
pub(crate) trait Answer {
    /// Answers the first request in `input` by filling the cleared `reply`, or returns `None`
    /// while its head is not complete.
    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered>;
}

/// How much of the input one answer took, and whether the connection goes on.
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
    /// Sent first.
    pub(crate) own: Vec<u8>,
    /// Sent after `own`, from where it lies.
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

    /// The last part of the reply: copied when short, lent when long.
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

/// A request head as far as the responders look at it.
struct Request<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a [u8],
    /// Whether the client keeps the connection open: `Connection: close` or HTTP/1.0 say no.
    keep: bool,
    bytes: usize,
}

/// Why there is no request.
enum NoRequest {
    Incomplete,
    Malformed,
}

/// Scans a request head. Not a guard: it refuses only what it cannot read.
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

/// `Connection: close\r\n` where the connection ends after this reply, as RFC 9112 §9.6 asks.
fn connection_field(keep: bool) -> &'static [u8] {
    if keep { b"" } else { b"Connection: close\r\n" }
}
