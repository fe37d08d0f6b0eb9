//! A client of HTTP/1.1 or HTTP/2, with or without TLS, for measurements of hits: it sends requests
//! in one write and reads their responses, whose lengths must be known.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::clock::PATIENCE;

/// The name of the server, in requests and in TLS.
pub const HOST: &str = "a.example";

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A request and the status of its response.
#[derive(Clone, Copy, Debug)]
pub struct HitRequest<'a> {
    /// `GET` or `HEAD`.
    pub method: &'static str,
    /// The path and the query.
    pub target: &'a str,
    /// Names and values of further fields.
    pub fields: &'a [(&'a str, &'a str)],
    /// The status of the response: 200, 206 or 304.
    pub status: u16,
}

trait SocketStream: Read + Write {}

impl<T: Read + Write> SocketStream for T {}

/// A connection to the server.
pub struct HitClient {
    wire: Box<dyn SocketStream>,
    version: ClientVersion,
    scheme: &'static str,
    output: Vec<u8>,
    input: Vec<u8>,
    /// The unread part of `input`.
    unread: Range<usize>,
    /// The next stream of HTTP/2.
    stream: u32,
    heads: Vec<u8>,
}

/// The kinds of frames that the client uses (RFC 9113 §6).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const WINDOW_UPDATE: u8 = 8;
}
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const FRAME_HEAD_BYTES: usize = 9;

/// The number of bytes that a client reads ahead: more than the responses to one
/// [`HitClient::send`] have in these measurements.
const INPUT_BYTES: usize = 4 << 20;

impl HitClient {
    /// Connects without TLS.
    pub fn connect(server: SocketAddr, version: ClientVersion) -> HitClient {
        HitClient::over(Box::new(open(server)), version, "http")
    }

    /// Connects over TLS.
    pub fn connect_tls(
        server: SocketAddr,
        version: ClientVersion,
        config: &Arc<ClientConfig>,
    ) -> HitClient {
        let mut config = ClientConfig::clone(config);
        let protocol = if version == ClientVersion::Http2 { "h2" } else { "http/1.1" };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from(HOST).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("valid settings");
        HitClient::over(Box::new(StreamOwned::new(connection, open(server))), version, "https")
    }

    fn over(
        wire: Box<dyn SocketStream>,
        version: ClientVersion,
        scheme: &'static str,
    ) -> HitClient {
        let mut client = HitClient {
            wire,
            version,
            scheme,
            output: Vec::new(),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            stream: 1,
            heads: Vec::new(),
        };
        if version == ClientVersion::Http2 {
            client.output.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            // SETTINGS_INITIAL_WINDOW_SIZE of 1 MiB, and 1 GiB for the connection.
            client.frame(kind::SETTINGS, 0, 0, b"\0\x04\0\x10\0\0");
            client.frame(kind::SETTINGS, ACK, 0, b"");
            client.frame(kind::WINDOW_UPDATE, 0, 0, b"\x40\0\0\0");
        }
        client
    }

    /// Sends requests and reads their responses.
    pub fn ask(&mut self, requests: &[HitRequest<'_>]) {
        self.send(requests);
        self.receive(requests);
    }

    /// Sends requests in one write.
    pub fn send(&mut self, requests: &[HitRequest<'_>]) {
        for request in requests {
            match self.version {
                ClientVersion::Http1 => self.write_http1(request),
                ClientVersion::Http2 => self.write_http2(request),
            }
        }
        self.wire.write_all(&self.output).expect("the connection is kept");
        self.wire.flush().expect("the connection is kept");
        self.output.clear();
    }

    /// Reads the responses to the requests that were sent last.
    pub fn receive(&mut self, requests: &[HitRequest<'_>]) {
        self.heads.clear();
        match self.version {
            ClientVersion::Http1 => requests.iter().for_each(|request| self.read_http1(request)),
            ClientVersion::Http2 => self.read_http2(requests),
        }
        assert!(self.unread.is_empty(), "more bytes arrived than the responses");
    }

    /// Returns the heads of the last responses, one after another: lines of text, or header blocks.
    pub fn heads(&self) -> &[u8] {
        &self.heads
    }

    fn write_http1(&mut self, request: &HitRequest<'_>) {
        let HitRequest { method, target, fields, .. } = request;
        let line = format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n");
        self.output.extend_from_slice(line.as_bytes());
        for (name, value) in *fields {
            self.output.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        self.output.extend_from_slice(b"\r\n");
    }

    fn read_http1(&mut self, request: &HitRequest<'_>) {
        let begin = format!("HTTP/1.1 {} ", request.status);
        let (head_bytes, bytes) = loop {
            let input = &self.input[self.unread.clone()];
            let is_expected = input.len() < begin.len() || input.starts_with(begin.as_bytes());
            assert!(is_expected, "{request:?}: another status");
            match length_of_response(input, request.method == "HEAD") {
                Some(lengths) => break lengths,
                None => self.fill(),
            }
        };
        let start = self.unread.start;
        self.heads.extend_from_slice(&self.input[start..start + head_bytes]);
        self.unread.start += bytes;
    }

    /// Writes a request as literals that the server adds to its table (RFC 7541 §6.2.1).
    fn write_http2(&mut self, request: &HitRequest<'_>) {
        let pseudo = [
            (":method", request.method),
            (":scheme", self.scheme),
            (":authority", HOST),
            (":path", request.target),
        ];
        let mut block = Vec::new();
        for (name, value) in pseudo.iter().chain(request.fields) {
            block.push(0x40);
            for text in [name.to_ascii_lowercase().as_bytes(), value.as_bytes()] {
                push_length(text.len(), &mut block);
                block.extend_from_slice(text);
            }
        }
        self.frame(kind::HEADERS, END_STREAM | END_HEADERS, self.stream, &block);
        self.stream += 2;
    }

    fn read_http2(&mut self, requests: &[HitRequest<'_>]) {
        let (mut left, mut body_bytes) = (requests.len(), 0);
        while left > 0 {
            let (kind, flags, payload) = self.read_frame();
            let payload = &self.input[payload];
            match kind {
                kind::HEADERS => {
                    let status = status_of(payload);
                    let is_expected = requests.iter().any(|request| request.status == status);
                    assert!(is_expected, "a response has the status {status}");
                    self.heads.extend_from_slice(payload);
                }
                kind::DATA => body_bytes += payload.len(),
                kind::SETTINGS | kind::WINDOW_UPDATE => continue,
                kind => panic!("a frame of kind {kind}: {payload:?}"),
            }
            left -= usize::from(flags & END_STREAM != 0);
        }
        if body_bytes > 0 {
            let bytes = [24, 16, 8, 0].map(|shift| (body_bytes >> shift) as u8);
            self.frame(kind::WINDOW_UPDATE, 0, 0, &bytes);
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = payload.len();
        let head = [(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags];
        self.output.extend_from_slice(&head);
        self.output.extend([24, 16, 8, 0].map(|shift| (stream >> shift) as u8));
        self.output.extend_from_slice(payload);
    }

    /// Reads a frame; returns its kind, its flags, and the place of its payload in the input.
    fn read_frame(&mut self) -> (u8, u8, Range<usize>) {
        loop {
            let Range { start, end } = self.unread.clone();
            if let [high, middle, low, kind, flags, ..] = self.input[start..end] {
                let length =
                    [high, middle, low].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                let payload = start + FRAME_HEAD_BYTES;
                if end >= payload + length {
                    self.unread.start = payload + length;
                    return (kind, flags, payload..payload + length);
                }
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.input.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let count = self.wire.read(&mut self.input[self.unread.end..]).expect("a response");
        assert!(count > 0, "the connection is kept");
        self.unread.end += count;
    }
}

impl std::fmt::Debug for HitClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HitClient({:?}, {})", self.version, self.scheme)
    }
}

fn open(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server, PATIENCE).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Appends the length of a text without Huffman code (RFC 7541 §5.1).
fn push_length(length: usize, block: &mut Vec<u8>) {
    match length {
        0..127 => block.push(length as u8),
        127..255 => block.extend([127, (length - 127) as u8]),
        _ => panic!("a text of {length} bytes is too long"),
    }
}

/// Returns the status of a header block, which begins with an index of the static table (RFC 7541
/// appendix A).
fn status_of(block: &[u8]) -> u16 {
    match block.first() {
        Some(0x88) => 200,
        Some(0x8a) => 206,
        Some(0x8b) => 304,
        _ => panic!("a response with another status: {block:?}"),
    }
}

/// Returns the lengths of the head and of the whole response in bytes; `None` until all of it has
/// arrived.
fn length_of_response(input: &[u8], is_head: bool) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let head = input.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let length = input[..head].windows(LENGTH.len()).position(|part| part == LENGTH);
    let body = length.filter(|_| !is_head).map_or(0, |at| {
        let digits = input[at + LENGTH.len()..head].iter().take_while(|b| b.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    (input.len() >= head + body).then_some((head, head + body))
}
