//! Tunnels that clients open with CONNECT: bytes in both directions, refusals, limits, and their
//! end.
#![expect(clippy::disallowed_types, reason = "the script of a test is not profiled")]

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_testkit::{Client, PATIENCE, Server, ServerBuilder, Signal, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// `ann:secret` with bcrypt at its lowest cost, and the credentials of this user.
const USERS: &str = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
const CREDENTIALS: &str = "YW5uOnNlY3JldA==";

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// An origin that sends every byte back. After `end`, it ends its stream and sends nothing more.
struct EchoOrigin {
    address: SocketAddr,
    /// The bytes of each connection that has ended.
    received: Arc<Mutex<Vec<String>>>,
}

impl EchoOrigin {
    fn start() -> EchoOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let received = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    let bytes = echo(&stream, || stream.shutdown(Shutdown::Write));
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    seen.lock().expect("no thread panics").push(text);
                });
            }
        });
        EchoOrigin { address, received }
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().expect("no thread panics").clone()
    }

    /// Starts a server with these lines for its site, `db.test`, whose tunnels have the port 5432.
    fn server(&self, lines: &str) -> Server {
        self.server_with("", lines)
    }

    /// Starts a server with these lines before the first section and for its site.
    fn server_with(&self, top: &str, lines: &str) -> Server {
        start(&format!("\"http://{}\"", self.address), top, lines)
    }
}

/// Sends back the bytes of a connection, and returns them.
fn echo<S>(mut stream: S, end: impl Fn() -> std::io::Result<()>) -> Vec<u8>
where
    S: Read + Write,
{
    let (mut received, mut space, mut has_ended) = (Vec::new(), [0; 4096], false);
    while let Ok(count @ 1..) = stream.read(&mut space) {
        received.extend(&space[..count]);
        if !has_ended && stream.write_all(&space[..count]).is_err() {
            break;
        }
        if !has_ended && received.ends_with(b"end") {
            has_ended = end().is_ok();
        }
    }
    received
}

fn start(origin: &str, top: &str, lines: &str) -> Server {
    let text = format!(
        "{top}[[site]]\nname = \"db\"\nnames = [\"db.test\"]\norigin = {origin}\n\
         connect_ports = [5432, 443]\n{lines}\n\
         [[site]]\nname = \"other\"\nnames = [\"other.test\"]\norigin = {origin}\n"
    );
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1").flag("--access-log", "-");
    builder.config(&text).start()
}

fn connect_text(authority: &str, fields: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n")
}

/// A client's side of a tunnel.
struct Tunnel {
    stream: TcpStream,
}

impl Tunnel {
    fn to(server: &Server) -> Tunnel {
        let stream = TcpStream::connect(server.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Tunnel { stream }
    }

    /// Opens a tunnel through the server; returns it with the head of the answer.
    fn open(server: &Server) -> (Tunnel, String) {
        let mut tunnel = Tunnel::to(server);
        tunnel.send(connect_text("db.test:5432", ""));
        let head = tunnel.head();
        (tunnel, head)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have ended; then the next read shows it.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.take(1);
            assert!(!byte.is_empty(), "the head is cut: {}", String::from_utf8_lossy(&head));
            head.extend(byte);
        }
        String::from_utf8(head).expect("a head is text")
    }

    /// Reads so many bytes; fewer at the end of the stream.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = (&self.stream).take(count as u64).read_to_end(&mut bytes);
        bytes
    }

    fn exchange(&mut self, text: &str) -> bool {
        self.send(text);
        self.take(text.len()) == text.as_bytes()
    }

    /// Whether the server ends the connection without another byte.
    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }
}

/// Sends a request and returns the status of its answer, and everything that came before the end
/// of the connection.
fn refused(server: &Server, request: &str) -> (u16, String) {
    let mut tunnel = Tunnel::to(server);
    tunnel.send(request);
    let text = String::from_utf8_lossy(&tunnel.take(1 << 20)).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    assert!(text.contains("\r\nconnection: close\r\n"), "{request}: {text}");
    assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{request}: {text}");
    (status, text)
}

// RFC: 9110-9.3.6-4
#[test]
fn bytes_pass_through_a_tunnel_in_both_directions() {
    let origin = EchoOrigin::start();
    let server = origin.server("");
    let (mut tunnel, head) = Tunnel::open(&server);
    assert!(head.starts_with(OK), "{head}");
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("\r\ndate: "), "{head}");
    for name in ["content-length", "transfer-encoding", "connection"] {
        assert!(!lower.contains(&format!("\r\n{name}:")), "{head}");
    }
    assert!(tunnel.exchange("a"));
    let stats = server.stats();
    assert_eq!((stats["tunnels_open"], stats["origin_connections_open"]), (1.0, 1.0));
    let large: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 3 % 251) as u8).collect();
    let mut sender = Tunnel { stream: tunnel.stream.try_clone().expect("a descriptor") };
    let sent = large.clone();
    let sending = thread::spawn(move || sender.send(sent));
    assert!(tunnel.take(large.len()) == large);
    sending.join().expect("it sends");
    drop(tunnel);
    eventually("the tunnel has ended", || server.stat("tunnels_open") == 0.0);
    eventually("its connection is closed", || server.stat("origin_connections_open") == 0.0);
    assert_eq!(server.stat("tunnels_total"), 1.0);
    assert_eq!(server.stat("reason_tunnel_total"), 1.0);
    eventually("the log has the tunnel", || {
        let output = server.output();
        let line = output.lines().find(|line| line.contains("CONNECT")).unwrap_or_default();
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        entry["status"] == 200
            && entry["site"] == "db"
            && entry["tunnel_bytes_in"] == 2_000_001
            && entry["body_bytes"] == 2_000_001
            && entry["cache"] == "forebay; fwd=method; detail=tunnel"
    });
}

#[test]
fn early_bytes_follow_once_the_connection_stands() {
    let origin = EchoOrigin::start();
    let server = origin.server("");
    // Older clients use HTTP/1.0, and some leave the port out of Host.
    for request in [
        connect_text("db.test:443", ""),
        "CONNECT db.test:443 HTTP/1.0\r\n\r\n".to_owned(),
        "CONNECT DB.test:443 HTTP/1.1\r\nHost: db.test\r\n\r\n".to_owned(),
    ] {
        let mut tunnel = Tunnel::to(&server);
        tunnel.send(format!("{request}GET / HTTP/1.1\r\n\r\n"));
        assert!(tunnel.head().starts_with(OK), "{request}");
        assert_eq!(tunnel.take(18), b"GET / HTTP/1.1\r\n\r\n", "{request}");
    }
    eventually("the origin has only these bytes", || {
        origin.received() == ["GET / HTTP/1.1\r\n\r\n"; 3]
    });
}

// RFC: 9110-9.3.6-3
#[test]
fn a_side_that_has_ended_still_receives() {
    let origin = EchoOrigin::start();
    let server = origin.server("");
    let (mut tunnel, _) = Tunnel::open(&server);
    tunnel.send("from the client");
    tunnel.stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(tunnel.take(100), b"from the client");
    let (mut tunnel, _) = Tunnel::open(&server);
    assert!(tunnel.exchange("the origin has its end"));
    assert!(tunnel.is_closed());
    tunnel.send(", and reads on");
    tunnel.stream.shutdown(Shutdown::Write).expect("it is open");
    eventually("the origin has the rest", || {
        origin.received() == ["from the client", "the origin has its end, and reads on"]
    });
    eventually("the tunnels have ended", || server.stat("tunnels_open") == 0.0);
}

// RFC: 9110-9.3.6-1, 9110-9.3.6-2
#[test]
fn requests_that_no_site_permits_are_refused_and_reach_no_origin() {
    let origin = EchoOrigin::start();
    let server = origin.server("");
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: db.test\r\n\r\n";
    let cases = [
        (connect_text("db.test:22", ""), 403, "no tunnels to this port"),
        (connect_text("other.test:443", ""), 501, "the method is not implemented"),
        (connect_text("unknown.test:443", ""), 421, "does not serve the requested host"),
        (connect_text(&format!("{}", origin.address), ""), 421, ""),
        (connect_text("db.test:443", "Content-Length: 5\r\n"), 400, "cannot have content"),
        (connect_text("db.test:443", "Content-Length: 0\r\n"), 400, "cannot have content"),
        (connect_text("db.test:443", "Transfer-Encoding: chunked\r\n"), 400, "cannot have content"),
        (
            connect_text("db.test:443", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            400,
            "are both present",
        ),
        (
            "CONNECT db.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n".to_owned(),
            400,
            "name different hosts",
        ),
        (
            "CONNECT db.test:443 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n".to_owned(),
            400,
            "name different hosts",
        ),
        ("CONNECT db.test:443 HTTP/1.1\r\n\r\n".to_owned(), 400, "Host field is missing"),
        ("CONNECT db.test HTTP/1.1\r\nHost: db.test\r\n\r\n".to_owned(), 400, "malformed"),
        ("CONNECT / HTTP/1.1\r\nHost: db.test\r\n\r\n".to_owned(), 400, "malformed"),
        (
            "CONNECT http://db.test:443/ HTTP/1.1\r\nHost: db.test:443\r\n\r\n".to_owned(),
            400,
            "malformed",
        ),
    ];
    for (request, status, reason) in &cases {
        let (found, answer) = refused(&server, &format!("{request}{smuggled}"));
        assert_eq!(found, *status, "{request}: {answer}");
        assert!(answer.contains(reason), "{request}: {answer}");
    }
    let stats = server.stats();
    assert_eq!((stats["tunnels_total"], stats["origin_connections_total"]), (0.0, 0.0));
    eventually("the log has each refusal", || {
        let output = server.output();
        let faults = output.lines().filter(|line| line.contains("\"fault\""));
        faults.count() == cases.len() && !output.contains("smuggled")
    });
}

#[test]
fn a_tunnel_has_the_restrictions_of_the_route_for_all_paths() {
    let origin = EchoOrigin::start();
    let server = origin.server(
        "deny_from = [\"127.0.0.3\"]\n[[site.route]]\npath_prefix = \"/\"\n\
         deny_from = [\"127.0.0.2\"]\nrate_limit = [\"2/1h\"]\nconcurrency_limit = [\"1\"]\n\
         [[site.route]]\npath_regex = \".*\"\ndeny_from = [\"127.0.0.4\"]\n",
    );
    let ask = |from: u8| {
        let mut client = Client::connect_from(IpAddr::from([127, 0, 0, from]), server.address());
        client.send(connect_text("db.test:443", ""));
        let head = client.peek("CONNECT", |_| true).expect("an answer");
        (client, head.status)
    };
    let (denied, (first, permitted)) = (ask(2).1, ask(3));
    assert_eq!((denied, permitted, ask(4).1), (403, 200, 200));
    // The tunnel counts as a request in progress for as long as it lasts.
    assert_eq!(ask(3).1, 429);
    assert_eq!(server.stat("concurrency_limited_total"), 1.0);
    drop(first);
    eventually("the tunnels have ended", || server.stat("tunnels_open") == 0.0);
    assert_eq!(ask(3).1, 429);
    assert_eq!(server.stat("rate_limited_total"), 1.0);
}

#[test]
fn a_tunnel_needs_the_password_of_its_route() {
    let origin = EchoOrigin::start();
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let users = builder.path("users");
    std::fs::write(&users, USERS).expect("the folder is ours");
    let text = format!(
        "[[site]]\nname = \"db\"\nnames = [\"db.test\"]\norigin = \"http://{}\"\n\
         connect_ports = [443]\nbasic_auth = {users:?}\n",
        origin.address
    );
    let server = builder.config(&text).start();
    let (status, answer) = refused(&server, &connect_text("db.test:443", ""));
    assert_eq!(status, 401, "{answer}");
    assert!(answer.contains("\r\nwww-authenticate: Basic "), "{answer}");
    let mut tunnel = Tunnel::to(&server);
    tunnel.send(connect_text("db.test:443", &format!("Authorization: Basic {CREDENTIALS}\r\n")));
    assert!(tunnel.head().starts_with(OK));
    assert!(tunnel.exchange("inside"));
}

#[test]
fn a_site_that_redirects_to_tls_has_no_tunnels_without_it() {
    let origin = EchoOrigin::start();
    let server = origin.server("https_redirect_port = 443\n");
    assert_eq!(refused(&server, &connect_text("db.test:443", "")).0, 403);
    // The password is not asked for, and the request is not redirected.
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let users = builder.path("users");
    std::fs::write(&users, USERS).expect("the folder is ours");
    let text = format!(
        "[[site]]\nname = \"db\"\nnames = [\"db.test\"]\norigin = \"http://{}\"\n\
         connect_ports = [443]\nbasic_auth = {users:?}\nhttps_redirect_port = 443\n",
        origin.address
    );
    let server = builder.config(&text).start();
    assert_eq!(refused(&server, &connect_text("db.test:443", "")).0, 403);
}

#[test]
fn header_rules_see_a_connect_and_may_refuse_it() {
    let origin = EchoOrigin::start();
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let rules = "cond %{REMAP_PSEUDO_HOOK} [AND]\ncond %{CLIENT-HEADER:X-Refuse} =1\n\
                 set-status 403\n\
                 cond %{REMAP_PSEUDO_HOOK}\nset-header X-Added yes\n\
                 cond %{REMAP_PSEUDO_HOOK}\nset-destination PATH elsewhere\n";
    std::fs::write(builder.path("rules.conf"), rules).expect("the folder is ours");
    let text = format!(
        "[[site]]\nname = \"db\"\nnames = [\"db.test\"]\norigin = \"http://{}\"\n\
         connect_ports = [443]\nrules = [\"rules.conf\"]\n",
        origin.address
    );
    let server = builder.config(&text).start();
    assert_eq!(refused(&server, &connect_text("db.test:443", "X-Refuse: 1\r\n")).0, 403);
    let mut tunnel = Tunnel::to(&server);
    tunnel.send(connect_text("db.test:443", ""));
    let head = tunnel.head();
    assert!(head.starts_with(OK), "{head}");
    assert!(tunnel.exchange("inside"));
}

/// Returns an address at which nothing listens.
fn dead_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

#[test]
fn a_tunnel_to_a_dead_origin_is_a_502_unless_another_origin_lives() {
    let dead = dead_address();
    let server = start(&format!("\"http://{dead}\""), "", "");
    let (status, answer) = refused(&server, &connect_text("db.test:443", ""));
    assert_eq!(status, 502, "{answer}");
    assert!(answer.contains("fwd=method; detail=origin-unreachable"), "{answer}");
    let origin = EchoOrigin::start();
    let both = format!("[\"http://{dead}\", \"http://{}\"]", origin.address);
    let server = start(&both, "", "");
    for _ in 0..4 {
        let (mut tunnel, head) = Tunnel::open(&server);
        assert!(head.starts_with(OK), "{head}");
        assert!(tunnel.exchange("alive"));
    }
    assert_eq!(server.stat("origin_failovers_total"), 1.0);
    assert!(server.errors().contains("origin_unreachable"), "{}", server.errors());
}

#[test]
fn a_tunnel_reaches_a_unix_socket_after_the_header_of_the_proxy_protocol() {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let path = builder.path("origin.sock");
    let listener = UnixListener::bind(&path).expect("the folder is ours");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        echo(&stream, || stream.shutdown(Shutdown::Write));
    });
    let text = format!(
        "[[site]]\nname = \"db\"\nnames = [\"db.test\"]\norigin = \"unix:{}\"\n\
         connect_ports = [5432]\norigin_proxy_protocol = \"v1\"\n",
        path.display()
    );
    let server = builder.config(&text).start();
    let (mut tunnel, head) = Tunnel::open(&server);
    assert!(head.starts_with(OK), "{head}");
    let own = tunnel.stream.local_addr().expect("it is bound").port();
    let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {}\r\n", server.address().port());
    tunnel.send("end");
    assert_eq!(String::from_utf8_lossy(&tunnel.take(1000)), format!("{header}end"));
}

#[test]
fn tunnels_have_places_and_hold_no_permit_of_the_origin() {
    for limit in ["tunnels_per_worker_max", "tunnels_per_address_max"] {
        let origin = EchoOrigin::start();
        let top = format!("{limit} = 2\norigin_connections_max = 1\n");
        let server = origin.server_with(&top, "");
        let mut tunnels: Vec<_> = (0..2).map(|_| Tunnel::open(&server)).collect();
        assert!(tunnels.iter().all(|(_, head)| head.starts_with(OK)), "{limit}");
        let (status, answer) = refused(&server, &connect_text("db.test:443", ""));
        assert_eq!(status, 503, "{limit}: {answer}");
        assert_eq!(server.stat("tunnels_refused_total"), 1.0, "{limit}");
        assert!(tunnels.iter_mut().all(|(tunnel, _)| tunnel.exchange("still open")), "{limit}");
        drop(tunnels.pop());
        eventually("there is room again", || Tunnel::open(&server).1.starts_with(OK));
    }
}

#[test]
fn a_tunnel_without_traffic_is_closed() {
    let origin = EchoOrigin::start();
    let server = origin.server("tunnel_idle_ms_max = \"300ms\"\n");
    let (mut tunnel, _) = Tunnel::open(&server);
    assert!(tunnel.is_closed());
    assert_eq!(server.stat("tunnels_idle_total"), 1.0);
}

#[test]
fn tunnels_outlive_a_reload_and_end_after_an_upgrade() {
    let origin = EchoOrigin::start();
    let mut old = origin.server_with("tunnel_drain_ms_max = \"5s\"\n", "");
    let (mut first, _) = Tunnel::open(&old);
    assert!(first.exchange("before"));
    let text = std::fs::read_to_string(old.path("forebay.toml")).expect("it was written");
    old.write_config(&text.replace("connect_ports = [5432, 443]", "connect_ports = [443]"));
    assert!(old.command(&["reload"]).status.success());
    assert_eq!(refused(&old, &connect_text("db.test:5432", "")).0, 403);
    assert!(first.exchange("after the reload"));
    let new = old.successor().start();
    assert!(first.exchange("during the upgrade"));
    let mut later = Tunnel::to(&new);
    later.send(connect_text("db.test:443", ""));
    assert!(later.head().starts_with(OK));
    assert!(first.is_closed());
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert!(later.exchange("after the upgrade"));
}

#[test]
fn a_stop_closes_tunnels_after_a_bounded_wait() {
    let origin = EchoOrigin::start();
    let mut server = origin.server_with("tunnel_drain_ms_max = \"300ms\"\n", "");
    let (mut tunnel, _) = Tunnel::open(&server);
    server.signal(Signal::TERM);
    assert!(tunnel.is_closed());
    assert!(server.wait().is_some_and(|status| status.success()), "{}", server.errors());
}

#[test]
fn a_server_without_a_file_takes_the_ports_from_a_flag() {
    let origin = EchoOrigin::start();
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let builder = builder.flag("--origin", &format!("http://{}", origin.address));
    let server = builder.flag("--connect-ports", "443,5432").start();
    let (mut tunnel, head) = Tunnel::open(&server);
    assert!(head.starts_with(OK), "{head}");
    assert!(tunnel.exchange("inside"));
    assert_eq!(refused(&server, &connect_text("db.test:80", "")).0, 403);
}
