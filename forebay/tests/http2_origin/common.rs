//! Origins that speak HTTP/2: one by the crate `h2`, and one that writes raw frames.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use bytes::Bytes;
use forebay_testkit::tls::IssuedCertificate;
use forebay_testkit::tls::rustls::ServerConfig;
use forebay_testkit::tls::rustls::pki_types::pem::PemObject;
use forebay_testkit::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use forebay_testkit::{Client, Response, Server, ServerBuilder};
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin that answers requests over HTTP/2 by a function.
pub(crate) struct Http2Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// A request that the origin has got, and the means to answer it.
pub(crate) struct Exchange {
    pub(crate) request: Request<RecvStream>,
    pub(crate) respond: SendResponse<Bytes>,
}

impl Exchange {
    pub(crate) fn path(&self) -> String {
        self.request.uri().path_and_query().map(ToString::to_string).unwrap_or_default()
    }

    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let value = self.request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// Reads the body of the request; returns it and the trailer `name`.
    pub(crate) async fn read(&mut self, name: &str) -> (Vec<u8>, Option<String>) {
        let (mut body, stream) = (Vec::new(), self.request.body_mut());
        while let Some(piece) = stream.data().await {
            let piece = piece.expect("a whole request");
            stream.flow_control().release_capacity(piece.len()).expect("an open stream");
            body.extend_from_slice(&piece);
        }
        let trailers = stream.trailers().await.expect("a whole request");
        let value = trailers.and_then(|fields| fields.get(name).cloned());
        (body, value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()))
    }

    /// Sends a response with this body.
    pub(crate) async fn answer(mut self, fields: &[(&str, &str)], body: &[u8]) {
        let mut response = http::Response::builder();
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let response = response.body(()).expect("a response");
        let Ok(mut stream) = self.respond.send_response(response, false) else { return };
        let mut rest = Bytes::copy_from_slice(body);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(Ok(count)) => {
                    let piece = rest.split_to(count.min(rest.len()));
                    if stream.send_data(piece, false).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
        let _ = stream.send_data(Bytes::new(), true);
    }
}

impl Http2Origin {
    /// Starts an origin without TLS, whose connections permit `streams_max` streams.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        streams_max: u32,
        answer: fn(Exchange) -> F,
    ) -> Http2Origin {
        Http2Origin::start_with(None, streams_max, answer)
    }

    /// Starts an origin over TLS, which supports these protocols. Over HTTP/1.1, it answers each
    /// request with its head.
    pub(crate) fn start_tls<F: Future<Output = ()> + 'static>(
        certificate: &IssuedCertificate,
        protocols: &[&str],
        answer: fn(Exchange) -> F,
    ) -> Http2Origin {
        let chain = CertificateDer::pem_slice_iter(certificate.cert.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("a key");
        let provider = forebay_testkit::tls::rustls::crypto::aws_lc_rs::default_provider();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).expect("a certificate");
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Http2Origin::start_with(Some(TlsAcceptor::from(Arc::new(config))), 100, answer)
    }

    fn start_with<F: Future<Output = ()> + 'static>(
        tls: Option<TlsAcceptor>,
        streams_max: u32,
        answer: fn(Exchange) -> F,
    ) -> Http2Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("it is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            LocalSet::new().block_on(&runtime.expect("an event loop"), async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                while let Ok((stream, _)) = listener.accept().await {
                    count.fetch_add(1, Relaxed);
                    let tls = tls.clone();
                    tokio::task::spawn_local(async move {
                        let Some(tls) = tls else {
                            return serve(stream, streams_max, answer).await;
                        };
                        let Ok(stream) = tls.accept(stream).await else { return };
                        match stream.get_ref().1.alpn_protocol() {
                            Some(b"h2") => serve(stream, streams_max, answer).await,
                            _ => serve_http1(stream).await,
                        }
                    });
                }
            });
        });
        Http2Origin { address, connections }
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

async fn serve<F: Future<Output = ()> + 'static>(
    io: impl AsyncRead + AsyncWrite + Unpin,
    streams_max: u32,
    answer: fn(Exchange) -> F,
) {
    let mut builder = Builder::new();
    let handshake = builder.max_concurrent_streams(streams_max).handshake::<_, Bytes>(io).await;
    let Ok(mut connection) = handshake else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::task::spawn_local(answer(Exchange { request, respond }));
    }
}

async fn serve_http1(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let mut head = Vec::new();
    while let Ok(byte) = io.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            let length = head.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {length}");
            let answer = [answer.as_bytes(), b"\r\n\r\n", &head].concat();
            if io.write_all(&answer).await.is_err() {
                return;
            }
            let _ = io.flush().await;
            head.clear();
        }
    }
}

/// A server whose origin speaks HTTP/2 without TLS.
pub(crate) fn builder(origin: SocketAddr) -> ServerBuilder {
    ServerBuilder::new(PROGRAM)
        .flag("--workers", "1")
        .flag("--origin", &format!("http://{origin}"))
        .flag("--origin-http2", "always")
}

pub(crate) fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    let fields = [fields, &["Connection: close"]].concat();
    Client::connect(server.address()).ask(method, target, &fields).expect("an answer")
}

/// One connection of an origin that reads and writes raw frames.
pub(crate) struct RawConnection {
    stream: TcpStream,
    /// The number of connections before this one.
    pub(crate) number: usize,
}

/// A frame that the server has sent.
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const END_STREAM: u8 = 1;

fn big_endian(number: u32) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

impl RawConnection {
    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = payload.len();
        let mut frame = vec![(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags];
        frame.extend(big_endian(stream));
        frame.extend_from_slice(payload);
        // The server may have closed the connection.
        let _ = self.stream.write_all(&frame);
    }

    /// Sends the head of a response, as literals without indexing.
    pub(crate) fn head(&mut self, stream: u32, is_last: bool, lines: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in lines {
            block.push(0);
            for text in [name, value] {
                let (mut length, mut prefix) = (text.len(), Vec::new());
                if length < 127 {
                    prefix.push(length as u8);
                } else {
                    prefix.push(127);
                    length -= 127;
                    while length >= 128 {
                        prefix.push((length % 128) as u8 | 128);
                        length /= 128;
                    }
                    prefix.push(length as u8);
                }
                block.extend(prefix);
                block.extend_from_slice(text.as_bytes());
            }
        }
        let mut pieces = block.chunks(16_000).peekable();
        let mut kind = 1;
        while let Some(piece) = pieces.next() {
            let end_headers = if pieces.peek().is_none() { 4 } else { 0 };
            let end_stream = u8::from(is_last && kind == 1);
            self.frame(kind, end_headers | end_stream, stream, piece);
            kind = 9;
        }
    }

    /// Sends a whole response with `body`.
    pub(crate) fn answer(&mut self, stream: u32, body: &[u8]) {
        self.head(stream, false, &[(":status", "200"), ("cache-control", "no-store")]);
        self.frame(0, END_STREAM, stream, body);
    }

    pub(crate) fn reset(&mut self, stream: u32, code: u8) {
        self.frame(3, 0, stream, &[0, 0, 0, code]);
    }

    /// Permits the server to send more bytes on a stream, or on the connection (0).
    pub(crate) fn widen(&mut self, stream: u32, bytes: u32) {
        self.frame(8, 0, stream, &big_endian(bytes));
    }

    /// Changes a setting.
    pub(crate) fn set(&mut self, setting: u8, value: u32) {
        self.frame(4, 0, 0, &[&[0, setting], &big_endian(value)[..]].concat());
    }

    /// Reads until the body of the next request has `bytes_max` bytes, or is whole; returns its
    /// stream and the body.
    pub(crate) fn body(&mut self, bytes_max: usize) -> Option<(u32, Vec<u8>)> {
        let mut body = Vec::new();
        loop {
            let frame = self.read()?;
            if frame.kind == 0 {
                body.extend_from_slice(&frame.payload);
                if frame.flags & END_STREAM != 0 || body.len() >= bytes_max {
                    return Some((frame.stream, body));
                }
            }
        }
    }

    pub(crate) fn go_away(&mut self, last_stream: u32) {
        self.frame(7, 0, 0, &[0, 0, 0, last_stream as u8, 0, 0, 0, 0]);
    }

    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Reads the next frame; `None` once the connection has ended.
    pub(crate) fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = stream.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        if (kind, flags & 1) == (4, 0) {
            self.frame(4, 1, 0, b"");
        }
        Some(Frame { kind, flags, stream, payload })
    }

    /// Reads until a request is whole; returns its stream.
    pub(crate) fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.read()?;
            if matches!(frame.kind, 0 | 1) && frame.flags & END_STREAM != 0 {
                return Some(frame.stream);
            }
        }
    }
}

/// Starts an origin that writes raw frames: `serve` gets each connection, after the preface and the
/// SETTINGS.
pub(crate) fn raw_origin(serve: fn(RawConnection)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let mut preface = [0; 24];
                if stream.read_exact(&mut preface).is_err() {
                    return;
                }
                let mut connection = RawConnection { stream, number };
                connection.frame(4, 0, 0, b"");
                serve(connection);
            });
        }
    });
    address
}
