//! Origins over TLS: the certificates that are accepted, and the response if one is refused.

use forebay_testkit::tls::rustls::HandshakeKind;
use forebay_testkit::tls::{TlsFront, rcgen};
use forebay_testkit::{
    Client, Origin, Script, Server, ServerBuilder, Signal, TestAuthority, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(|request| {
        Script::answer("200 OK", &["Cache-Control: no-store"], request.target.as_bytes())
    })
}

/// A server in front of the origin at `https://localhost`, which trusts `authority`.
fn builder(front: &TlsFront, authority: &TestAuthority) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let ca = builder.path("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("the folder is ours");
    let url = format!("https://127.0.0.1:{}", front.address().port());
    builder.flag("--origin", &url).flag("--origin-ca", &ca.display().to_string())
}

fn get(server: &Server, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    let answer = client.ask("GET", target, &["Connection: close"]).expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn an_origin_with_a_valid_certificate_is_used_and_its_session_resumed() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let front = TlsFront::start(&authority.issue(&["127.0.0.1"]), origin.address());
    // No connection is kept, so that the next one resumes the session.
    let server = builder(&front, &authority).flag("--origin-pool-idle-count-max", "0").start();
    for turn in 0..4 {
        assert_eq!(get(&server, "/a"), (200, "/a".to_owned()), "{turn}");
    }
    let kinds = front.handshakes();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    let resumed = kinds.iter().filter(|kind| **kind == Some(HandshakeKind::Resumed)).count();
    assert!(resumed >= 2, "{kinds:?}");
    assert_eq!(server.stat("origin_tls_handshakes_total"), 4.0);
}

#[test]
fn a_connection_is_reused_and_the_configured_name_is_verified() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let front = TlsFront::start(&authority.issue(&["inner.test"]), origin.address());
    let server = builder(&front, &authority).flag("--origin-tls-name", "inner.test").start();
    for turn in 0..4 {
        assert_eq!(get(&server, "/b"), (200, "/b".to_owned()), "{turn}");
    }
    assert_eq!(front.handshakes().len(), 1);
}

#[test]
fn a_certificate_that_fails_a_check_is_never_used_and_the_check_is_named() {
    let (origin, authority, other) = (origin(), TestAuthority::new(), TestAuthority::new());
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    };
    let ecdsa = &rcgen::PKCS_ECDSA_P256_SHA256;
    for (certificate, reason) in [
        (other.issue(&["127.0.0.1"]), "issuer of the origin's certificate is not trusted"),
        (authority.issue(&["inner.test"]), "certificate is for another name"),
        (authority.issue_with(&["127.0.0.1"], ecdsa, expired), "certificate has expired"),
    ] {
        let front = TlsFront::start(&certificate, origin.address());
        let server = builder(&front, &authority).start();
        let (status, text) = get(&server, "/c");
        assert_eq!(status, 502, "{reason}: {text}");
        assert!(text.contains(reason), "{reason}: {text}");
        eventually("it is logged", || server.errors().contains(reason));
        assert_eq!(server.stat("origin_tls_errors_total"), 1.0, "{reason}");
    }
    assert_eq!(origin.request_count(), 0, "a request reached the origin");
}

#[test]
fn an_origin_without_tls_gets_no_request() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let ca = builder.path("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("the folder is ours");
    let url = format!("https://{}", origin.address());
    let server = builder.flag("--origin", &url).flag("--origin-ca", &ca.display().to_string());
    let server = server.start();
    assert_eq!(get(&server, "/d").0, 502);
    assert_eq!(origin.request_count(), 0, "a request was sent in the clear");
}

#[test]
fn an_origin_that_asks_for_a_certificate_gets_it() {
    let (origin, authority, clients) = (origin(), TestAuthority::new(), TestAuthority::new());
    let issued = authority.issue(&["127.0.0.1"]);
    let front = TlsFront::start_with(&issued, Some(&clients), origin.address());
    let reason = "the origin asks for a certificate of this server, or refused the one";
    for (shown, is_accepted) in [
        (Some(clients.issue_client("forebay", 5)), true),
        (Some(TestAuthority::new().issue_client("forebay", 5)), false),
        (None, false),
    ] {
        let mut builder = builder(&front, &authority);
        if let Some(shown) = &shown {
            let (cert, key) = shown.write(&builder.path(""), "shown");
            builder = builder.flag("--origin-tls-cert", &cert.display().to_string());
            builder = builder.flag("--origin-tls-key", &key.display().to_string());
        }
        let server = builder.start();
        let (status, text) = get(&server, "/e");
        assert_eq!(status, if is_accepted { 200 } else { 502 }, "{shown:?}: {text}");
        if !is_accepted {
            assert!(text.contains(reason), "{text}");
            eventually("it is logged", || server.errors().contains("origin_tls_failed"));
            assert_eq!(server.stat("origin_tls_errors_total"), 1.0);
        }
    }
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn a_pinned_key_is_needed_in_addition_to_a_valid_certificate() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let (issued, next) = (authority.issue(&["127.0.0.1"]), authority.issue(&["127.0.0.1"]));
    let stranger = TestAuthority::new();
    let front = TlsFront::start(&issued, origin.address());
    let both = format!("{},{}", next.pin(), issued.pin());
    for (trusted, pins, reason) in [
        (&authority, issued.pin(), None),
        (&authority, both, None),
        (&authority, next.pin(), Some("is not one of origin_tls_pin")),
        (&stranger, issued.pin(), Some("issuer of the origin's certificate is not trusted")),
    ] {
        let server = builder(&front, trusted).flag("--origin-tls-pin", &pins).start();
        let (status, text) = get(&server, "/f");
        assert_eq!(status, if reason.is_none() { 200 } else { 502 }, "{reason:?}: {text}");
        assert!(reason.is_none_or(|reason| text.contains(reason)), "{reason:?}: {text}");
    }
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn routes_with_other_terms_share_no_connection_and_a_reload_reads_the_files() {
    let (origin, authority, clients) = (origin(), TestAuthority::new(), TestAuthority::new());
    let issued = authority.issue(&["127.0.0.1"]);
    let front = TlsFront::start_with(&issued, Some(&clients), origin.address());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let folder = builder.path("");
    std::fs::write(folder.join("ca.pem"), authority.pem()).expect("the folder is ours");
    clients.issue_client("forebay", 5).write(&folder, "shown");
    let url = format!("https://127.0.0.1:{}", front.address().port());
    let shown = "origin_tls_cert = 'shown.pem'\norigin_tls_key = 'shown.key'";
    let server = builder
        .config(&format!(
            "origin_ca = 'ca.pem'\n[[site]]\nname = 'a'\nnames = ['*']\norigin = '{url}'\n{shown}\n\
             [[site.route]]\npath_prefix = '/none'\norigin = '{url}'\norigin_tls_cert = 'off'\n\
             origin_tls_key = 'off'\n"
        ))
        .start();
    assert_eq!(get(&server, "/a").0, 200);
    assert_eq!(get(&server, "/none").0, 502, "it has used a connection of the other route");
    assert_eq!(get(&server, "/a").0, 200);
    assert_eq!(front.handshakes().len(), 1, "a connection is reused with the same terms");
    // Certificate and key are replaced by those of another authority.
    TestAuthority::new().issue_client("forebay", 5).write(&folder, "shown");
    server.signal(Signal::HUP);
    eventually("it is applied", || server.stat("reloads_total") == 1.0);
    assert_eq!(get(&server, "/a").0, 502, "the files were not read again");
}

#[test]
fn files_for_origins_that_change_are_read_without_a_reload() {
    let (origin, clients) = (origin(), TestAuthority::new());
    let (first, second) = (TestAuthority::new(), TestAuthority::new());
    let fronts = [&first, &second].map(|authority| {
        let issued = authority.issue(&["127.0.0.1"]);
        TlsFront::start_with(&issued, Some(&clients), origin.address())
    });
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let folder = builder.path("");
    std::fs::write(folder.join("ca.pem"), first.pem()).expect("the folder is ours");
    TestAuthority::new().issue_client("unknown", 5).write(&folder, "shown");
    let site = |name: &str, front: &TlsFront| {
        format!(
            "[[site]]\nname = '{name}'\nnames = ['{name}.test']\n\
             origin = 'https://127.0.0.1:{}'\n",
            front.address().port()
        )
    };
    let server = builder
        .config(&format!(
            "config_watch_ms = '1s'\norigin_ca = 'ca.pem'\norigin_tls_cert = 'shown.pem'\n\
             origin_tls_key = 'shown.key'\n{}{}",
            site("first", &fronts[0]),
            site("second", &fronts[1])
        ))
        .start();
    let status = |host: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.response("GET").expect("an answer").status
    };
    assert_eq!((status("first.test"), status("second.test")), (502, 502));
    clients.issue_client("forebay", 6).write(&folder, "shown");
    eventually("the new certificate is shown", || status("first.test") == 200);
    assert_eq!(status("second.test"), 502, "its authority is not known");
    std::fs::write(folder.join("ca.pem"), second.pem()).expect("the folder is ours");
    eventually("the new authority is known", || status("second.test") == 200);
    assert_eq!(status("first.test"), 502, "connections of the old authority are not used");
    let errors = server.errors();
    for name in ["shown.pem", "shown.key", "ca.pem"] {
        assert!(errors.contains(name), "{name}: {errors}");
    }
}
