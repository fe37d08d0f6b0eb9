//! Clients over TLS: certificates by name, versions, resumption, limits of handshakes, malformed
//! bytes, reload and upgrade under open connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use forebay_testkit::tls::rustls::version::{TLS12, TLS13};
use forebay_testkit::tls::rustls::{ClientConfig, HandshakeKind, ProtocolVersion};
use forebay_testkit::tls::{rcgen, rustls};
use forebay_testkit::{
    Client, Origin, PATIENCE, Rng, Script, Server, ServerBuilder, Signal, TestAuthority, TlsClient,
    eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A body that needs several records and several writes.
const LARGE_BYTES: usize = 1_000_000;

/// An origin that answers with the scheme in the request's `X-Forwarded-Proto`.
fn origin() -> Origin {
    Origin::start(|request| {
        let scheme = request.head.field("x-forwarded-proto").unwrap_or_default().to_owned();
        match request.target.as_str() {
            "/large" => Script::answer("200 OK", &["Cache-Control: max-age=60"], &large()),
            "/upload" => Script::answer("200 OK", &[], b""),
            _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], scheme.as_bytes()),
        }
    })
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at / 7 % 251) as u8).collect()
}

/// A server with one default certificate for `localhost` and `a.org`.
fn builder(origin: &Origin, authority: &TestAuthority) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2");
    let folder = builder.path("");
    let (cert, key) = authority.issue(&["localhost", "a.org"]).write(&folder, "default");
    builder
        .flag("--listen-tls", "127.0.0.1:0")
        .flag("--tls-cert", &cert.display().to_string())
        .flag("--tls-key", &key.display().to_string())
}

fn connect(server: &Server, name: &str, config: &Arc<ClientConfig>) -> TlsClient {
    TlsClient::connect(server.tls_address(), name, config).expect(name)
}

/// Connects and sends a request, which must fail; returns the error.
fn refusal(server: &Server, name: &str, config: &Arc<ClientConfig>) -> String {
    let connected = TlsClient::connect(server.tls_address(), name, config);
    // With TLS 1.3 the client's side is complete before the server has refused it.
    connected
        .and_then(|mut client| client.get(name, "/").map_err(|e| e.to_string()))
        .expect_err("it is refused")
}

#[test]
fn both_versions_are_served_and_schemes_share_no_response() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    for (versions, version) in
        [(&[&TLS12][..], ProtocolVersion::TLSv1_2), (&[&TLS13], ProtocolVersion::TLSv1_3)]
    {
        let mut client = connect(&server, "a.org", &authority.client(versions));
        assert_eq!(client.connection().protocol_version(), Some(version));
        let answer = client.get("a.org", "/scheme").expect("an answer");
        assert_eq!((answer.status(), answer.text()), (200, "https".to_owned()), "{version:?}");
        for turn in 0..2 {
            let answer = client.get("a.org", "/large").expect("an answer");
            assert!(answer.body == large(), "{version:?} {turn}");
        }
        let body = large();
        let head = format!(
            "POST /upload HTTP/1.1\r\nHost: a.org\r\nContent-Length: {LARGE_BYTES}\r\n\r\n"
        );
        client.send(head).expect("it is read");
        client.send(body).expect("it is read");
        assert_eq!(client.read().expect("an answer").status(), 200);
        eventually("the origin has the whole body", || {
            let uploads = origin.requests_below("/upload");
            uploads.last().is_some_and(|upload| upload.is_whole && upload.body == large())
        });
    }
    let mut plain = Client::connect(server.address());
    plain.send("GET /scheme HTTP/1.1\r\nHost: a.org\r\n\r\n");
    assert_eq!(plain.response("GET").expect("an answer").text(), "http");
    // One fetch for each scheme, whatever the version.
    assert_eq!(origin.count("/scheme"), 2);
    assert_eq!(origin.count("/large"), 1);
    assert_eq!(server.stat("tls_handshakes_total"), 2.0);
}

#[test]
fn an_https_url_is_listed_and_purged_apart_from_the_http_url() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let mut client = connect(&server, "a.org", &authority.client(&[&TLS13]));
    let mut plain = Client::connect(server.address());
    let mut fetch = || {
        client.get("a.org:443", "/p").expect("an answer");
        plain.send("GET /p HTTP/1.1\r\nHost: a.org\r\n\r\n");
        plain.response("GET").expect("an answer");
        origin.count("/p")
    };
    assert_eq!((fetch(), fetch()), (2, 2));
    let listed = String::from_utf8(server.command(&["ls"]).stdout).expect("UTF-8");
    assert!(listed.contains(" https://a.org/p") && listed.contains(" http://a.org/p"), "{listed}");
    assert!(server.command(&["purge", "https://a.org/p"]).status.success());
    assert_eq!(fetch(), 3, "only one of them was purged");
    assert!(server.command(&["purge", "--host", "a.org"]).status.success());
    assert_eq!(fetch(), 5, "a host is both schemes");
}

/// A configuration with sites that have certificates of their own.
fn sites(origin: &Origin, tls: &str, of_exact: &str) -> String {
    let site = |name: &str, host: &str, more: &str| {
        let url = origin.address();
        format!("[[site]]\nname = '{name}'\nnames = ['{host}']\norigin = 'http://{url}'\n{more}\n")
    };
    let own = |name: &str| format!("tls_cert = '{name}.pem'\ntls_key = '{name}.key'");
    format!("listen_tls = ['127.0.0.1:0']\n{tls}\n")
        + &site("exact", "exact.org", of_exact)
        + &site("below", "*.below.org", &own("below"))
        + &site("other", "other.org", "")
}

const DEFAULT: &str = "tls_cert = ['default.pem', 'rsa.pem']\ntls_key = ['default.key', 'rsa.key']";
const EXACT: &str = "tls_cert = 'exact.pem'\ntls_key = 'exact.key'";

/// Starts a server with three sets of certificates. Each certificate is valid for all names, and
/// has the name `SET.test`, which tells the sets apart.
fn start_sites(origin: &Origin, authority: &TestAuthority) -> Server {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "2");
    let names = ["exact.org", "a.below.org", "other.org", "unknown.org"];
    for set in ["default", "exact", "below"] {
        let own = format!("{set}.test");
        let names: Vec<_> = names.into_iter().chain([own.as_str()]).collect();
        authority.issue(&names).write(&builder.path(""), set);
    }
    let rsa = authority.issue_with(&names, &rcgen::PKCS_RSA_SHA256, |_| {});
    rsa.write(&builder.path(""), "rsa");
    builder.config(&sites(origin, DEFAULT, EXACT)).start()
}

/// The set of the certificate that a client got.
fn set_of(client: &TlsClient) -> &'static str {
    let chain = client.connection().peer_certificates().expect("the server has one");
    let has = |set: &&str| {
        let name = format!("{set}.test");
        chain[0].windows(name.len()).any(|part| part == name.as_bytes())
    };
    ["default", "exact", "below"].iter().copied().find(has).unwrap_or("rsa")
}

#[test]
fn a_name_has_its_own_certificate_and_only_its_own_hosts_are_served_there() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = start_sites(&origin, &authority);
    let config = authority.client(&[&TLS13, &TLS12]);
    for (name, set) in [
        ("exact.org", "exact"),
        ("a.below.org", "below"),
        ("other.org", "default"),
        ("unknown.org", "default"),
    ] {
        let mut client = connect(&server, name, &config);
        assert_eq!(set_of(&client), set, "{name}");
        let served = if name == "unknown.org" { 421 } else { 200 };
        assert_eq!(client.get(name, "/").expect("an answer").status(), served, "{name}");
        for (host, of) in
            [("exact.org", "exact"), ("b.below.org", "below"), ("other.org", "default")]
        {
            let status = client.get(host, "/").expect("an answer").status();
            assert_eq!(status, if of == set { 200 } else { 421 }, "{host} at {name}");
        }
    }
}

#[test]
fn a_client_that_knows_only_rsa_gets_the_rsa_certificate() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = start_sites(&origin, &authority);
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let is_rsa = |name: &str| name.contains("ECDHE_RSA");
    provider.cipher_suites.retain(|suite| suite.suite().as_str().is_some_and(is_rsa));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.certificate()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS12])
        .expect("the suites fit")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = connect(&server, "other.org", &Arc::new(config));
    assert_eq!(set_of(&client), "rsa");
    assert_eq!(client.get("other.org", "/").expect("an answer").status(), 200);
}

#[test]
fn a_session_is_resumed_on_any_worker_and_by_a_successor() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let first = builder(&origin, &authority).flag("--workers", "4").start();
    let address = first.tls_address();
    let config = authority.client(&[&TLS13]);
    let mut open = connect(&first, "a.org", &config);
    open.get("a.org", "/").expect("an answer");
    let resumed = |server: &Server| {
        let mut client = connect(server, "a.org", &config);
        client.get("a.org", "/").expect("an answer");
        client.connection().handshake_kind() == Some(HandshakeKind::Resumed)
    };
    for turn in 0..12 {
        assert!(resumed(&first), "connection {turn}");
    }
    assert_eq!(first.stat("tls_resumed_total"), 12.0);
    let mut first = first;
    let second = first.successor().flag("--listen-tls", &address.to_string());
    let second = second.flag("--runtime-dir", &first.path("run").display().to_string());
    // The first server has port 0 in its settings; its sockets are found by their address.
    let second = second.start();
    assert_eq!(second.tls_address(), address);
    assert!(resumed(&second), "the keys were handed over");
    // The old process answers once more on its open connection, and says that it ends.
    match open.get("a.org", "/") {
        Ok(last) => {
            assert!(last.head.to_ascii_lowercase().contains("connection: close"), "{}", last.head);
            assert_eq!(open.read_to_end().expect("close_notify"), b"");
        }
        // It has closed the idle connection before.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}"),
    }
    assert!(first.wait().is_some_and(|status| status.success()));
    assert_eq!(second.stat("upgrades_total"), 1.0);
}

#[test]
fn a_reload_replaces_a_certificate_under_open_connections() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = start_sites(&origin, &authority);
    let config = authority.client(&[&TLS13]);
    let mut open = connect(&server, "exact.org", &config);
    assert_eq!(open.get("exact.org", "/").expect("an answer").status(), 200);
    let other = TestAuthority::new();
    // A reload with a key that does not fit the certificate changes nothing.
    let folder = server.path("");
    other.issue(&["exact.org"]).write(&folder, "wrong");
    std::fs::copy(folder.join("wrong.key"), folder.join("exact.key")).expect("the folder is ours");
    server.signal(Signal::HUP);
    eventually("it is refused", || server.stat("reloads_refused_total") == 1.0);
    assert!(server.errors().contains("the key does not belong to"), "{}", server.errors());
    connect(&server, "exact.org", &config).get("exact.org", "/").expect("the old one stays");
    other.issue(&["exact.org", "exact.test"]).write(&folder, "exact");
    server.signal(Signal::HUP);
    eventually("it is applied", || server.stat("reloads_total") == 1.0);
    let mut fresh = connect(&server, "exact.org", &other.client(&[&TLS13]));
    assert_eq!(fresh.get("exact.org", "/").expect("an answer").status(), 200);
    // A client that has no session to resume.
    let config = authority.client(&[&TLS13]);
    let refused = refusal(&server, "exact.org", &config);
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    assert_eq!(open.get("exact.org", "/").expect("it is still open").status(), 200);
    eventually("the alert is counted", || server.stat("tls_alerts_total") >= 1.0);
}

#[test]
fn the_modern_profile_refuses_older_clients() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).flag("--tls-profile", "modern").start();
    let refused = refusal(&server, "a.org", &authority.client(&[&TLS12]));
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    connect(&server, "a.org", &authority.client(&[&TLS13])).get("a.org", "/").expect("an answer");
    eventually("it is counted", || server.stat("tls_incompatible_total") == 1.0);
}

#[test]
fn a_protocol_that_the_server_does_not_have_is_refused() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let with_alpn = |protocol: &str| {
        let mut config = ClientConfig::clone(&authority.client(&[&TLS13]));
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config)
    };
    let mut client = connect(&server, "a.org", &with_alpn("http/1.1"));
    client.get("a.org", "/").expect("an answer");
    assert_eq!(client.connection().alpn_protocol(), Some(&b"http/1.1"[..]));
    refusal(&server, "a.org", &with_alpn("spdy/3"));
    eventually("it is counted", || server.stat("tls_incompatible_total") == 1.0);
}

#[test]
fn the_end_of_a_connection_is_marked_and_a_truncated_upload_is_none() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let config = authority.client(&[&TLS13]);
    let mut client = connect(&server, "a.org", &config);
    client.send("GET / HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n\r\n").expect("it is read");
    assert_eq!(client.read().expect("an answer").status(), 200);
    assert_eq!(client.read_to_end().expect("close_notify"), b"");
    let mut client = connect(&server, "a.org", &config);
    let head = "POST /upload HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}5\r\nhello\r\n")).expect("it is read");
    client.abort();
    let mut client = connect(&server, "a.org", &config);
    client.get("a.org", "/after").expect("an answer");
    assert_eq!(origin.count("/upload"), 0, "the origin has seen a whole upload");
}

/// Sends these bytes; returns the answer, or `None` if the server does not end the connection.
fn answer_to(server: &Server, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(server.tls_address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => None,
        _ => Some(answer),
    }
}

#[test]
fn a_violation_of_the_protocol_is_not_answered_with_an_orderly_end() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let cases: [(&str, &[u8], &[u8]); 3] = [
        ("no version", b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", b"\x15\x03\x03\x00\x02\x02\x32"),
        // The TLS library has no alert for these.
        ("too long", b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x00", b""),
        ("interleaved", b"\x16\x03\x01\x00\x05\x01\x00\x01\x00\x00\x14\x03\x01\x00\x01\x01", b""),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(answer_to(&server, bytes).as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn malformed_bytes_end_their_connection_and_no_other() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).flag("--tls-handshake-ms-max", "1s").start();
    let config = authority.client(&[&TLS13]);
    let mut open = connect(&server, "a.org", &config);
    let cases: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x00",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x16\x02\x00\x00\x01\x00",
    ];
    for case in cases {
        assert!(answer_to(&server, case).is_some(), "{case:?}");
    }
    let mut rng = Rng::of("malformed handshakes");
    for _ in 0..200 {
        let mut bytes = vec![22, 3, 1];
        bytes.extend((0..rng.below(300)).map(|_| rng.below(256) as u8));
        let mut stream = TcpStream::connect(server.tls_address()).expect("it listens");
        let _ = stream.write_all(&bytes);
    }
    let mut ended = connect(&server, "a.org", &config);
    ended.send("GET / HTTP/1.1\r\nno field\r\n\r\n").expect("it is read");
    assert_eq!(ended.read().expect("an answer").status(), 400);
    ended.send_raw(b"\x17\x03\x03\x00\x14twenty bytes of junk").expect("it is discarded");
    assert_eq!(ended.read_to_end().expect("close_notify"), b"");
    drop(ended);
    assert_eq!(open.get("a.org", "/").expect("an answer").status(), 200);
    eventually("one connection is left", || server.stat("connections_open") == 1.0);
    eventually("no handshake is left", || server.stat("tls_handshaking") == 0.0);
    for counter in ["tls_not_tls_total", "tls_malformed_total", "tls_timed_out_total"] {
        assert!(server.stat(counter) >= 1.0, "{counter}");
    }
    assert_eq!(server.stat("panics_total"), 0.0);
}

#[test]
fn half_open_handshakes_of_one_network_leave_room_for_others() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority)
        .flag("--workers", "1")
        .flag("--tls-handshakes-max", "16")
        .flag("--tls-handshake-ms-max", "2s")
        .start();
    // Each client begins a handshake and sends no more; together they hold the share of their
    // network.
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let mut client = Client::connect_from([127, 0, 0, 2].into(), server.tls_address());
            assert!(client.send(b"\x16\x03\x01\x01\x00\x01\x00"));
            client
        })
        .collect();
    eventually("they have begun", || server.stat("tls_handshaking") == 100.0);
    let config = authority.client(&[&TLS13]);
    for turn in 0..10 {
        let mut client = connect(&server, "a.org", &config);
        let answer = client.get("a.org", "/").expect("an answer");
        assert_eq!(answer.status(), 200, "connection {turn}");
    }
    eventually("they time out", || server.stat("tls_timed_out_total") == 100.0);
    assert_eq!(server.stat("tls_handshaking"), 0.0);
    drop(flood);
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_others() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority)
        .flag("--workers", "1")
        .flag("--body-grace-ms", "1s")
        .flag("--body-rate-min", "1000000000")
        .start();
    let config = authority.client(&[&TLS13]);
    let mut slow = connect(&server, "a.org", &config);
    for _ in 0..40 {
        let request = "GET /large HTTP/1.1\r\nHost: a.org\r\n\r\n";
        slow.send(request).expect("it is read");
    }
    let mut other = connect(&server, "a.org", &config);
    assert!(other.get("a.org", "/large").expect("an answer").body == large());
    eventually("the slow one is cut", || server.stat("slow_clients_total") == 1.0);
    assert!(slow.read_to_end().is_err(), "its response looks complete");
}

#[test]
fn unusable_files_are_named_with_their_settings() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::bare(PROGRAM, "check");
    let folder = builder.path("");
    for set in ["default", "exact", "below", "rsa"] {
        authority.issue(&["a.org"]).write(&folder, set);
    }
    authority.issue(&["a.org"]).write(&folder, "stranger");
    let expired = authority.issue_with(&["a.org"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    expired.write(&folder, "expired");
    std::fs::write(folder.join("empty.pem"), "nothing").expect("the folder is ours");
    let own = |cert: &str, key: &str| format!("tls_cert = '{cert}'\ntls_key = '{key}'");
    let check = |tls: &str, exact: &str| {
        let path = folder.join("f.toml");
        std::fs::write(&path, sites(&origin, tls, exact)).expect("the folder is ours");
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.arg("check").arg(&path).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check(DEFAULT, EXACT), (true, String::new()));
    for (tls, exact, valid, parts) in [
        (DEFAULT, own("none.pem", "exact.key"), false, &["f.toml:8:12", "none.pem", "No such"][..]),
        (
            DEFAULT,
            own("empty.pem", "exact.key"),
            false,
            &["f.toml:8:12", "contains no certificate"],
        ),
        (
            DEFAULT,
            own("exact.pem", "empty.pem"),
            false,
            &["f.toml:9:11", "contains no private key"],
        ),
        (DEFAULT, own("exact.pem", "stranger.key"), false, &["f.toml:9:11", "does not belong to"]),
        (DEFAULT, "tls_cert = 'exact.pem'".into(), false, &["f.toml:8:12", "needs `tls_key`"]),
        (DEFAULT, "tls_key = 'exact.key'".into(), false, &["f.toml:8:11", "needs `tls_cert`"]),
        ("", EXACT.into(), false, &["f.toml:1:14", "\"other\" has no certificate"]),
        (DEFAULT, own("expired.pem", "expired.key"), true, &["warning: ", "has expired"]),
    ] {
        let (is_valid, text) = check(tls, &exact);
        assert_eq!(is_valid, valid, "{exact}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{exact}: {parts:?}: {text}");
    }
}

#[test]
fn the_access_log_has_the_facts_of_the_handshake() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = builder(&origin, &authority);
    let log = builder.path("access.log");
    let server = builder.flag("--access-log", &log.display().to_string()).start();
    connect(&server, "a.org", &authority.client(&[&TLS12])).get("a.org", "/").expect("an answer");
    let mut line = String::new();
    eventually("it is logged", || {
        line = std::fs::read_to_string(&log).unwrap_or_default();
        line.contains('\n')
    });
    for part in
        ["\"tls_name\":\"a.org\"", "\"tls_version\":\"TLSv1.2\"", "TLS_ECDHE_ECDSA_WITH_AES_"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
}
