//! Sites for TLS only: the redirect from `http`, and Strict-Transport-Security.

use forebay_testkit::tls::TlsResponse;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{
    Client, Origin, Script, ServerBuilder, Signal, TestAuthority, TlsClient, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin whose every response has a Strict-Transport-Security of its own.
fn origin() -> Origin {
    Origin::start(|_| {
        let fields =
            ["Cache-Control: max-age=600", "ETag: \"a\"", "strict-Transport-security: max-age=5"];
        Script::answer("200 OK", &fields, b"page")
    })
}

fn config(origin: &Origin, hsts: &str) -> String {
    let url = origin.address();
    format!(
        "listen_tls = ['127.0.0.1:0']\ntls_cert = 'default.pem'\ntls_key = 'default.key'\n\
         https_redirect_port = 8443\nhsts = '{hsts}'\n\
         [[site]]\nname = 'a'\nnames = ['a.org', '*.a.org']\norigin = 'http://{url}'\n\
         [[site.route]]\npath_prefix = '/open/'\nhttps_redirect_port = 0\n\
         [[site.route]]\npath_prefix = '/usual/'\nhttps_redirect_port = 443\n"
    )
}

/// The values of Strict-Transport-Security in a response.
fn values(response: &TlsResponse) -> Vec<&str> {
    let lines = response.head.lines().filter_map(|line| line.split_once(": "));
    let is_named = |name: &str| name.eq_ignore_ascii_case("strict-transport-security");
    lines.filter(|(name, _)| is_named(name)).map(|(_, value)| value).collect()
}

#[test]
fn a_request_without_tls_is_redirected_to_the_same_url() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authority.issue(&["a.org"]).write(&builder.path(""), "default");
    let server = builder.config(&config(&origin, "max-age=600")).start();
    let mut client = Client::connect(server.address());
    for (line, fields, status, location) in [
        ("GET /p?q=%20", "Host: A.org:8080", 308, Some("https://a.org:8443/p?q=%20")),
        ("HEAD //x", "Host: b.a.org", 308, Some("https://b.a.org:8443//x")),
        ("POST /p", "Host: a.org\r\nContent-Length: 0", 308, Some("https://a.org:8443/p")),
        ("GET http://a.org/p", "Host: a.org", 308, Some("https://a.org:8443/p")),
        ("GET /usual/p", "Host: a.org", 308, Some("https://a.org/usual/p")),
        ("GET /open/p", "Host: a.org", 200, None),
        ("OPTIONS *", "Host: a.org", 421, None),
        ("GET /p", "Host: b.org", 421, None),
    ] {
        let method = line.split(' ').next().expect("a word");
        client.send(format!("{line} HTTP/1.1\r\n{fields}\r\n\r\n"));
        let answer = client.response(method).expect("an answer");
        assert_eq!((answer.status, answer.field("location")), (status, location), "{line}");
        let sts = answer.field("strict-transport-security");
        assert_eq!(sts, (status == 200).then_some("max-age=5"), "{line}: only the origin's");
    }
    assert_eq!(origin.request_count(), 1, "only /open/p");
    assert_eq!(server.stat("https_redirects_total"), 5.0);
    let explained = server.command(&["explain", "http://a.org/p"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("is redirected (`https_redirect_port`)"), "{explained}");
    let mut client =
        TlsClient::connect(server.tls_address(), "a.org", &authority.client(&[&TLS13]));
    let client = client.as_mut().expect("TLS");
    assert_eq!(client.get("a.org", "/p").expect("an answer").status(), 200);
}

#[test]
fn every_response_over_tls_has_the_field_of_the_setting_once() {
    let (origin, authority) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authority.issue(&["a.org"]).write(&builder.path(""), "default");
    let ours = "max-age=63072000; includeSubDomains";
    // The setting may be written in other forms.
    let server = builder.config(&config(&origin, "Max-Age=63072000 ;includesubdomains")).start();
    let mut client =
        TlsClient::connect(server.tls_address(), "a.org", &authority.client(&[&TLS13]))
            .expect("TLS");
    for (fields, status) in [
        ("", 200),
        ("", 200),
        ("If-None-Match: \"a\"\r\n", 304),
        ("Range: bytes=1-2\r\n", 206),
        ("Range: bytes=9-\r\n", 416),
        ("Content-Length: 1\r\n", 400),
    ] {
        let request = format!("GET /p HTTP/1.1\r\nHost: a.org\r\n{fields}\r\n");
        client.send(request).expect("it is read");
        let answer = client.read().expect("an answer");
        assert_eq!(answer.status(), status, "{fields}");
        assert_eq!(values(&answer), [ours], "{fields}: {}", answer.head);
    }
    assert_eq!(origin.request_count(), 1);
    // Without the setting, the stored field of the origin is passed on.
    server.write_config(&config(&origin, "off"));
    server.signal(Signal::HUP);
    eventually("it is applied", || server.stat("reloads_total") == 1.0);
    let mut client =
        TlsClient::connect(server.tls_address(), "a.org", &authority.client(&[&TLS13]))
            .expect("TLS");
    let answer = client.get("a.org", "/p").expect("an answer");
    assert_eq!((answer.status(), values(&answer)), (200, vec!["max-age=5"]));
    assert_eq!(origin.request_count(), 1);
}
