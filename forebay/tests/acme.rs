//! Certificates by ACME, as far as they need no certificate authority that works: challenges while
//! an order waits, authorities that are down or hostile, and certificates that another process has
//! put into the directory. `e2e/acme` has the rest.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use forebay_testkit::tls::TlsFront;
use forebay_testkit::tls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use forebay_testkit::tls::rustls::crypto::aws_lc_rs;
use forebay_testkit::tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::tls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};
use forebay_testkit::{
    Client, Origin, Script, Server, ServerBuilder, TestAuthority, TlsClient, eventually,
};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The names of the site, of which each needs a proof.
const NAMES: [&str; 2] = ["a.org", "b.org"];

/// The answer to one path of a certificate authority, in place of the usual one.
type Change = (&'static str, &'static str, Box<dyn Fn(&mut Value) + Send + Sync>);

/// A certificate authority that never ends an order, since it checks no challenge. It answers
/// `status` at the path of `change`, with the changed content.
struct StalledAuthority {
    front: TlsFront,
    ca: TestAuthority,
    origin: Origin,
}

impl StalledAuthority {
    fn start() -> StalledAuthority {
        StalledAuthority::start_with(("", "", Box::new(|_| {})))
    }

    fn start_with((path, status, change): Change) -> StalledAuthority {
        let origin = Origin::start(move |request| {
            let (found, mut content) = usual_answer(request);
            let is_changed = !path.is_empty() && request.target.starts_with(path);
            if is_changed {
                change(&mut content);
            }
            let status = if is_changed { status } else { found };
            let host = request.head.field("host").unwrap_or_default();
            let location = format!("Location: https://{host}{}/1", request.target);
            let kind = match status.starts_with('4') {
                true => "Content-Type: application/problem+json",
                false => "Content-Type: application/json",
            };
            let body = match content {
                Value::String(text) => text,
                content => content.to_string(),
            };
            let body = if request.method == "HEAD" { String::new() } else { body };
            let fields = ["Replay-Nonce: bm9uY2U", "Retry-After: 3600", &location, kind];
            Script::answer(status, &fields, body.as_bytes())
        });
        let ca = TestAuthority::new();
        let front = TlsFront::start(&ca.issue(&["localhost"]), origin.address());
        StalledAuthority { front, ca, origin }
    }
}

/// The answer of an authority whose orders never end.
fn usual_answer(request: &forebay_testkit::Request) -> (&'static str, Value) {
    let base = format!("https://{}", request.head.field("host").unwrap_or_default());
    let at = |path: &str| format!("{base}/{path}");
    let path = request.target.as_str();
    let of_name = |index: usize| {
        let (token, url) = (format!("token-{index}_"), at("challenge"));
        let challenge =
            |kind| json!({ "type": kind, "url": url, "token": token, "status": "pending" });
        let challenges = ["dns-01", "http-01", "tls-alpn-01"].map(challenge);
        json!({
            "status": "pending",
            "identifier": { "type": "dns", "value": NAMES[index] },
            "challenges": challenges,
        })
    };
    match path {
        "/dir" => {
            let directory = json!({
                "newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("order"),
            });
            ("200 OK", directory)
        }
        "/account" => ("201 Created", json!({ "status": "valid" })),
        "/authz/0" => ("200 OK", of_name(0)),
        "/authz/1" => ("200 OK", of_name(1)),
        "/challenge" => ("200 OK", of_name(0)["challenges"][1].clone()),
        _ if path.starts_with("/order") => {
            let order = json!({
                "status": "pending", "finalize": at("finalize"),
                "authorizations": [at("authz/0"), at("authz/1")],
            });
            ("201 Created", order)
        }
        _ => ("200 OK", json!({})),
    }
}

fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"))
}

/// A configuration with the site `shop`, and the site `other` with a certificate of its own.
fn config(builder: &ServerBuilder, origin: &Origin, (port, ca): (u16, &TestAuthority)) -> String {
    std::fs::write(builder.path("ca.pem"), ca.pem()).expect("the folder is ours");
    ca.issue(&["other.org"]).write(&builder.path(""), "other");
    let url = origin.address();
    format!(
        "listen_tls = ['127.0.0.1:0']\ntls_watch_ms = 1000\nworkers = 2\nacme_dir = 'acme'\n\
         acme_terms_agreed = true\nacme_directory = 'https://localhost:{port}/dir'\n\
         acme_ca = 'ca.pem'\n\
         [[site]]\nname = 'shop'\nnames = {NAMES:?}\norigin = 'http://{url}'\nacme = true\n\
         https_redirect_port = 443\n\
         [[site]]\nname = 'other'\nnames = ['other.org']\norigin = 'http://{url}'\n\
         tls_cert = 'other.pem'\ntls_key = 'other.key'\n"
    )
}

/// Starts a server whose certificates come from the authority at this port.
fn start(origin: &Origin, authority: (u16, &TestAuthority), change: (&str, &str)) -> Server {
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, origin, authority).replace(change.0, change.1);
    builder.config(&text).start()
}

/// The file of the site's certificate, or of its failures.
fn file(server: &Server, port: u16, ending: &str) -> PathBuf {
    server.path(&format!("acme/localhost%3A{port}%2Fdir/shop.{ending}"))
}

fn status(server: &Server, method: &str, host: &str, path: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let answer = client.response(method).expect("an answer");
    (answer.status, answer.text())
}

fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

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
    eventually("it does not count as failed", || !failures.exists());
}

/// A client of a certificate authority, which does not trust anyone (RFC 8737 §3).
#[derive(Debug)]
struct AnyCertificate(rustls::crypto::CryptoProvider);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // The library cannot read a certificate with the critical extension of the challenge.
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn challenge_client(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let provider = aws_lc_rs::default_provider();
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider supports it")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
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
        case("/dir", "502 Bad Gateway", "is not the JSON", move |value| *value = page()),
        case("/dir", "200 OK", "is not an https URL", |value| {
            value["newNonce"] = json!("http://localhost/");
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

/// Checks that the plain site answers, that TLS for it is refused, and that other sites have TLS.
fn assert_served(server: &Server, case: &str) {
    assert_eq!(status(server, "GET", "a.org", "/").0, 308, "{case}");
    let connect =
        |name| TlsClient::connect(server.tls_address(), name, &challenge_client(&[b"http/1.1"]));
    assert!(connect("a.org").is_err(), "{case}");
    let mut client = connect("other.org").expect(case);
    assert_eq!(client.get("other.org", "/").expect("an answer").text(), "page", "{case}");
}

fn server_check(server: &Server) -> String {
    let file = server.path("forebay.toml").display().to_string();
    let checked = std::process::Command::new(PROGRAM).args(["check", &file]).output();
    let checked = checked.expect("the program runs");
    assert!(checked.status.success());
    [checked.stdout, checked.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat()
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

#[test]
fn a_certificate_of_another_process_is_used_and_one_process_orders_at_a_time() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let port = closed_port();
    let builder = ServerBuilder::new(PROGRAM);
    let dir = builder.path(&format!("acme/localhost%3A{port}%2Fdir"));
    let text = config(&builder, &origin, (port, &ca));
    std::fs::create_dir_all(&dir).expect("the folder is ours");
    for private in [builder.path("acme"), dir.clone()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(private, mode).expect("the folder is ours");
    }
    let lock = OpenOptions::new().write(true).create(true).truncate(true).open(dir.join("lock"));
    let lock = lock.expect("the folder is ours");
    File::try_lock(&lock).expect("no other process has it");
    let server = builder.config(&text).start();
    assert_served(&server, "without a certificate");
    assert_eq!(server.stat("acme_certificates_missing"), 1.0);
    let issued = ca.issue(&NAMES);
    let new = dir.join("new");
    std::fs::write(&new, issued.key + &issued.cert).expect("the folder is ours");
    std::fs::rename(&new, file(&server, port, "pem")).expect("the folder is ours");
    let config = ca.client(&[&TLS13]);
    eventually("the certificate is used", || {
        TlsClient::connect(server.tls_address(), "b.org", &config).is_ok()
    });
    let mut client = TlsClient::connect(server.tls_address(), "a.org", &config).expect("it fits");
    assert_eq!(client.get("a.org", "/").expect("an answer").text(), "page");
    eventually("it is counted", || server.stat("acme_certificates_missing") == 0.0);
    assert_eq!(server.stat("acme_orders_total"), 0.0, "another process held the lock");
    assert!(server_check(&server).contains("valid until"), "{}", server_check(&server));
    // A file that cannot be used changes nothing.
    std::fs::write(file(&server, port, "pem"), "x").expect("the folder is ours");
    eventually("it is refused", || server.stat("tls_certificates_refused_total") >= 1.0);
    assert_eq!(client.get("a.org", "/").expect("an answer").text(), "page");
    TlsClient::connect(server.tls_address(), "a.org", &config).expect("the old one is in use");
}

#[test]
fn a_directory_that_others_can_read_is_reported_and_nothing_is_ordered() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, &origin, (closed_port(), &ca));
    std::fs::create_dir(builder.path("acme")).expect("the folder is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(builder.path("acme"), mode).expect("the folder is ours");
    let server = builder.config(&text).start();
    eventually("it is reported", || server.errors().contains("acme_failed"));
    assert!(server.errors().contains("chmod 0700"), "{}", server.errors());
    assert_served(&server, "no directory");
    assert_eq!(server.stat("acme_orders_total"), 0.0);
}
