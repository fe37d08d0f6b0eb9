//! The version of HTTP that an origin gets, by `origin_http2`.

use forebay_testkit::{Server, ServerBuilder, TestAuthority, eventually};

use crate::common::{Exchange, Http2Origin, ask, builder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server in front of an origin over TLS that supports `protocols`.
fn start(protocols: &[&str], setting: &str) -> (Http2Origin, Server) {
    let authority = TestAuthority::new();
    let origin = Http2Origin::start_tls(
        &authority.issue(&["127.0.0.1"]),
        protocols,
        |exchange: Exchange| async move {
            let uri = exchange.request.uri().to_string();
            exchange.answer(&[("cache-control", "no-store")], uri.as_bytes()).await;
        },
    );
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let ca = builder.path("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("the folder is ours");
    let server = builder
        .flag("--origin", &format!("https://{}", origin.address))
        .flag("--origin-ca", &ca.display().to_string())
        .flag("--origin-http2", setting)
        .flag("--access-log", "-")
        .flag("--upgrade-protocols", "websocket")
        .start();
    (origin, server)
}

#[test]
fn the_setting_and_the_tls_handshake_choose_the_version() {
    for (protocols, setting, version) in [
        (&["h2", "http/1.1"][..], "auto", "HTTP/2.0"),
        (&["http/1.1"], "auto", "HTTP/1.1"),
        (&[], "auto", "HTTP/1.1"),
        (&["h2", "http/1.1"], "never", "HTTP/1.1"),
        (&["h2", "http/1.1"], "always", "HTTP/2.0"),
        (&["h2"], "always", "HTTP/2.0"),
    ] {
        let (_origin, server) = start(protocols, setting);
        for turn in 0..2 {
            let answer = ask(&server, "GET", "/a", &[]);
            assert_eq!(answer.status, 200, "{protocols:?} {setting} {turn}: {}", answer.text());
            let is_http2 = answer.text() == "https://example.test/a";
            assert_eq!(is_http2, version == "HTTP/2.0", "{protocols:?} {setting}");
        }
        let logged = format!("\"origin_version\":\"{version}\"");
        eventually("it is logged", || server.output().matches(&logged).count() == 2);
        assert_eq!(server.stat("origin_connections_total"), 1.0, "{protocols:?} {setting}");
    }
}

#[test]
fn an_origin_without_http2_gets_no_request_if_http2_is_demanded() {
    for (protocols, reason) in [
        (&[][..], "did not choose HTTP/2 in the TLS handshake"),
        (&["http/1.1"], "speaks none of the offered versions of HTTP"),
    ] {
        let (_origin, server) = start(protocols, "always");
        let answer = ask(&server, "GET", "/a", &[]);
        assert_eq!(answer.status, 502, "{protocols:?}");
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
}

#[test]
fn an_origin_that_answers_in_http1_is_reported() {
    let origin = forebay_testkit::Origin::start(|_| {
        forebay_testkit::Script::answer("400 Bad Request", &[], b"unknown method")
    });
    let server = builder(origin.address()).start();
    assert_eq!(ask(&server, "GET", "/a", &[]).status, 502);
    eventually("it is logged", || server.errors().contains("the origin answers in HTTP/1.1"));
}

#[test]
fn a_request_for_another_protocol_uses_http1() {
    let (_origin, server) = start(&["h2", "http/1.1"], "auto");
    assert_eq!(ask(&server, "GET", "/a", &[]).text(), "https://example.test/a");
    let fields = ["Connection: upgrade", "Upgrade: websocket"];
    let mut client = forebay_testkit::Client::connect(server.address());
    let answer = client.ask("GET", "/b", &fields).expect("an answer");
    assert!(answer.text().starts_with("GET /b HTTP/1.1"), "{}", answer.text());
}

#[test]
fn a_health_check_uses_http2_too() {
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        let agent = exchange.field("user-agent").unwrap_or_default();
        exchange.answer(&[("cache-control", "no-store")], agent.as_bytes()).await;
    });
    let server =
        builder(origin.address).flag("--health-path", "/up").flag("--health-interval-ms", "1s");
    let server = server.start();
    eventually("it is checked", || server.stat("origin_checks_total") >= 1.0);
    assert_eq!(server.stat("origin_checks_failed_total"), 0.0);
}
