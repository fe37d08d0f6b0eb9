//! Clients of HTTP/2, and the origin of these tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use forebay_testkit::{Origin, PATIENCE, Script, Server, eventually};
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use tokio::task::LocalSet;

/// The origin of these tests. `/stored/N` is storable and has N bytes, `/cut` breaks off, `/early`
/// sends an interim response, and `/trailers` ends with trailers. Any other path answers once the
/// request's body has been read.
pub(crate) fn origin() -> Origin {
    Origin::start(|request| {
        if let Some(size) = request.target.strip_prefix("/stored/") {
            let body = vec![b'x'; size.parse().expect("a size")];
            return Script::answer("200 OK", &["Cache-Control: max-age=3600"], &body);
        }
        match &request.target[..] {
            "/cut" => Script::new().send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").close(),
            "/early" => Script::new()
                .send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
                .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            "/trailers" => Script::new().send(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                 3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
            ),
            _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"read"),
        }
    })
}

/// Runs `test` with a connection of the `h2` crate, and ends the connection.
pub(crate) fn with_client<F: Future<Output = ()>>(
    server: SocketAddr,
    builder: &Builder,
    test: impl FnOnce(SendRequest<Bytes>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = LocalSet::new();
    local.block_on(&runtime.expect("an event loop"), async {
        let stream = tokio::net::TcpStream::connect(server).await.expect("it listens");
        let (client, connection) = builder.handshake(stream).await.expect("a handshake");
        let driver = tokio::task::spawn_local(connection);
        test(client).await;
        driver.abort();
    });
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Sends a request with a body in pieces, and reads its response.
pub(crate) async fn ask(
    client: &SendRequest<Bytes>,
    request: Request<()>,
    pieces: &[&[u8]],
) -> Result<Answer, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, mut body) = client.send_request(request, pieces.is_empty())?;
    for (at, piece) in pieces.iter().enumerate() {
        body.send_data(Bytes::copy_from_slice(piece), at + 1 == pieces.len())?;
    }
    let response = response.await?;
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    let (mut stream, mut body) = (response.into_body(), Vec::new());
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(Answer { status, fields, body, trailers: stream.trailers().await? })
}

pub(crate) fn get(scheme: &str, path: &str) -> Request<()> {
    Request::get(format!("{scheme}://a.example{path}")).body(()).expect("a request")
}

/// Checks that large responses arrive whole at a client that sends nothing while it reads: no
/// WINDOW_UPDATE, and no other frame that would wake the server. A response fits into the pipe of
/// its stream, so its task ends before the response is sent, and no longer wakes the connection.
pub(crate) fn assert_silent_client_is_served(address: SocketAddr, scheme: &'static str) {
    const STREAMS: u32 = 50;
    let mut client = RawClient::connect(address);
    client.frame(4, 0, 0, b"\0\x04\x40\0\0\0");
    client.frame(8, 0, 0, b"\x40\0\0\0");
    let lines =
        [(":method", "GET"), (":scheme", scheme), (":authority", "a"), (":path", "/stored/30000")];
    client.request(1, &lines);
    let (mut ends, mut body_bytes) = (0, 0);
    while ends < STREAMS {
        let frame = client.read().expect("the responses stall");
        let is_end = matches!(frame.kind, 0 | 1) && frame.flags & 1 != 0;
        if frame.kind == 0 {
            body_bytes += frame.payload.len();
        }
        if is_end && ends == 0 {
            // The response is stored now.
            (1..STREAMS).for_each(|number| client.request(2 * number + 1, &lines));
        }
        ends += u32::from(is_end);
    }
    assert_eq!(body_bytes, STREAMS as usize * 30_000);
}

/// A connection that writes raw frames.
pub(crate) struct RawClient(pub(crate) TcpStream);

impl RawClient {
    pub(crate) fn connect(server: SocketAddr) -> RawClient {
        let mut stream = TcpStream::connect(server).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("an open connection");
        let mut client = RawClient(stream);
        client.frame(4, 0, 0, b"");
        client.frame(4, 1, 0, b"");
        client
    }

    /// Sends a frame; the server may have closed the connection.
    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.0.write_all(&frame_bytes(kind, flags, stream, payload)).is_ok()
    }

    /// Sends a request as literals without indexing.
    pub(crate) fn request(&mut self, stream: u32, lines: &[(&str, &str)]) {
        self.headers(stream, 5, lines);
    }

    /// Sends the head of a request whose body follows.
    pub(crate) fn begin_request(&mut self, stream: u32, lines: &[(&str, &str)]) {
        self.headers(stream, 4, lines);
    }

    fn headers(&mut self, stream: u32, flags: u8, lines: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in lines {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("a short text"));
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.frame(1, flags, stream, &block);
    }

    /// Reads a frame.
    pub(crate) fn read(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload)?;
        let stream = stream.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        Ok(Frame { kind, flags, stream, payload })
    }

    /// Reads until a PING is answered, and returns the kinds and streams of all frames before.
    pub(crate) fn until_pong(&mut self) -> Vec<(u8, u32)> {
        self.frame(6, 0, 0, b"pingpong");
        let mut frames = Vec::new();
        loop {
            let frame = self.read().expect("a frame");
            if (frame.kind, frame.flags) == (6, 1) {
                return frames;
            }
            frames.push((frame.kind, frame.stream));
        }
    }
}

/// Returns the bytes of a frame.
pub(crate) fn frame_bytes(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut frame = vec![(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags];
    frame.extend([24, 16, 8, 0].map(|shift| (stream >> shift) as u8));
    frame.extend_from_slice(payload);
    frame
}

/// A frame that a server has sent.
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Checks that floods through `address` end their connection, and that other clients are served.
pub(crate) fn assert_floods_are_bounded(
    server: &Server,
    address: SocketAddr,
    scheme: &'static str,
) {
    let get: &[u8] = match scheme {
        "http" => b"\x82\x86\x84\x01\x01a",
        _ => b"\x82\x87\x84\x01\x01a",
    };
    type Flood = (&'static str, fn(&mut RawClient, u32, &[u8]) -> bool);
    let floods: [Flood; 4] = [
        ("PING", |client, _, _| client.frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", |client, _, _| client.frame(4, 0, 0, b"\0\x04\0\0\xff\xff")),
        ("rapid reset", |client, round, get| {
            let stream = 2 * round + 1;
            client.frame(1, 5, stream, get) && client.frame(3, 0, stream, b"\0\0\0\x08")
        }),
        ("malformed requests", |client, round, _| client.frame(1, 5, 2 * round + 1, b"\x82")),
    ];
    for (name, flood) in floods {
        let before = server.stat("http2_errors_total");
        let mut client = RawClient::connect(address);
        let mut reader = client.0.try_clone().expect("few files are open");
        // The answers are read, so that only the budget ends the flood.
        let reading = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        for round in 0..20_000 {
            if !flood(&mut client, round, get) {
                break;
            }
        }
        eventually(name, || server.stat("http2_errors_total") == before + 1.0);
        drop(client);
        let _ = reading.join().expect("no panic");
        with_client(address, &Builder::new(), |client| async move {
            let answer = ask(&client, self::get(scheme, "/stored/10"), &[])
                .await
                .expect("another client is served");
            assert_eq!(answer.status, 200);
        });
    }
    assert!(server.stat("http2_glitches_total") > 400.0);
}
