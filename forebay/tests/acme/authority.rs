//! A certificate authority whose orders never end, a server that uses it, and its clients.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_testkit::tls::rustls::ClientConfig;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::tls::{AnyCertificate, TlsFront};
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, TestAuthority, TlsClient};
use serde_json::{Value, json};

use crate::PROGRAM;

/// The names of the site, of which each needs a proof.
pub(crate) const NAMES: [&str; 2] = ["a.org", "b.org"];

/// The answer to one path of a certificate authority, in place of the usual one.
pub(crate) type Change = (&'static str, &'static str, Box<dyn Fn(&mut Value) + Send + Sync>);

/// A certificate authority that never ends an order, since it checks no challenge. It answers
/// `status` at the path of `change`, with the changed content.
pub(crate) struct StalledAuthority {
    pub(crate) front: TlsFront,
    pub(crate) ca: TestAuthority,
    pub(crate) origin: Origin,
}

impl StalledAuthority {
    pub(crate) fn start() -> StalledAuthority {
        StalledAuthority::start_with(("", "", Box::new(|_| {})))
    }

    pub(crate) fn start_with((path, status, change): Change) -> StalledAuthority {
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
            let fields = ["Replay-Nonce: bm9uY2U", "Retry-After: 30", &location, kind];
            Script::answer(status, &fields, body.as_bytes())
        });
        let ca = TestAuthority::new();
        let front = TlsFront::start(&ca.issue(&["localhost"]), origin.address());
        StalledAuthority { front, ca, origin }
    }
}

/// The answer of an authority whose orders never end.
pub(crate) fn usual_answer(request: &forebay_testkit::Request) -> (&'static str, Value) {
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

pub(crate) fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"))
}

/// A configuration with the site `shop`, and the site `other` with a certificate of its own.
pub(crate) fn config(
    builder: &ServerBuilder,
    origin: &Origin,
    (port, ca): (u16, &TestAuthority),
) -> String {
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
pub(crate) fn start(
    origin: &Origin,
    authority: (u16, &TestAuthority),
    change: (&str, &str),
) -> Server {
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, origin, authority).replace(change.0, change.1);
    builder.config(&text).start()
}

/// The file of the site's certificate, or of its failures.
pub(crate) fn file(server: &Server, port: u16, ending: &str) -> PathBuf {
    server.path(&format!("acme/localhost%3A{port}%2Fdir/shop.{ending}"))
}

pub(crate) fn status(server: &Server, method: &str, host: &str, path: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let answer = client.response(method).expect("an answer");
    (answer.status, answer.text())
}

pub(crate) fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

/// Makes the directory for the authority at this port.
pub(crate) fn private_dir(builder: &ServerBuilder, port: u16) -> PathBuf {
    let dir = builder.path(&format!("acme/localhost%3A{port}%2Fdir"));
    std::fs::create_dir_all(&dir).expect("the folder is ours");
    for private in [builder.path("acme"), dir.clone()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(private, mode).expect("the folder is ours");
    }
    dir
}

/// Checks that the plain site answers, that TLS for it is refused, and that other sites have TLS.
pub(crate) fn assert_served(server: &Server, case: &str) {
    assert_eq!(status(server, "GET", "a.org", "/").0, 308, "{case}");
    let connect =
        |name| TlsClient::connect(server.tls_address(), name, &challenge_client(&[b"http/1.1"]));
    assert!(connect("a.org").is_err(), "{case}");
    let mut client = connect("other.org").expect(case);
    assert_eq!(client.get("other.org", "/").expect("an answer").text(), "page", "{case}");
}

pub(crate) fn server_check(server: &Server) -> String {
    let file = server.path("forebay.toml").display().to_string();
    let checked = std::process::Command::new(PROGRAM).args(["check", &file]).output();
    let checked = checked.expect("the program runs");
    assert!(checked.status.success());
    [checked.stdout, checked.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat()
}

/// A client of a certificate authority, which does not trust anyone (RFC 8737 §3). The TLS library
/// cannot read a certificate with the critical extension of the challenge.
pub(crate) fn challenge_client(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    Arc::new(AnyCertificate::default()).config(&TLS13, protocols)
}
