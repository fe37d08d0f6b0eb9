//! The PROXY protocol towards origins: each connection begins with the addresses of the client that
//! it serves, and serves no other client.
#![expect(clippy::disallowed_types, reason = "the script of a test is not profiled")]
#![expect(clippy::big_endian_bytes, reason = "ports and lengths are in network byte order")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_testkit::tls::TlsFront;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, TestAuthority, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The header of each connection that a reader has accepted, in words.
type Headers = Arc<Mutex<Vec<String>>>;

/// Accepts connections, reads their headers, and passes the bytes behind them to `inner`.
fn read_headers(inner: SocketAddr) -> (SocketAddr, Headers) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let headers = Headers::default();
    let seen = Arc::clone(&headers);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, seen) = (stream.expect("a connection"), Arc::clone(&seen));
            let other = stream.try_clone().expect("a second handle");
            thread::spawn(move || pass_on((stream, other), inner, &seen));
        }
    });
    (address, headers)
}

/// Passes one connection on, both ways, until its client closes it.
fn pass_on<T: Read + Write + Send + 'static>(
    (mut from, mut back): (T, T),
    inner: SocketAddr,
    seen: &Headers,
) {
    let header = read_header(&mut from).unwrap_or_else(|error| format!("none: {error}"));
    seen.lock().expect("no thread panics").push(header);
    let mut to = TcpStream::connect(inner).expect("the origin listens");
    let mut answers = to.try_clone().expect("a second handle");
    thread::spawn(move || io::copy(&mut answers, &mut back));
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Reads the header of either version, without a byte behind it.
fn read_header(stream: &mut impl Read) -> io::Result<String> {
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    if start != *b"\r\n\r\n\0\r\nQUIT\n" {
        let mut line = start.to_vec();
        while !line.ends_with(b"\r\n") && line.len() < 107 {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            line.extend(byte);
        }
        let text = String::from_utf8_lossy(&line);
        return Ok(format!("v1 {}", text.trim_end()));
    }
    let mut rest = [0; 4];
    stream.read_exact(&mut rest)?;
    let mut body = vec![0; usize::from(u16::from_be_bytes([rest[2], rest[3]]))];
    stream.read_exact(&mut body)?;
    let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let v4 = |at: usize| Ipv4Addr::from(octets::<4>(&body, at));
    let v6 = |at: usize| Ipv6Addr::from(octets::<16>(&body, at));
    Ok(match (rest[0], rest[1], body.len()) {
        (0x20, 0, 0) => "v2 LOCAL".to_owned(),
        (0x21, 0x11, 12) => format!("v2 {} {} {} {}", v4(0), v4(4), number(8), number(10)),
        (0x21, 0x21, 36) => format!("v2 {} {} {} {}", v6(0), v6(16), number(32), number(34)),
        other => format!("not a header: {other:?}"),
    })
}

fn octets<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    body[at..at + N].try_into().expect("a slice of this length")
}

fn no_store() -> Origin {
    Origin::start(|request| {
        Script::answer("200 OK", &["Cache-Control: no-store"], request.target.as_bytes())
    })
}

fn start(url: &str, version: &str, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1").flag("--origin", url);
    let builder = builder.flag("--origin-proxy-protocol", version);
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn get(client: &mut Client, target: &str, fields: &[&str]) {
    let answer = client.ask("GET", target, fields).expect("whole");
    assert_eq!((answer.status, answer.text().as_str()), (200, target));
}

fn all(headers: &Headers) -> Vec<String> {
    headers.lock().expect("no thread panics").clone()
}

/// The header of a client's connection, as [`read_header`] shows it.
fn expected(version: &str, client: SocketAddr, server: SocketAddr) -> String {
    let ends = format!("{} {} {} {}", client.ip(), server.ip(), client.port(), server.port());
    match version {
        "v1" => format!("v1 PROXY TCP4 {ends}"),
        _ => format!("v2 {ends}"),
    }
}

#[test]
fn each_client_connection_has_connections_of_its_own() {
    for version in ["v1", "v2"] {
        let origin = no_store();
        let (address, headers) = read_headers(origin.address());
        let server = start(&format!("http://{address}"), version, &[]);
        let (mut one, mut other) =
            (Client::connect(server.address()), Client::connect(server.address()));
        let of = |client: &Client| expected(version, client.address(), server.address());
        get(&mut one, "/1", &[]);
        get(&mut other, "/2", &[]);
        // The connection that was used last is that of the other client.
        get(&mut one, "/3", &[]);
        get(&mut other, "/4", &[]);
        assert_eq!(all(&headers), [of(&one), of(&other)]);
        assert_eq!(origin.request_count(), 4);
        assert_eq!(server.stat("origin_reused_total"), 2.0);
        // Nothing but requests arrives behind the headers.
        assert_eq!(origin.faults(), Vec::<String>::new());
    }
}

#[test]
fn a_full_pool_keeps_the_connections_of_the_newest_clients() {
    let origin = no_store();
    let (address, headers) = read_headers(origin.address());
    let flags = [("--origin-pool-idle-count-max", "1")];
    let server = start(&format!("http://{address}"), "v2", &flags);
    get(&mut Client::connect(server.address()), "/1", &[]);
    let mut newest = Client::connect(server.address());
    get(&mut newest, "/2", &[]);
    eventually("the older connection is closed", || server.stat("origin_connections_open") == 1.0);
    get(&mut newest, "/3", &[]);
    assert_eq!(all(&headers).len(), 2);
}

#[test]
fn the_client_that_a_trusted_proxy_states_has_no_port() {
    let origin = no_store();
    let (address, headers) = read_headers(origin.address());
    let flags = [("--trusted-proxies", "127.0.0.1")];
    let server = start(&format!("http://{address}"), "v1", &flags);
    let mut proxy = Client::connect(server.address());
    get(&mut proxy, "/1", &["X-Forwarded-For: 198.51.100.7"]);
    get(&mut proxy, "/2", &["X-Forwarded-For: 2001:db8::7"]);
    get(&mut proxy, "/3", &["X-Forwarded-For: 198.51.100.7"]);
    get(&mut proxy, "/4", &[]);
    let local = server.address();
    let port = local.port();
    let own = expected("v1", proxy.address(), local);
    assert_eq!(
        all(&headers),
        [
            format!("v1 PROXY TCP4 198.51.100.7 127.0.0.1 0 {port}"),
            format!("v1 PROXY TCP6 2001:db8::7 ::ffff:127.0.0.1 0 {port}"),
            own,
        ]
    );
}

#[test]
fn requests_that_no_client_waits_for_state_no_client() {
    for (version, no_client) in [("v1", "v1 PROXY UNKNOWN"), ("v2", "v2 LOCAL")] {
        let origin = Origin::start(|request| {
            let fresh = ["Cache-Control: max-age=10, stale-while-revalidate=60", "Age: 20"];
            Script::answer("200 OK", &fresh, request.target.as_bytes())
        });
        let (address, headers) = read_headers(origin.address());
        let server = start(&format!("http://{address}"), version, &[]);
        let mut client = Client::connect(server.address());
        get(&mut client, "/", &[]);
        eventually("it is stored", || server.stat("stored_total") == 1.0);
        // The stale response answers, and is validated in the background.
        get(&mut client, "/", &[]);
        eventually("it is validated", || origin.request_count() == 2);
        let own = expected(version, client.address(), server.address());
        assert_eq!(all(&headers), [own.as_str(), no_client]);

        let (address, headers) = read_headers(origin.address());
        let checks = [("--health-path", "/health"), ("--health-interval-ms", "1s")];
        let server = start(&format!("http://{address}"), version, &checks);
        eventually("the origin is checked", || server.stat("origin_checks_total") >= 1.0);
        assert_eq!(all(&headers).first().map(String::as_str), Some(no_client));
        assert_eq!(server.stat("origin_checks_failed_total"), 0.0);
    }
}

#[test]
fn the_header_comes_before_the_tls_handshake() {
    let (origin, authority) = (no_store(), TestAuthority::new());
    let front = TlsFront::start(&authority.issue(&["127.0.0.1"]), origin.address());
    let (address, headers) = read_headers(front.address());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let ca = builder.path("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("the folder is ours");
    let config = format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'https://{address}'\n\
         origin_ca = ['{}']\norigin_proxy_protocol = 'v2'\n",
        ca.display()
    );
    let server = builder.config(&config).start();
    let mut client = Client::connect(server.address());
    get(&mut client, "/1", &[]);
    get(&mut client, "/2", &[]);
    assert_eq!(all(&headers), [expected("v2", client.address(), server.address())]);
    assert_eq!(front.handshakes().len(), 1);
}

#[test]
fn an_origin_on_a_unix_socket_gets_the_header() {
    let origin = no_store();
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let path = builder.path("app.sock");
    let listener = UnixListener::bind(&path).expect("the folder is ours");
    let headers = Headers::default();
    let (seen, inner) = (Arc::clone(&headers), origin.address());
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let other = stream.try_clone().expect("a second handle");
        pass_on((stream, other), inner, &seen);
    });
    let origin_flag = format!("--origin=unix:{}", path.display());
    let server = builder.switch(&origin_flag).flag("--origin-proxy-protocol", "v1").start();
    let mut client = Client::connect(server.address());
    get(&mut client, "/1", &[]);
    get(&mut client, "/2", &[]);
    assert_eq!(all(&headers), [expected("v1", client.address(), server.address())]);
}

#[test]
fn a_route_with_an_origin_has_its_own_setting_and_explain_shows_it() {
    let origin = no_store();
    let (address, headers) = read_headers(origin.address());
    let config = format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n\
         [[site.route]]\npath_prefix = '/told'\norigin = 'http://{address}'\n\
         origin_proxy_protocol = 'v2'\n",
        origin.address()
    );
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1").config(&config).start();
    let mut client = Client::connect(server.address());
    get(&mut client, "/told", &[]);
    get(&mut client, "/other", &[]);
    assert_eq!(all(&headers), [expected("v2", client.address(), server.address())]);
    let explained = |target: &str| {
        let url = format!("http://{}{target}", server.address());
        let out = server.command(&["explain", &url]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let told = explained("/told");
    assert!(told.contains("PROXY protocol, v2"), "{told}");
    assert!(!explained("/other").contains("PROXY"));
}
