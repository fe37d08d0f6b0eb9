//! Certificates by ACME, as far as they need no certificate authority that works: challenges while
//! an order waits, authorities that are down or hostile, and certificates that another process has
//! put into the directory. `e2e/acme` has the rest.

mod authority;
mod stored;

use std::net::TcpListener;
use std::thread;

use forebay_testkit::tls::rustls::pki_types::UnixTime;
use forebay_testkit::{TestAuthority, TlsClient, eventually};
use serde_json::{Value, json};

use crate::authority::{
    Change, NAMES, StalledAuthority, assert_served, challenge_client, closed_port, file, origin,
    server_check, start, status,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn the_challenges_of_an_order_are_answered_before_rules_and_redirects() {
    let (origin, ca) = (origin(), StalledAuthority::start());
    let port = ca.front.address().port();
    let server = start(&origin, (port, &ca.ca), ("", ""));
    let path = "/.well-known/acme-challenge/token-0_";
    eventually("the challenge is answered", || status(&server, "GET", "a.org", path).0 == 200);
    let (_, proof) = status(&server, "GET", "a.org", path);
    let thumbprint = proof.strip_prefix("token-0_.").expect("it begins with the token");
    assert_eq!(thumbprint.len(), 43, "{proof}");
    for (method, host, path, expected) in [
        ("GET", "A.ORG", path, 200),
        ("GET", "b.org", "/.well-known/acme-challenge/token-1_", 200),
        ("GET", "a.org:80", path, 200),
        ("HEAD", "a.org", path, 200),
        // All other requests are answered as they would be without the order.
        ("POST", "a.org", path, 308),
        ("GET", "b.org", path, 308),
        ("GET", "a.org", "/.well-known/acme-challenge/token-2_", 308),
        ("GET", "a.org", "/.well-known/acme-challenge/", 308),
        ("GET", "a.org", "/.well-known/acme-challenge/token-0_?x", 308),
        ("GET", "a.org", "/", 308),
        ("GET", "other.org", path, 200),
    ] {
        let (found, text) = status(&server, method, host, path);
        assert_eq!(found, expected, "{method} {host}{path}: {text}");
        assert!(host != "other.org" || text == "page", "{host}: {text}");
    }
    assert!(server.stat("acme_http_challenges_total") >= 5.0);
    let failures = file(&server, port, "failures");
    assert!(failures.exists(), "a killed process would order again at once");
    // Without the site, its order ends, and so do the answers.
    let text = std::fs::read_to_string(server.path("forebay.toml")).expect("it was written");
    let without = text.replace("acme = true", "tls_cert = 'other.pem'\ntls_key = 'other.key'");
    server.write_config(&without);
    assert!(server.command(&["reload"]).status.success());
    eventually("the order has ended", || status(&server, "GET", "a.org", path).0 == 308);
    let retry_at = || -> Option<u64> {
        let text = std::fs::read_to_string(&failures).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["retry_at"].as_u64()
    };
    // The first delay after a failed order is ten minutes.
    let soon = UnixTime::now().as_secs() + 120;
    eventually("another order could follow soon", || retry_at().is_some_and(|at| at < soon));
}

#[test]
fn the_challenges_of_an_order_are_answered_in_handshakes_and_the_connections_end() {
    /// The object identifier of the extension acmeIdentifier, in DER.
    const ACME_IDENTIFIER: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 1, 0x1f];
    let (origin, ca) = (origin(), StalledAuthority::start());
    let change = ("acme = true", "acme = true\nacme_challenge = 'tls-alpn-01'");
    let server = start(&origin, (ca.front.address().port(), &ca.ca), change);
    let connect = |name: &str, protocols: &[&[u8]]| {
        TlsClient::connect(server.tls_address(), name, &challenge_client(protocols))
    };
    let only_acme: &[&[u8]] = &[b"acme-tls/1"];
    eventually("the challenge is answered", || connect("a.org", only_acme).is_ok());
    for name in NAMES {
        let mut client = connect(name, only_acme).expect("it is answered");
        let chain = client.connection().peer_certificates().expect("a certificate").to_vec();
        let has = |part: &[u8]| chain[0].windows(part.len()).any(|found| found == part);
        assert!(has(ACME_IDENTIFIER) && has(name.as_bytes()), "{name}");
        assert_eq!(client.connection().alpn_protocol(), Some(&b"acme-tls/1"[..]));
        assert_eq!(client.read_to_end().expect("it ends"), b"", "{name}");
    }
    assert!(connect("other.org", only_acme).is_err(), "it is no name of the order");
    // All other clients get what they would get without the order.
    let both: &[&[u8]] = &[b"acme-tls/1", b"http/1.1"];
    let mut client = connect("other.org", both).expect("it has a certificate");
    assert_eq!(client.get("other.org", "/").expect("an answer").text(), "page");
    assert!(connect("a.org", &[b"http/1.1"]).is_err(), "it has no certificate yet");
    assert!(server.stat("acme_tls_challenges_total") >= 2.0);
    assert!(server.stat("tls_no_certificate_total") >= 2.0);
}

/// An authority that answers with another status and other content, and the reason that the server
/// reports.
fn case(
    path: &'static str,
    status: &'static str,
    expected: &'static str,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) -> (Change, &'static str) {
    ((path, status, Box::new(change)), expected)
}

fn problem(detail: &'static str) -> impl Fn(&mut Value) + Send + Sync {
    move |value| {
        let kind = "urn:ietf:params:acme:error:rateLimited";
        *value = json!({ "type": kind, "detail": detail });
    }
}

fn token(token: &'static str) -> impl Fn(&mut Value) + Send + Sync {
    move |value| (0..3).for_each(|index| value["challenges"][index]["token"] = json!(token))
}

#[test]
fn an_authority_that_is_hostile_takes_no_site_down_and_is_reported() {
    let long = Value::String("x".repeat(300_000));
    let page = || Value::String("<h1>x".to_owned());
    let cases = [
        case("/dir", "200 OK", "is not the JSON of RFC 8555", |value| *value = json!({})),
        case("/dir", "200 OK", "length limit exceeded", move |value| *value = long.clone()),
        case("/dir", "502 Bad Gateway", "answers with 502", move |value| *value = page()),
        case("/dir", "200 OK", "which is no https URL", |value| {
            value["newNonce"] = json!("http://localhost/");
        }),
        case("/dir", "200 OK", "which is no https URL", |value| {
            value["newNonce"] = json!("https://local host/");
        }),
        case("/nonce", "500 x", "newNonce", |_| {}),
        case("/account", "400 x", r"no \u{1b}[2J (rateLimited)", problem("no \u{1b}[2J")),
        case("/order", "429 x", "new order: too many (rateLimited)", problem("too many")),
        case("/order", "201 x", "more authorizations than names", |value| {
            value["authorizations"] = json!(vec!["https://localhost/"; 5_000]);
        }),
        case("/authz/0", "200 OK", "the token is malformed", token("../../x")),
        case("/authz/0", "200 OK", "the token is malformed", token("")),
        case("/authz/0", "200 OK", "for a name that is not in the order", |value| {
            value["identifier"]["value"] = json!("c.org");
        }),
        case("/authz/0", "200 OK", "does not offer the challenge http-01", |value| {
            value["challenges"].as_array_mut().expect("three").truncate(1);
        }),
        case("/authz/0", "200 OK", "it is Invalid", |value| value["status"] = json!("invalid")),
        case("/challenge", "400 x", "challenge: wrong (rateLimited)", problem("wrong")),
    ];
    let origin = origin();
    for (change, expected) in cases {
        let at = change.0;
        let ca = StalledAuthority::start_with(change);
        let port = ca.front.address().port();
        let server = start(&origin, (port, &ca.ca), ("", ""));
        eventually("the order fails", || server.stat("acme_failures_total") == 1.0);
        eventually("it is reported", || server.errors().contains("acme_urgent"));
        let errors = server.errors();
        assert!(errors.contains(expected), "{at}: no {expected:?} in {errors}");
        assert_served(&server, expected);
        let failures = std::fs::read_to_string(file(&server, port, "failures")).expect(at);
        let failures: Value = serde_json::from_str(&failures).expect(at);
        assert_eq!(failures["count"], 1, "{at}: {failures}");
        let checked = server_check(&server);
        assert!(checked.contains("the last order by ACME failed"), "{at}: {checked}");
        assert!(ca.origin.request_count() < 30, "{at}: {}", ca.origin.request_count());
    }
}

#[test]
fn an_authority_that_speaks_no_tls_is_reported() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let garbage = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = garbage.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in garbage.incoming().map_while(Result::ok) {
            let _ = std::io::Write::write_all(&mut stream, &[0xff; 4096]);
        }
    });
    for port in [port, closed_port()] {
        let server = start(&origin, (port, &ca), ("", ""));
        eventually("the order fails", || server.errors().contains("acme_urgent"));
        let errors = server.errors();
        assert!(errors.contains("account: cannot connect to localhost:"), "{errors}");
        assert_served(&server, "no authority");
    }
}

#[test]
fn a_failed_order_is_not_repeated_at_once_by_a_restart() {
    let (origin, ca) =
        (origin(), StalledAuthority::start_with(("/dir", "500 x", Box::new(|_| {}))));
    let port = ca.front.address().port();
    let server = start(&origin, (port, &ca.ca), ("", ""));
    eventually("the order fails", || server.stat("acme_failures_total") == 1.0);
    let asked = ca.origin.request_count();
    let mut server = server;
    assert!(server.stop().is_some_and(|status| status.success()));
    let again = server.again().start();
    assert_served(&again, "a restart");
    assert_eq!(again.stat("acme_orders_total"), 0.0);
    assert_eq!(ca.origin.request_count(), asked, "the authority is asked again");
}
