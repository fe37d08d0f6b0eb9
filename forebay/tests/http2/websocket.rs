//! WebSockets and other tunnels over HTTP/2 (RFC 8441).
#![expect(clippy::disallowed_types, reason = "the script of a test is not profiled")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forebay_testkit::{PATIENCE, Server, ServerBuilder, eventually};
use h2::client::{Builder, SendRequest};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};

use crate::common::{ask, get, with_client};

/// An origin that opens tunnels, and sends back in upper case the bytes that it reads. The path
/// selects its answer.
struct TunnelOrigin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl TunnelOrigin {
    fn start() -> TunnelOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        TunnelOrigin { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic").clone()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).expect("a head of ASCII");
    seen.lock().expect("no panic").push(head.clone());
    let field = |wanted: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let path = head.split(' ').nth(1).expect("a target");
    let accept = match (path, field("sec-websocket-key")) {
        ("/wrong-accept", _) => "wrong".into(),
        (_, Some(key)) => {
            let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
            let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
            STANDARD.encode(hash)
        }
        _ => "none".into(),
    };
    let (status, length) = match (path, field("upgrade")) {
        (_, None) => ("200 OK\r\nCache-Control: max-age=600", "Content-Length: 6\r\n"),
        ("/forbidden", _) => ("403 Forbidden", "Content-Length: 6\r\n"),
        ("/ok", _) => ("200 OK", "Content-Length: 6\r\n"),
        (_, Some(_)) => ("101 Switching Protocols", ""),
    };
    let upgrade = field("upgrade").filter(|_| length.is_empty()).map(|protocol| {
        format!("Connection: upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Accept: {accept}\r\n")
    });
    let upgrade = upgrade.unwrap_or_default();
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{upgrade}{length}X-Path: {path}\r\n\r\n");
    if !length.is_empty() {
        let _ = stream.write_all(b"answer");
        return;
    }
    if path == "/half" {
        let _ = stream.write_all(b"bye");
        stream.shutdown(Shutdown::Write).expect("an open connection");
        let mut rest = String::new();
        let _ = stream.read_to_string(&mut rest);
        seen.lock().expect("no panic").push(format!("after the end: {rest}"));
        return;
    }
    if path == "/break" {
        // A socket that is closed with unread bytes resets its connection.
        let _ = stream.peek(&mut [0]);
        return;
    }
    let mut piece = [0; 1000];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        let _ = stream.write_all(&piece[..count].to_ascii_uppercase());
    }
    let _ = stream.write_all(b"end");
}

fn start(origin: &TunnelOrigin, protocols: &str) -> Server {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .flag("--origin", &format!("http://{}", origin.address))
        .flag("--workers", "1")
        .flag("--http2", "true")
        .flag("--upgrade-protocols", protocols)
        .start()
}

/// The answer to an extended CONNECT.
struct Opened {
    status: u16,
    fields: HeaderMap,
    up: SendStream<Bytes>,
    down: RecvStream,
}

async fn open(
    client: &SendRequest<Bytes>,
    protocol: &'static str,
    path: &str,
) -> Result<Opened, h2::Error> {
    let mut client = client.clone().ready().await?;
    if !client.is_extended_connect_protocol_enabled() {
        // The server's settings arrive before its first answer.
        ask(&client, get("http", "/page"), &[]).await?;
    }
    assert!(client.is_extended_connect_protocol_enabled(), "the server announces RFC 8441");
    let mut request = Request::connect(format!("http://a.example{path}")).body(()).expect("valid");
    request.extensions_mut().insert(Protocol::from_static(protocol));
    request.headers_mut().insert("sec-websocket-version", "13".parse().expect("a value"));
    let (response, up) = client.send_request(request, false)?;
    let response = response.await?;
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    Ok(Opened { status, fields, up, down: response.into_body() })
}

async fn read(down: &mut RecvStream, bytes: usize) -> Result<String, h2::Error> {
    let mut text = Vec::new();
    while text.len() < bytes
        && let Some(data) = down.data().await
    {
        let data = data?;
        down.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    Ok(String::from_utf8(text).expect("ASCII"))
}

#[test]
fn a_websocket_is_a_stream() {
    let origin = TunnelOrigin::start();
    let server = start(&origin, "websocket");
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut tunnels = Vec::new();
        for number in 0..20 {
            let path = format!("/chat/{number}");
            let opened = open(&client, "websocket", &path).await.expect("an answer");
            assert_eq!(opened.status, 200);
            assert_eq!(opened.fields["x-path"], path);
            for name in ["connection", "upgrade", "sec-websocket-accept"] {
                assert!(!opened.fields.contains_key(name), "{name}");
            }
            tunnels.push(opened);
        }
        for (number, tunnel) in tunnels.iter_mut().enumerate() {
            let text = format!("message {number};");
            tunnel.up.send_data(Bytes::from(text.clone()), false).expect("an open stream");
            let echo = read(&mut tunnel.down, text.len()).await.expect("an open stream");
            assert_eq!(echo, text.to_ascii_uppercase());
        }
        // Ordinary requests are served beside the tunnels.
        assert_eq!(
            ask(&client, get("http", "/page"), &[]).await.expect("an answer").body,
            b"answer"
        );
        for tunnel in &mut tunnels {
            let text = vec![b'a'; 300_000];
            let sending = async {
                tunnel.up.send_data(Bytes::from(text), true).expect("an open stream");
            };
            sending.await;
            let echo = read(&mut tunnel.down, usize::MAX).await.expect("an orderly end");
            assert_eq!(echo, "A".repeat(300_000) + "end");
        }
    });
    eventually("all tunnels ended", || server.stat("tunnels_open") == 0.0);
    let heads = origin.heads();
    assert_eq!(heads.len(), 21);
    for head in heads.iter().filter(|head| head.starts_with("GET /chat/")) {
        let lower = head.to_ascii_lowercase();
        assert_eq!(lower.matches("sec-websocket-key: ").count(), 1, "{head}");
        assert!(lower.contains("upgrade: websocket\r\n"), "{head}");
        assert!(lower.contains("sec-websocket-version: 13\r\n"), "{head}");
        assert!(!lower.contains("transfer-encoding"), "{head}");
    }
}

#[test]
fn only_a_101_opens_a_tunnel() {
    let origin = TunnelOrigin::start();
    let server = start(&origin, "websocket");
    with_client(server.address(), &Builder::new(), |client| async move {
        let stored = ask(&client, get("http", "/chat"), &[]).await.expect("an answer");
        assert_eq!(stored.body, b"answer");
        let mut opened =
            open(&client, "websocket", "/chat").await.expect("not the stored response");
        assert_eq!(opened.status, 200);
        opened.up.send_data(Bytes::from_static(b"x"), true).expect("an open stream");
        assert_eq!(read(&mut opened.down, usize::MAX).await.expect("an end"), "Xend");
        let mut refused = open(&client, "websocket", "/forbidden").await.expect("an answer");
        assert_eq!(refused.status, 403);
        assert_eq!(read(&mut refused.down, usize::MAX).await.expect("an end"), "answer");
        for path in ["/ok", "/wrong-accept"] {
            let error = open(&client, "websocket", path).await.err().expect("no tunnel");
            assert!(error.is_reset(), "{path}: {error}");
        }
        // The connection goes on.
        assert_eq!(ask(&client, get("http", "/page"), &[]).await.expect("an answer").status, 200);
    });
}

#[test]
fn a_route_permits_the_protocols_of_its_list() {
    let origin = TunnelOrigin::start();
    let server = start(&origin, "chat");
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut opened = open(&client, "chat", "/").await.expect("an answer");
        assert_eq!(opened.status, 200);
        opened.up.send_data(Bytes::from_static(b"abc"), true).expect("an open stream");
        assert_eq!(read(&mut opened.down, usize::MAX).await.expect("an end"), "ABCend");
        for protocol in ["websocket", "h2c", "connect-udp"] {
            let refused = open(&client, protocol, "/").await.expect("an answer");
            assert_eq!(refused.status, 501, "{protocol}");
        }
    });
    assert_eq!(origin.heads().len(), 2, "refused requests reach no origin");
}

#[test]
fn the_end_of_an_origin_is_told_apart_from_its_failure() {
    let origin = TunnelOrigin::start();
    let server = start(&origin, "websocket");
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut half = open(&client, "websocket", "/half").await.expect("an answer");
        assert_eq!(read(&mut half.down, usize::MAX).await.expect("an orderly end"), "bye");
        half.up.send_data(Bytes::from_static(b"still "), false).expect("an open stream");
        half.up.send_data(Bytes::from_static(b"here"), true).expect("an open stream");
        let mut broken = open(&client, "websocket", "/break").await.expect("an answer");
        broken.up.send_data(Bytes::from_static(b"x"), false).expect("an open stream");
        let error = read(&mut broken.down, usize::MAX).await.expect_err("no orderly end");
        assert!(error.is_reset(), "{error}");
    });
    eventually("the origin got the rest", || {
        origin.heads().iter().any(|head| head == "after the end: still here")
    });
}

#[test]
fn a_client_that_resets_its_stream_ends_the_tunnel() {
    let origin = TunnelOrigin::start();
    let server = start(&origin, "websocket");
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut opened = open(&client, "websocket", "/").await.expect("an answer");
        opened.up.send_data(Bytes::from_static(b"x"), false).expect("an open stream");
        assert_eq!(read(&mut opened.down, 1).await.expect("an open stream"), "X");
        opened.up.send_reset(h2::Reason::CANCEL);
        drop(opened);
        assert_eq!(ask(&client, get("http", "/page"), &[]).await.expect("an answer").status, 200);
    });
    eventually("the tunnel ended", || server.stat("tunnels_open") == 0.0);
}
