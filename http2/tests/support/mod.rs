//! A small server on a connection. It answers each request according to its path, and checks that
//! the parser of HTTP/1.1 reads every request as exactly one head.

use forebay_http::framing::request_framing;
use forebay_http::request::{HeadLimits, RequestParts};
use forebay_http::target::request_target;
use forebay_http2::StreamKey;
use forebay_http2::connection::{ServerConnection, StreamEvent};
use forebay_http2::error::ConnectionError;
use forebay_http2::hpack::{encode_field, encode_status};
use forebay_http2::limits::{ConnectionLimits, STREAMS_MAX};

const HEAD_LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 1 << 17, field_count_max: 300, target_bytes_max: 1 << 16 };

/// The answer to a stream.
#[derive(Clone, Copy, Default)]
struct Work {
    id: u32,
    body_bytes: u64,
    received: u64,
    has_trailers: bool,
    digest: u64,
}

/// A server that answers `/N` with N bytes, and repeats the length and a digest of the request in
/// fields.
pub(crate) struct Responder {
    pub(crate) connection: ServerConnection,
    pub(crate) out: Vec<u8>,
    pub(crate) completed: usize,
    work: Vec<Option<Work>>,
    head: Vec<u8>,
    block: Vec<u8>,
    parts: RequestParts,
    /// Largest number of bytes for which one grant is requested.
    pub(crate) grant_bytes_max: usize,
}

/// An event without borrowed parts.
enum Next {
    Start(StreamKey, Work, bool),
    Data(StreamKey, usize, bool),
    End(StreamKey),
    Gone(StreamKey),
}

impl Responder {
    pub(crate) fn new(limits: ConnectionLimits) -> Responder {
        let mut out = Vec::new();
        let connection = ServerConnection::new(limits, 0, &mut out);
        Responder {
            connection,
            out,
            completed: 0,
            work: vec![None; usize::from(STREAMS_MAX)],
            head: Vec::new(),
            block: Vec::new(),
            parts: RequestParts::default(),
            grant_bytes_max: usize::MAX,
        }
    }

    /// Takes input, and returns the number of bytes that were taken.
    pub(crate) fn feed(&mut self, input: &[u8], now_ms: u64) -> Result<usize, ConnectionError> {
        let mut consumed = 0;
        loop {
            let receipt = self.connection.receive(&input[consumed..], now_ms, &mut self.out)?;
            consumed += receipt.consumed;
            let Some(event) = receipt.event else {
                return Ok(consumed);
            };
            let next = match event {
                StreamEvent::Request { stream, request } => {
                    let head = request.write_http1_head((&mut self.head, &mut self.parts));
                    // Only the method may be too long. The end of a head compares the parts with
                    // those that the parser of HTTP/1.1 finds.
                    if let Ok(length) = head.end(&HEAD_LIMITS) {
                        assert_eq!(length, self.head.len(), "one head");
                        let head = self.parts.head(&self.head);
                        assert_eq!(
                            head.method().as_bytes(),
                            request.protocol().map_or(request.method(), |_| &b"GET"[..])
                        );
                        if let Ok(target) = request_target(head) {
                            assert_eq!(target.path_query, request.path());
                        }
                        assert!(request_framing(head).is_ok());
                    }
                    let mut digest = 0;
                    for (name, value) in request.fields() {
                        digest = add(add(digest, name), value);
                    }
                    let work = Work {
                        id: stream.id(),
                        body_bytes: number(request.path().get(1..).unwrap_or_default()),
                        received: 0,
                        has_trailers: request.path().ends_with(b"t"),
                        digest,
                    };
                    Next::Start(stream, work, request.has_body())
                }
                StreamEvent::Data { stream, data, is_last } => {
                    Next::Data(stream, data.len(), is_last)
                }
                StreamEvent::Trailers { stream, .. } => Next::End(stream),
                StreamEvent::Reset { stream, .. } => Next::Gone(stream),
            };
            self.handle(next);
        }
    }

    fn handle(&mut self, next: Next) {
        match next {
            Next::Start(stream, work, has_body) => {
                let place = &mut self.work[usize::from(stream.slot())];
                assert!(place.is_none(), "a slot is reused only after its work has ended");
                *place = Some(work);
                if !has_body {
                    self.answer(stream);
                }
            }
            Next::Data(stream, bytes, is_last) => {
                let work = self.work_of(stream);
                work.received += bytes as u64;
                self.connection.release_data(stream, bytes, &mut self.out);
                if is_last {
                    self.answer(stream);
                }
            }
            Next::End(stream) => self.answer(stream),
            Next::Gone(stream) => {
                self.work_of(stream);
                self.end(stream);
            }
        }
    }

    fn work_of(&mut self, stream: StreamKey) -> &mut Work {
        let work = self.work[usize::from(stream.slot())].as_mut().expect("a stream in use");
        assert_eq!(work.id, stream.id(), "events name the stream of their slot");
        work
    }

    fn end(&mut self, stream: StreamKey) {
        self.connection.end_work(stream, &mut self.out);
        self.work[usize::from(stream.slot())] = None;
    }

    fn answer(&mut self, stream: StreamKey) {
        let work = *self.work_of(stream);
        self.block.clear();
        encode_status(&mut self.block, 200);
        let mut digits = [0; 20];
        encode_field(&mut self.block, b"x-received", decimal(work.received, &mut digits));
        encode_field(&mut self.block, b"x-digest", decimal(work.digest, &mut digits));
        let is_last = work.body_bytes == 0 && !work.has_trailers;
        self.connection
            .send_head(stream, &self.block, is_last, &mut self.out)
            .expect("an open stream");
        if is_last {
            self.completed += 1;
            return self.end(stream);
        }
        self.connection
            .offer_data(stream, work.body_bytes, !work.has_trailers, &mut self.out)
            .expect("an open stream");
        if work.body_bytes == 0 {
            self.trailers(stream);
        }
    }

    fn trailers(&mut self, stream: StreamKey) {
        self.block.clear();
        encode_field(&mut self.block, b"x-end", b"yes");
        let sent = self.connection.send_trailers(stream, &self.block, &mut self.out);
        sent.expect("an open stream");
        self.completed += 1;
        self.end(stream);
    }

    /// Appends data until no more is permitted, or the output is large.
    pub(crate) fn pump(&mut self) -> Result<(), ConnectionError> {
        while self.out.len() < 1 << 20 {
            let Some(grant) = self.connection.next_data(self.grant_bytes_max, &mut self.out)?
            else {
                return Ok(());
            };
            self.out.resize(self.out.len() + grant.bytes, b'x');
            let has_trailers = self.work_of(grant.stream).has_trailers;
            if grant.is_last {
                self.completed += 1;
                self.end(grant.stream);
            } else if has_trailers && self.connection.unsent_bytes(grant.stream) == 0 {
                self.trailers(grant.stream);
            }
        }
        Ok(())
    }
}

/// Adds a text to a digest that does not depend on the order of texts.
pub(crate) fn add(digest: u64, text: &[u8]) -> u64 {
    digest + text.iter().map(|byte| u64::from(*byte) + 1).sum::<u64>()
}

/// Returns the number in the digits at the start of a text, at most a few MiB.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).take(7);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}
