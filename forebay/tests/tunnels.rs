//! WebSocket tunnels: frames through the real server, refused upgrades, limits, and their end.
#![expect(clippy::disallowed_types, reason = "the script of a test is not profiled")]
#![expect(clippy::big_endian_bytes, reason = "the lengths of frames are in network byte order")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_testkit::tls::IssuedCertificate;
use forebay_testkit::tls::rustls::crypto::aws_lc_rs;
use forebay_testkit::tls::rustls::pki_types::pem::PemObject;
use forebay_testkit::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use forebay_testkit::tls::rustls::{ALL_VERSIONS, ServerConfig, ServerConnection, StreamOwned};
use forebay_testkit::{
    Client, PATIENCE, Server, ServerBuilder, Signal, TestAuthority, TlsClient, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The key and its answer in RFC 6455 §1.3.
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const ACCEPT: &str = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// An origin that speaks the WebSocket protocol; the path of a request selects what it does.
struct WebSocketOrigin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl WebSocketOrigin {
    fn start() -> WebSocketOrigin {
        WebSocketOrigin::serving(|stream, seen| serve(&mut WebSocket::new(stream), seen))
    }

    /// Starts an origin over TLS with this certificate.
    fn over_tls(certificate: &IssuedCertificate) -> WebSocketOrigin {
        let chain = CertificateDer::from_pem_slice(certificate.cert.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key);
        let config = Arc::new(config.expect("the key is its own"));
        WebSocketOrigin::serving(move |stream, seen| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("valid settings");
            let stream = StreamOwned::new(connection, patient(stream));
            let mut socket = WebSocket { stream, unread: VecDeque::new() };
            serve(&mut socket, seen);
            socket.stream.conn.send_close_notify();
            let _ = socket.stream.flush();
        })
    }

    fn serving(
        serve: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static,
    ) -> WebSocketOrigin {
        let serve = Arc::new(serve);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (serve, seen) = (Arc::clone(&serve), Arc::clone(&seen));
                thread::spawn(move || serve(stream, &seen));
            }
        });
        WebSocketOrigin { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no test panics while it holds the lock").clone()
    }

    /// Starts a server with one worker in front of this origin, which permits tunnels.
    fn server(&self, flags: &[(&str, &str)]) -> Server {
        builder(self.address, flags).start()
    }
}

fn builder(origin: SocketAddr, flags: &[(&str, &str)]) -> ServerBuilder {
    let url = format!("http://{origin}");
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1").flag("--origin", &url);
    let builder = builder.flag("--upgrade-protocols", "websocket");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value))
}

/// Serves the requests of one connection.
fn serve(socket: &mut WebSocket<impl Read + Write>, seen: &Mutex<Vec<String>>) {
    while let Some(head) = socket.head() {
        seen.lock().expect("no test panics while it holds the lock").push(head.clone());
        let answers_upgrade = head.to_ascii_lowercase().contains("\r\nupgrade: ");
        let target = head.split(' ').nth(1).unwrap_or_default();
        let switch = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             {ACCEPT}X-Origin: yes\r\n\r\n"
        );
        match target {
            "/wrong" => socket.send(switch.replace("websocket", "other").as_bytes()),
            "/greet" if answers_upgrade => {
                let mut greeting = switch.into_bytes();
                greeting.extend(frame(TEXT, b"hello", None));
                socket.send(&greeting);
                return socket.echo();
            }
            "/echo" if answers_upgrade => {
                socket.send(switch.as_bytes());
                return socket.echo();
            }
            _ => {
                let fields = "Content-Length: 5\r\nCache-Control: max-age=60\r\n";
                socket.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nplain").as_bytes());
            }
        }
    }
}

/// One side of a WebSocket connection (RFC 6455).
struct WebSocket<S = TcpStream> {
    stream: S,
    unread: VecDeque<u8>,
}

/// Sets the time limits of a connection's reads and writes, so that no test waits forever.
fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

impl WebSocket {
    fn new(stream: TcpStream) -> WebSocket {
        WebSocket { stream: patient(stream), unread: VecDeque::new() }
    }

    /// Opens a tunnel through the server; returns it with the head of the 101.
    fn open(server: SocketAddr, target: &str) -> (WebSocket, String) {
        let mut socket = WebSocket::new(TcpStream::connect(server).expect("it listens"));
        socket.send(request(target).as_bytes());
        let head = socket.head().expect("an answer");
        (socket, head)
    }
}

impl<S: Read + Write> WebSocket<S> {
    fn send(&mut self, bytes: &[u8]) {
        // The other side may have ended; then the next read shows it.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// Reads more bytes; returns false at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut space = [0; 16 << 10];
        let count = self.stream.read(&mut space).unwrap_or(0);
        self.unread.extend(&space[..count]);
        count > 0
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            if !self.fill() {
                return None;
            }
        }
        Some(self.unread.drain(..count).collect())
    }

    fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.take(1)?);
        }
        Some(String::from_utf8(head).expect("a head is text"))
    }

    /// Reads a frame; returns its kind and its payload without the mask.
    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let start = self.take(2)?;
        let length = match start[1] & 0x7F {
            126 => u64::from(u16::from_be_bytes(self.take(2)?.try_into().expect("two bytes"))),
            127 => u64::from_be_bytes(self.take(8)?.try_into().expect("eight bytes")),
            short => u64::from(short),
        };
        let mask = if start[1] & 0x80 == 0 { vec![0; 4] } else { self.take(4)? };
        let payload = self.take(usize::try_from(length).expect("it fits"))?;
        let unmasked = payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]);
        Some((start[0] & 0x0F, unmasked.collect()))
    }

    /// Sends each frame back, until a frame closes the connection.
    fn echo(&mut self) {
        while let Some((kind, payload)) = self.frame() {
            self.send(&frame(kind, &payload, None));
            if kind == CLOSE {
                break;
            }
        }
    }

    /// Sends a text and reads it back.
    fn exchange(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        self.send(&frame(TEXT, text, Some([1, 2, 3, 4])));
        let (kind, payload) = self.frame()?;
        assert_eq!(kind, TEXT);
        Some(payload)
    }

    fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill()
    }
}

fn request(target: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\n{KEY}\r\n"
    )
}

fn frame(kind: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match payload.len() {
        short @ 0..126 => frame.push(masked | short as u8),
        medium @ 126..0x1_0000 => {
            frame.push(masked | 126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(masked | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    let mask_bytes = mask.unwrap_or_default();
    frame.extend(mask.into_iter().flatten());
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask_bytes[at % 4]));
    frame
}

#[test]
fn frames_of_all_sizes_pass_in_both_directions() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[("--access-log", "-")]);
    let (mut socket, head) = WebSocket::open(server.address(), "/echo");
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for line in ["connection: upgrade", "upgrade: websocket", ACCEPT.trim(), "x-origin: yes"] {
        let lines: Vec<_> = head.lines().filter(|found| found.eq_ignore_ascii_case(line)).collect();
        assert_eq!(lines.len(), 1, "{line} in {head}");
    }
    let asked = origin.heads().concat().to_ascii_lowercase();
    for line in ["connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-key: "] {
        assert_eq!(asked.matches(line).count(), 1, "{line} in {asked}");
    }
    assert_eq!(server.stat("tunnels_open"), 1.0);
    assert_eq!(server.stat("origin_connections_open"), 1.0);
    for bytes in [0, 1, 125, 126, 70_000, 3_000_000] {
        let text: Vec<u8> = (0..bytes).map(|at| (at / 3 % 251) as u8).collect();
        // The origin sends back while this side still sends, so both buffers must drain.
        let mut sender = WebSocket::new(socket.stream.try_clone().expect("a descriptor"));
        let sent = frame(TEXT, &text, Some([9, 8, 7, 6]));
        let sending = thread::spawn(move || sender.send(&sent));
        assert!(socket.frame() == Some((TEXT, text)), "{bytes} bytes");
        sending.join().expect("it sends");
    }
    socket.send(&frame(CLOSE, b"", Some([0; 4])));
    assert_eq!(socket.frame(), Some((CLOSE, Vec::new())));
    assert!(socket.is_closed());
    eventually("the tunnel has ended", || server.stat("tunnels_open") == 0.0);
    eventually("its connection is closed", || server.stat("origin_connections_open") == 0.0);
    assert_eq!(server.stat("tunnels_total"), 1.0);
    eventually("the log has the bytes of both directions", || {
        let output = server.output();
        let line = output.lines().find(|line| line.contains("\"/echo\"")).unwrap_or_default();
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        // 26 bytes of masks more than the other direction: four for each of seven frames, less the
        // bytes that differ.
        let (up, down) = (&entry["tunnel_bytes_in"], &entry["body_bytes"]);
        let payload = 3_070_252;
        entry["status"] == 101
            && up.as_u64().is_some_and(|up| up > payload)
            && up.as_u64() == down.as_u64().map(|down| down + 7 * 4)
            && entry["cache"] == "forebay; fwd=bypass; fwd-status=101; detail=tunnel"
    });
}

#[test]
fn bytes_that_arrive_with_the_heads_are_passed_on() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[]);
    let mut socket = WebSocket::new(TcpStream::connect(server.address()).expect("it listens"));
    let mut early = request("/greet").into_bytes();
    early.extend(frame(TEXT, b"early", Some([5; 4])));
    socket.send(&early);
    assert!(socket.head().is_some_and(|head| head.starts_with("HTTP/1.1 101 ")));
    assert_eq!(socket.frame(), Some((TEXT, b"hello".to_vec())));
    assert_eq!(socket.frame(), Some((TEXT, b"early".to_vec())));
    // The end of this side's stream reaches the origin, whose end then reaches this side.
    socket.stream.shutdown(Shutdown::Write).expect("it is open");
    assert!(socket.is_closed());
    eventually("the tunnel has ended", || server.stat("tunnels_open") == 0.0);
}

#[test]
fn tunnels_pass_over_tls_on_both_sides() {
    let authority = TestAuthority::new();
    let origin = WebSocketOrigin::over_tls(&authority.issue(&["127.0.0.1"]));
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let folder = builder.path("");
    let (cert, key) = authority.issue(&["localhost"]).write(&folder, "default");
    let ca = builder.path("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("the folder is ours");
    let server = builder
        .flag("--origin", &format!("https://{}", origin.address))
        .flag("--origin-ca", &ca.display().to_string())
        .flag("--upgrade-protocols", "websocket")
        .flag("--listen-tls", "127.0.0.1:0")
        .flag("--tls-cert", &cert.display().to_string())
        .flag("--tls-key", &key.display().to_string())
        .start();
    let config = authority.client(ALL_VERSIONS);
    let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).expect("TLS");
    let text = vec![b'x'; 300_000];
    client.send(request("/echo")).expect("it is open");
    client.send(frame(TEXT, &text, Some([3; 4]))).expect("it is open");
    client.send(frame(CLOSE, b"", Some([0; 4]))).expect("it is open");
    let received = client.read_to_end().expect("an end with close_notify");
    let head_bytes = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let frames = [frame(TEXT, &text, None), frame(CLOSE, b"", None)].concat();
    assert!(received[head_bytes..] == frames, "{} bytes", received.len());
}

#[test]
fn a_declined_upgrade_is_an_ordinary_response_that_is_never_stored() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[]);
    let mut client = Client::connect(server.address());
    for _ in 0..2 {
        assert!(client.send(request("/plain")));
        let answer = client.response("GET").expect("whole");
        assert_eq!((answer.status, answer.text().as_str()), (200, "plain"));
        let status = answer.field("cache-status").expect("every response has one");
        assert_eq!(status, "forebay; fwd=bypass; fwd-status=200; detail=tunnel");
    }
    // The connection still takes ordinary requests, and the store has nothing.
    let answer = client.ask("GET", "/plain", &[]).expect("whole");
    assert!(answer.field("cache-status").is_some_and(|status| status.contains("uri-miss")));
    assert_eq!(server.stat("tunnels_declined_total"), 2.0);
    assert_eq!((server.stat("tunnels_total"), server.stat("tunnels_open")), (0.0, 0.0));
}

#[test]
fn only_permitted_protocols_are_asked_of_the_origin() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[]);
    let mut client = Client::connect(server.address());
    for (connection, upgrade, version, expected) in [
        ("Upgrade", "h2c, WebSocket", "1.1", Some("upgrade: websocket\r\n")),
        ("Upgrade, HTTP2-Settings", "h2c", "1.1", None),
        ("close", "websocket", "1.1", None),
        ("Upgrade, keep-alive", "websocket", "1.0", None),
    ] {
        let count = origin.heads().len();
        assert!(client.send(format!(
            "GET /plain?{count} HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\n\
             Upgrade: {upgrade}\r\n\r\n"
        )));
        assert_eq!(client.response("GET").expect("whole").status, 200);
        let asked = origin.heads()[count].to_ascii_lowercase();
        let case = format!("{connection} {upgrade} {version}: {asked}");
        assert_eq!(asked.contains("\r\nupgrade:"), expected.is_some(), "{case}");
        assert!(expected.is_none_or(|line| asked.contains(line)), "{case}");
        assert!(!asked.contains("h2c"), "{case}");
        if connection == "close" || version == "1.0" {
            client = Client::connect(server.address());
        }
    }
    // A body would have to be read before the switch, even if it is empty.
    for (method, body) in [("POST", "hi"), ("GET", "")] {
        assert!(client.send(format!(
            "{method} /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )));
        assert_eq!(client.response(method).expect("whole").status, 200);
    }
}

#[test]
fn a_switch_to_another_protocol_is_a_bad_answer() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[]);
    let (_, head) = WebSocket::open(server.address(), "/wrong");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert_eq!(server.stat("origin_bad_answers_total"), 1.0);
    eventually("its connection is closed", || server.stat("origin_connections_open") == 0.0);
}

#[test]
fn tunnels_beyond_a_limit_are_refused() {
    for limit in ["--tunnels-per-worker-max", "--tunnels-per-address-max"] {
        let origin = WebSocketOrigin::start();
        let server = origin.server(&[(limit, "1"), ("--origin-connections-max", "1")]);
        let (mut first, head) = WebSocket::open(server.address(), "/echo");
        assert!(head.starts_with("HTTP/1.1 101 "), "{limit}: {head}");
        let (_, head) = WebSocket::open(server.address(), "/echo");
        assert!(head.starts_with("HTTP/1.1 503 "), "{limit}: {head}");
        assert_eq!(server.stat("tunnels_refused_total"), 1.0, "{limit}");
        assert!(server.errors().contains("tunnel_refused"), "{limit}");
        // A tunnel does not hold the only permit of the origin.
        let plain = Client::connect(server.address()).ask("GET", "/plain", &[]);
        assert_eq!(plain.expect("whole").status, 200, "{limit}");
        assert_eq!(first.exchange(b"still open").as_deref(), Some(&b"still open"[..]));
        drop(first);
        eventually("there is room again", || {
            WebSocket::open(server.address(), "/echo").1.starts_with("HTTP/1.1 101 ")
        });
    }
}

#[test]
fn a_tunnel_without_traffic_is_closed() {
    let origin = WebSocketOrigin::start();
    let server = origin.server(&[("--tunnel-idle-ms-max", "300ms")]);
    let (mut socket, _) = WebSocket::open(server.address(), "/echo");
    assert!(socket.is_closed());
    assert_eq!(server.stat("tunnels_idle_total"), 1.0);
    eventually("its connection is closed", || server.stat("origin_connections_open") == 0.0);
}

#[test]
fn a_stop_closes_tunnels_after_a_bounded_wait() {
    let origin = WebSocketOrigin::start();
    let mut server = origin.server(&[("--tunnel-drain-ms-max", "300ms")]);
    let (mut socket, _) = WebSocket::open(server.address(), "/echo");
    server.signal(Signal::TERM);
    eventually("new connections are refused", || TcpStream::connect(server.address()).is_err());
    assert!(socket.is_closed());
    assert!(server.wait().is_some_and(|status| status.success()), "{}", server.errors());
    assert!(!server.errors().contains("drain_timed_out"), "{}", server.errors());
}

#[test]
fn tunnels_outlive_a_reload_and_end_after_an_upgrade() {
    let origin = WebSocketOrigin::start();
    let mut old = origin.server(&[("--tunnel-drain-ms-max", "5s")]);
    let mut sockets: Vec<_> = (0..40).map(|_| WebSocket::open(old.address(), "/echo").0).collect();
    assert!(old.command(&["reload"]).status.success());
    let new = old.successor().start();
    for socket in &mut sockets {
        assert_eq!(socket.exchange(b"during").as_deref(), Some(&b"during"[..]));
    }
    let (mut later, head) = WebSocket::open(new.address(), "/echo");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for socket in &mut sockets {
        assert!(socket.is_closed());
    }
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert_eq!(later.exchange(b"after").as_deref(), Some(&b"after"[..]));
}
