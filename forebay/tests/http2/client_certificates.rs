//! Certificates of clients over HTTP/2: all streams of a connection have the certificate of its
//! handshake, and a route or a host that needs another one refuses the stream only.

use std::net::SocketAddr;
use std::sync::Arc;

use forebay_testkit::tls::rustls::ClientConfig;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{Server, ServerBuilder, TestAuthority, eventually};
use h2::client::Builder;
use http::Request;

use crate::common::{ask, origin, with_client};
use crate::tls::{LOCAL, PROGRAM, tunnel};

/// A server whose clients may show a certificate at `a.test` and `b.test`, but not at `c.test`.
/// Routes below `/stored/` need one at `a.test`.
fn server(own: &TestAuthority, clients: &TestAuthority) -> (Server, forebay_testkit::Origin) {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let folder = builder.path("");
    own.issue(&["a.test", "b.test", "c.test"]).write(&folder, "site");
    std::fs::write(folder.join("clients.pem"), clients.pem()).expect("a folder of ours");
    std::fs::write(folder.join("clients.crl"), clients.revocation_list(&[], 2099))
        .expect("a folder of ours");
    let site = |name: &str, more: &str| {
        let url = origin.address();
        format!(
            "[[site]]\nname = '{name}'\nnames = ['{name}.test']\norigin = 'http://{url}'\n{more}\n"
        )
    };
    let required = "[[site.route]]\npath_prefix = '/stored/'\nclient_certificate = 'required'\n";
    let server = builder
        .config(&format!(
            "listen_tls = ['127.0.0.1:0']\ntls_cert = 'site.pem'\ntls_key = 'site.key'\n\
             tls_watch_ms = '1s'\ntls_client_auth = 'optional'\ntls_client_ca = 'clients.pem'\n\
             tls_client_crl = 'clients.crl'\n{}{}{}",
            site("a", required),
            site("b", ""),
            site("c", "tls_client_auth = 'off'"),
        ))
        .start();
    (server, origin)
}

/// Starts a listener whose connections reach `server` over HTTP/2 and TLS, with the host `a.test`.
fn over_http2(server: &Server, config: &Arc<ClientConfig>) -> SocketAddr {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    tunnel(server, Arc::new(config), "a.test", LOCAL)
}

fn get(host: &str, path: &str) -> Request<()> {
    Request::get(format!("https://{host}{path}")).body(()).expect("a request")
}

#[test]
fn a_route_that_needs_a_certificate_refuses_only_the_streams_that_ask_for_it() {
    let (own, clients) = (TestAuthority::new(), TestAuthority::new());
    let (server, origin) = server(&own, &clients);
    let with = own.client_with(&[&TLS13], &clients.issue_client("ann", 5));
    let (with, without) = (over_http2(&server, &with), over_http2(&server, &own.client(&[&TLS13])));
    for turn in 0..2 {
        with_client(without, &Builder::new(), |client| async move {
            // No certificate is asked for later: TLS 1.3 has no renegotiation, and HTTP/2 forbids
            // authentication after the handshake (RFC 8740 §3).
            for path in ["/stored/100", "/read", "/stored/100", "/read"] {
                let answer = ask(&client, get("a.test", path), &[]).await.expect(path);
                let expected = if path == "/read" { 200 } else { 403 };
                assert_eq!(answer.status, expected, "{turn}: {path}");
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                let says_why = text.contains("a certificate of the client is needed");
                assert_eq!(says_why, expected == 403, "{turn}: {path}: {text}");
            }
        });
        with_client(with, &Builder::new(), |client| async move {
            for path in ["/stored/100", "/read", "/stored/100"] {
                let answer = ask(&client, get("a.test", path), &[]).await.expect(path);
                assert_eq!(answer.status, 200, "{turn}: {path}");
                if path == "/stored/100" {
                    assert_eq!(answer.fields["cache-control"], "private, max-age=3600");
                }
            }
        });
    }
    assert_eq!(origin.count("/stored/100"), 1, "it is stored, and refused although it is");
    assert_eq!(server.stat("client_certificates_missing_total"), 4.0);
    assert_eq!(server.stat("tls_handshakes_total"), 4.0, "each connection served all its streams");
}

#[test]
fn a_host_with_other_terms_is_misdirected_and_the_connection_goes_on() {
    let (own, clients) = (TestAuthority::new(), TestAuthority::new());
    let (server, origin) = server(&own, &clients);
    let with = own.client_with(&[&TLS13], &clients.issue_client("ann", 5));
    for config in [&with, &own.client(&[&TLS13])] {
        let address = over_http2(&server, config);
        with_client(address, &Builder::new(), |client| async move {
            for (host, expected) in [("c.test", 421), ("b.test", 200), ("a.test", 200)] {
                let answer = ask(&client, get(host, "/read"), &[]).await.expect(host);
                assert_eq!(answer.status, expected, "{host}");
            }
        });
    }
    assert_eq!(origin.count("/read"), 4);
}

#[test]
fn a_revoked_certificate_is_refused_on_further_streams() {
    let (own, clients) = (TestAuthority::new(), TestAuthority::new());
    let (server, _origin) = server(&own, &clients);
    let ann = over_http2(&server, &own.client_with(&[&TLS13], &clients.issue_client("ann", 5)));
    let folder = server.path("");
    let revoke = || {
        let list = clients.revocation_list(&[5], 2099);
        std::fs::write(folder.join("new.crl"), list).expect("a folder of ours");
        std::fs::rename(folder.join("new.crl"), folder.join("clients.crl")).expect("the same");
    };
    let replaced = || server.stat("tls_certificates_replaced_total") == 1.0;
    with_client(ann, &Builder::new(), |client| async move {
        let answer = ask(&client, get("a.test", "/stored/100"), &[]).await.expect("an answer");
        assert_eq!(answer.status, 200);
        revoke();
        eventually("the list is used", replaced);
        let refused = ask(&client, get("a.test", "/stored/100"), &[]).await.expect("an answer");
        assert_eq!(refused.status, 403);
        assert!(String::from_utf8_lossy(&refused.body).contains("no longer valid"));
    });
    with_client(ann, &Builder::new(), |client| async move {
        let refused = ask(&client, get("a.test", "/read"), &[]).await;
        assert!(refused.is_err(), "a handshake with a revoked certificate is complete");
    });
}
