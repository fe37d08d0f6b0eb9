//! Mutations of requests and answers.

use forebay_testkit::escape::unescape;
use forebay_testkit::{Rng, vectors};

/// The longest vector that is used. Longer vectors test size limits, which have tests of their own.
const VECTOR_BYTES_MAX: usize = 1500;

/// The placeholder in a message for the mark of its connection.
const MARK: &str = "MARK";

/// Requests in addition to those of the vectors.
const REQUESTS: &[&str] = &[
    "GET /stored/MARK HTTP/1.1\r\nHost: a.test\r\nX-Mark: MARK\r\n\r\n",
    "GET /varies HTTP/1.1\r\nHost: a.test\r\nX-Mark: MARK\r\n\r\n",
    "HEAD /stored/MARK HTTP/1.1\r\nHost: a.test\r\nX-Mark: MARK\r\nRange: bytes=0-9\r\n\r\n",
    "GET /stored/MARK HTTP/1.1\r\nHost: a.test\r\nRange: bytes=2-5\r\nIf-Range: \"MARK\"\r\n\r\n",
    "GET /stored/MARK HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: \"MARK\", W/\"a\"\r\n\r\n",
    "POST /once/MARK HTTP/1.1\r\nHost: a.test\r\nContent-Length: 21\r\n\r\nMARK\r\n\r\n",
    "POST /once/MARK HTTP/1.1\r\nHost: a.test\r\nX-Mark: MARK\r\nTransfer-Encoding: chunked\r\n\
     \r\n11\r\nMARK\r\n0\r\nX-End: MARK\r\n\r\n",
    "PUT /once/MARK HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 17\r\n\
     \r\nMARK",
    "POST /once HTTP/1.1\r\nHost: a.test\r\nContent-Length: 83\r\n\r\nGET /stored/MARK HTTP/1.1\
     \r\nHost: a.test\r\nX-Mark: MARK\r\n\r\n",
    "POST /once HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: close, X-A\
     \r\nX-A: 1\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\n\r\n\
     GET /once/MARK HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET http://b.test/stored/MARK?a=1&b=%20 HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a.test\r\nX-Mark: MARK\r\nMax-Forwards: 1\r\n\r\n",
    "GET /stored/MARK HTTP/1.0\r\nConnection: keep-alive\r\nCookie: a=MARK\r\n\r\n",
];

/// Answers to a GET; the origin fills in the mark.
const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 17\r\nX-Mark: MARK\r\n\
     ETag: \"MARK\"\r\n\r\nMARK",
    "HTTP/1.1 200 OK\r\nContent-Length: 20\r\nCache-Control: no-store\r\n\r\nMARK\r\n.",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n\
     11\r\nMARK\r\n3;a=b\r\nend\r\n0\r\nX-End: MARK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nVary: X-Mark\r\nCache-Control: max-age=60\r\nContent-Length: 17\r\n\r\n\
     MARK",
    "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Mark: MARK\r\n\r\nMARK and the rest",
    "HTTP/1.1 103 Early Hints\r\nLink: </MARK>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 17\r\n\
     \r\nMARK",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Mark: MARK\r\n\r\n\
     HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\nMARK",
    "HTTP/1.1 204 No Content\r\nX-Mark: MARK\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nX-Mark: MARK\r\nContent-Length: 17\r\n\r\nMARK",
    "HTTP/1.1 301 Moved Permanently\r\nLocation: /stored/MARK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-16/40\r\nContent-Length: 17\r\n\r\n\
     MARK",
    "HTTP/1.1 304 Not Modified\r\nETag: \"MARK\"\r\n\r\n",
    "HTTP/1.0 200 OK\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\nSet-Cookie: a=MARK\r\n\r\nMARK",
];

/// Lines that a mutation adds.
const LINES: &[&str] = &[
    "Content-Length: 0\r\n",
    "Content-Length: 17\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 9223372036854775808\r\n",
    "Content-Length: 5, 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    " folded: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, Content-Length\r\n",
    "Expect: 100-continue\r\n",
    "Upgrade: h2c\r\n",
    "Host: b.test\r\n",
    "Trailer: Content-Length\r\n",
    "Vary: *\r\n",
    "Age: 99999999999999999999\r\n",
    "Cache-Control: max-age=-1, private=\"\r\n",
    "\r\n",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "GET /once HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
];

/// Bytes that a mutation writes over others or inserts.
const BYTES: &[u8] = b"\r\n\r\n\r\n  \t::,;\0\x7f\x80\xff/%#?[]@*\"\\=0123456789abcfxHhTt-_\x1f";

/// How many mutations a message gets: one element is drawn with equal probability, so that repeated
/// numbers are more likely.
const COUNTS: &[usize] = &[0, 1, 1, 1, 2, 2, 3, 5];

/// A generator of messages and of their mutations.
pub(crate) struct Mutator {
    messages: &'static [&'static str],
    /// Requests of the vectors for framing, most of which a server refuses; may be empty.
    vectors: Vec<Vec<u8>>,
}

impl Mutator {
    /// Mutates the requests above and those of the vectors.
    pub(crate) fn of_requests() -> Mutator {
        let text = include_str!("../vectors/requests.txt");
        let vectors = vectors::parse(text, ">!=@").expect("the vectors' own test reads the file");
        let marked = format!("Host: example.test\r\nX-Mark: {MARK}\r\n");
        let requests = vectors.iter().map(|vector| {
            let lines: Vec<u8> =
                vector.all('>').flat_map(|line| unescape(line).expect("a vector")).collect();
            replaced(&lines, b"Host: example.test\r\n", marked.as_bytes())
        });
        let vectors = requests.filter(|request| request.len() <= VECTOR_BYTES_MAX).collect();
        Mutator { messages: REQUESTS, vectors }
    }

    /// Mutates answers of an origin.
    pub(crate) fn of_answers() -> Mutator {
        Mutator { messages: ANSWERS, vectors: Vec::new() }
    }

    /// Returns one of the messages with this mark.
    pub(crate) fn plain(&self, rng: &mut Rng, mark: &str) -> Vec<u8> {
        let message = self.messages[rng.below(self.messages.len())];
        replaced(message.as_bytes(), MARK.as_bytes(), mark.as_bytes())
    }

    /// Returns a message with this mark and some mutations.
    pub(crate) fn mutated(&self, rng: &mut Rng, mark: &str) -> Vec<u8> {
        let mut bytes = if self.vectors.is_empty() || rng.below(4) > 0 {
            self.plain(rng, mark)
        } else {
            let vector = &self.vectors[rng.below(self.vectors.len())];
            replaced(vector, MARK.as_bytes(), mark.as_bytes())
        };
        for _ in 0..COUNTS[rng.below(COUNTS.len())] {
            mutate(rng, &mut bytes);
        }
        bytes
    }
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len());
    let end = bytes.len().min(at + 1 + rng.below(24));
    let byte = BYTES[rng.below(BYTES.len())];
    match rng.below(9) {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let piece = bytes[at..end].to_vec();
            let to = rng.below(bytes.len());
            bytes.splice(to..to, piece);
        }
        4 => bytes.truncate(at),
        5 => bytes[at] ^= 1 << rng.below(8),
        6 => change_number(rng, bytes, at),
        7 => {
            let line = line_at(bytes, at);
            let line = bytes[line].to_vec();
            let to = line_at(bytes, rng.below(bytes.len())).start;
            bytes.splice(to..to, line);
        }
        _ => {
            let to = line_at(bytes, at).start;
            bytes.splice(to..to, LINES[rng.below(LINES.len())].bytes());
        }
    }
}

/// Replaces the next number at or after `at` by one of a few unusual numbers.
fn change_number(rng: &mut Rng, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = (at..bytes.len()).find(|&at| bytes[at].is_ascii_digit()) else {
        return;
    };
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let numbers: &[&str] = &["0", "1", "4", "18", "00017", "4294967296", "18446744073709551616"];
    let number = numbers[rng.below(numbers.len())].bytes();
    bytes.splice(start..start + digits, number);
}

/// Returns the line around `at`, with its end.
fn line_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_end = |byte: &u8| *byte == b'\n';
    let start = bytes[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(is_end).map_or(bytes.len(), |end| at + end + 1);
    start..end
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len() * 2);
    let mut rest = bytes;
    while let Some(at) = rest.windows(old.len()).position(|window| window == old) {
        result.extend(&rest[..at]);
        result.extend(new);
        rest = &rest[at + old.len()..];
    }
    result.extend(rest);
    result
}
