//! HTTP/2 over TLS: the choice of the protocol, the facts of the connection that its streams have,
//! and the limits and ends of connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use forebay_testkit::tls::rustls::version::{TLS12, TLS13};
use forebay_testkit::tls::rustls::{ClientConfig, SupportedProtocolVersion};
use forebay_testkit::{
    Gate, Origin, Script, Server, ServerBuilder, Signal, TestAuthority, TlsClient, eventually,
};
use h2::client::Builder;
use http::Request;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::common::{
    RawClient, ask, assert_floods_are_bounded, assert_silent_client_is_served, get, origin,
    with_client,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// A server with one certificate for `a.example`.
fn builder(origin: &Origin, authority: &TestAuthority) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1");
    let (cert, key) = authority.issue(&["a.example"]).write(&builder.path(""), "default");
    builder
        .flag("--listen-tls", "127.0.0.1:0")
        .flag("--tls-cert", &cert.display().to_string())
        .flag("--tls-key", &key.display().to_string())
}

fn offering(
    authority: &TestAuthority,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&authority.client(versions));
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Starts a listener whose connections are passed on over TLS, from the address `from`, so that a
/// client without TLS can be used. Returns its address.
pub(crate) fn tunnel(
    server: &Server,
    config: Arc<ClientConfig>,
    name: &str,
    from: IpAddr,
) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let (address, server) = (listener.local_addr().expect("it is bound"), server.tls_address());
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime.expect("an event loop"), async {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let connector = TlsConnector::from(Arc::clone(&config));
                tokio::task::spawn_local(pass_on(stream, connector, name.clone(), server, from));
            }
        });
    });
    address
}

async fn pass_on(
    mut stream: TcpStream,
    connector: TlsConnector,
    name: ServerName<'static>,
    server: SocketAddr,
    from: IpAddr,
) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("a free port");
    let Ok(inner) = socket.connect(server).await else { return };
    let Ok(mut inner) = connector.connect(name, inner).await else { return };
    // An end without close_notify is an error, after which both connections are closed.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
}

pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[test]
fn streams_have_the_facts_of_their_connection() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = builder(&origin, &authority).flag("--access-log", "-");
    let rules = builder.path("rules.conf");
    let rule = "cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-Stack %{INBOUND:STACK}\n\
                cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-H2 <%{INBOUND:H2}>\n";
    std::fs::write(&rules, rule).expect("the folder is ours");
    let server = builder.flag("--rules", &rules.display().to_string()).start();
    for (version, tls) in [(&TLS12, "tls/1.2"), (&TLS13, "tls/1.3")] {
        let config = offering(&authority, &[version], &["h2", "http/1.1"]);
        let address = tunnel(&server, config, "a.example", LOCAL);
        with_client(address, &Builder::new(), |client| async move {
            for path in ["/read", "/stored/70000", "/stored/70000"] {
                let answer = ask(&client, get("https", path), &[]).await.expect("an answer");
                assert_eq!(answer.status, 200);
                let stack = answer.fields["x-stack"].to_str().expect("text");
                assert_eq!(stack, format!("h2,{tls},tcp,ipv4"));
                assert_eq!(answer.fields["x-h2"], "<h2>");
            }
            let wrong = ask(&client, get("http", "/read"), &[]).await;
            assert!(wrong.is_err(), "the scheme is that of another connection");
        });
    }
    let config = offering(&authority, BOTH, &["http/1.1"]);
    let mut old = TlsClient::connect(server.tls_address(), "a.example", &config).expect("TLS");
    old.get("a.example", "/read").expect("an answer");
    assert_eq!(origin.count("/stored/70000"), 1, "it is stored");
    let reads = origin.requests_below("/read");
    assert_eq!(reads.len(), 3);
    for (read, version) in reads.iter().zip(["2.0 ", "2.0 ", "1.1 "]) {
        assert!(read.head.field("via").is_some_and(|via| via.starts_with(version)), "{read:?}");
        assert_eq!(read.head.field("x-forwarded-proto"), Some("https"));
        assert_eq!(read.head.field("host"), Some("a.example"));
    }
    assert_eq!(server.stat("http2_tls_connections_total"), 2.0);
    assert_eq!(server.stat("http2_connections_total"), 2.0);
    let is_logged = |line: &&str| {
        let parts = ["\"version\":\"HTTP/2.0\"", "\"tls_name\":\"a.example\"", "\"TLSv1."];
        parts.iter().all(|part| line.contains(part))
    };
    let logged = || server.output().lines().filter(is_logged).count();
    eventually("each request is logged", || logged() == 6);
}

#[test]
fn a_client_gets_the_protocol_that_both_sides_permit() {
    let (origin, authority) = (origin(), TestAuthority::new());
    for (setting, offered, expected) in [
        ("true", &["h2", "http/1.1"][..], Ok(Some(&b"h2"[..]))),
        ("true", &["http/1.1", "h2"], Ok(Some(b"h2"))),
        ("true", &["http/1.1"], Ok(Some(b"http/1.1"))),
        ("true", &[], Ok(None)),
        ("false", &["h2", "http/1.1"], Ok(Some(b"http/1.1"))),
        ("false", &["h2"], Err(())),
    ] {
        let server = builder(&origin, &authority).flag("--tls-http2", setting).start();
        let config = offering(&authority, BOTH, offered);
        // With TLS 1.3 the client's side may be complete before the server has refused it.
        let chosen = TlsClient::connect(server.tls_address(), "a.example", &config);
        match (chosen, expected) {
            (Ok(client), Ok(expected)) => {
                assert_eq!(client.connection().alpn_protocol(), expected, "{setting} {offered:?}");
            }
            (_, Err(())) => {
                eventually("it is refused", || server.stat("tls_incompatible_total") == 1.0)
            }
            (Err(error), Ok(_)) => panic!("{setting} {offered:?}: {error}"),
        }
    }
    // Prior knowledge is for connections without TLS (RFC 9113 §3.3).
    let server = builder(&origin, &authority).flag("--http2", "true").start();
    let config = offering(&authority, BOTH, &["http/1.1"]);
    let mut client = TlsClient::connect(server.tls_address(), "a.example", &config).expect("TLS");
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("it is read");
    assert_eq!(client.read().expect("an answer").status(), 505);
}

#[test]
fn a_host_with_other_certificates_is_misdirected() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    for set in ["first", "second"] {
        authority.issue(&["a.example", "b.example"]).write(&builder.path(""), set);
    }
    let site = |host: &str, set: &str| {
        let url = origin.address();
        format!(
            "[[site]]\nname = '{set}'\nnames = ['{host}']\norigin = 'http://{url}'\n\
             tls_cert = '{set}.pem'\ntls_key = '{set}.key'\n"
        )
    };
    let config = format!(
        "listen_tls = ['127.0.0.1:0']\n{}{}",
        site("a.example", "first"),
        site("b.example", "second")
    );
    let server = builder.config(&config).start();
    let config = offering(&authority, BOTH, &["h2"]);
    let address = tunnel(&server, config, "a.example", LOCAL);
    with_client(address, &Builder::new(), |client| async move {
        let status = |host: &str| {
            let (client, host) = (client.clone(), host.to_owned());
            async move {
                let request = Request::get(format!("https://{host}/read")).body(());
                let answer = ask(&client, request.expect("a request"), &[]).await;
                answer.expect("an answer").status
            }
        };
        assert_eq!(status("a.example").await, 200);
        assert_eq!(status("b.example").await, 421);
        assert_eq!(status("a.example").await, 200, "the connection goes on");
    });
    assert_eq!(origin.count("/read"), 2);
}

#[test]
fn a_client_that_sends_nothing_while_it_reads_is_served() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let address = tunnel(&server, offering(&authority, BOTH, &["h2"]), "a.example", LOCAL);
    assert_silent_client_is_served(address, "https");
}

#[test]
fn floods_end_their_connection_and_no_other() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).start();
    let address = tunnel(&server, offering(&authority, BOTH, &["h2"]), "a.example", LOCAL);
    assert_floods_are_bounded(&server, address, "https");
}

#[test]
fn a_header_block_without_end_ends_its_connection() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let server = builder(&origin, &authority).flag("--head-ms-max", "2000").start();
    let address = tunnel(&server, offering(&authority, BOTH, &["h2"]), "a.example", LOCAL);
    let mut flood = RawClient::connect(address);
    flood.frame(1, 0, 1, b"\x82\x87\x84");
    for _ in 0..10_000 {
        if !flood.frame(9, 0, 1, b"") {
            break;
        }
    }
    eventually("the flood ends", || server.stat("http2_errors_total") == 1.0);
    let mut slow = RawClient::connect(address);
    slow.frame(1, 0, 1, b"\x82\x87\x84");
    eventually("the slow one ends", || server.stat("http2_errors_total") == 2.0);
    with_client(address, &Builder::new(), |client| async move {
        let answer = ask(&client, get("https", "/stored/10"), &[]).await;
        assert_eq!(answer.expect("another client is served").status, 200);
    });
}

#[test]
fn the_streams_of_one_network_leave_room_for_others() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.target.starts_with("/held/") {
        true => Script::new().wait(&held).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        false => Script::answer("200 OK", &["Cache-Control: no-store"], b"read"),
    });
    let authority = TestAuthority::new();
    let server = builder(&origin, &authority)
        .flag("--connections-per-worker-max", "6")
        .flag("--connections-per-address-max", "4")
        .start();
    let config = offering(&authority, BOTH, &["h2"]);
    let hostile = tunnel(&server, Arc::clone(&config), "a.example", [127, 0, 0, 2].into());
    let other = tunnel(&server, config, "a.example", LOCAL);
    let mut flood = RawClient::connect(hostile);
    for stream in 0..7u32 {
        let path = format!("/held/{stream}");
        flood.request(
            2 * stream + 1,
            &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", &path)],
        );
    }
    eventually("three are refused", || server.stat("http2_streams_refused_total") == 3.0);
    eventually("four are held", || origin.requests_below("/held/").len() == 4);
    with_client(other, &Builder::new(), |client| async move {
        let answer = ask(&client, get("https", "/read"), &[]).await;
        assert_eq!(answer.expect("another network is served").status, 200);
    });
    gate.open();
    let mut answered = flood.until_pong();
    // A reset of a refused stream says that the request may be sent again.
    answered.retain(|(kind, _)| *kind == 3);
    assert_eq!(answered, [(3, 9), (3, 11), (3, 13)]);
    let mut stream = 15;
    eventually("the slots are free again", || {
        stream += 2;
        flood.request(
            stream,
            &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/read")],
        );
        origin.count("/read") >= 2
    });
}

/// Sends the first half of a request, makes the server end the connection, and checks that this
/// request and those that follow are served, until the client is told to go away.
fn assert_drains(server: &Server, address: SocketAddr, end: impl FnOnce(&Server)) {
    with_client(address, &Builder::new(), |client| async move {
        ask(&client, get("https", "/stored/10"), &[]).await.expect("an answer");
        let mut asked = client.clone().ready().await.expect("an open connection");
        let request = Request::post("https://a.example/echo").body(()).expect("a request");
        let (response, mut body) = asked.send_request(request, false).expect("it is ready");
        body.send_data(Bytes::from_static(b"abc"), false).expect("an open stream");
        end(server);
        let mut count = 0;
        while ask(&client, get("https", "/stored/10"), &[]).await.is_ok() {
            count += 1;
            assert!(count < 100_000, "the client is never told to go away");
        }
        body.send_data(Bytes::from_static(b"def"), true).expect("an open stream");
        assert_eq!(response.await.expect("it is served").status(), 200);
    });
}

#[test]
fn a_reload_that_forbids_http2_drains_its_connections() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authority.issue(&["a.example"]).write(&builder.path(""), "default");
    let config = |http2: bool| {
        let url = origin.address();
        format!(
            "listen_tls = ['127.0.0.1:0']\ntls_http2 = {http2}\n\
             tls_cert = 'default.pem'\ntls_key = 'default.key'\n\
             [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{url}'\n"
        )
    };
    let server = builder.config(&config(true)).start();
    let both = offering(&authority, BOTH, &["h2", "http/1.1"]);
    let address = tunnel(&server, Arc::clone(&both), "a.example", LOCAL);
    assert_drains(&server, address, |server| {
        server.write_config(&config(false));
        server.signal(Signal::HUP);
    });
    let mut next = TlsClient::connect(server.tls_address(), "a.example", &both).expect("TLS");
    assert_eq!(next.connection().alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(next.get("a.example", "/stored/10").expect("an answer").status(), 200);
}

#[test]
fn a_stop_and_an_upgrade_serve_the_requests_under_way() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let mut first = builder(&origin, &authority).start();
    let config = offering(&authority, BOTH, &["h2"]);
    let address = tunnel(&first, Arc::clone(&config), "a.example", LOCAL);
    let mut second = None;
    assert_drains(&first, address, |first| {
        let successor = first.successor().flag("--listen-tls", &first.tls_address().to_string());
        let run = first.path("run").display().to_string();
        second = Some(successor.flag("--runtime-dir", &run).start());
    });
    assert!(first.wait().is_some_and(|status| status.success()));
    let mut second = second.expect("it has started");
    let address = tunnel(&second, config, "a.example", LOCAL);
    assert_drains(&second, address, |second| second.signal(Signal::TERM));
    assert!(second.wait().is_some_and(|status| status.success()));
}
