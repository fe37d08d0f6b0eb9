//! Certificates of clients: handshakes and routes that require one, revocation, resumption, rules,
//! the access log and the field `Client-Cert`.

use std::sync::Arc;

use forebay_testkit::tls::rcgen;
use forebay_testkit::tls::rustls::version::{TLS12, TLS13};
use forebay_testkit::tls::rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use forebay_testkit::{
    Client, IssuedCertificate, Origin, Script, Server, ServerBuilder, Signal, TestAuthority,
    TlsClient, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

const VERSIONS: [&[&SupportedProtocolVersion]; 2] = [&[&TLS13], &[&TLS12]];

/// The certificate of the server is from `own`, those of clients are from `clients`.
struct Authorities {
    own: TestAuthority,
    clients: TestAuthority,
}

impl Authorities {
    fn new() -> Authorities {
        Authorities { own: TestAuthority::new(), clients: TestAuthority::new() }
    }

    /// Writes the server's certificate and the authority of clients.
    fn write(&self, builder: &ServerBuilder) {
        let folder = builder.path("");
        self.own.issue(&["a.org", "b.org", "c.org"]).write(&folder, "site");
        std::fs::write(folder.join("clients.pem"), self.clients.pem()).expect("a folder of ours");
    }

    fn plain(&self) -> Arc<ClientConfig> {
        self.own.client(&[&TLS13])
    }

    fn showing(&self, shown: &IssuedCertificate) -> Arc<ClientConfig> {
        self.own.client_with(&[&TLS13], shown)
    }
}

/// An origin whose answers may be stored, and name some fields of the request.
fn origin() -> Origin {
    Origin::start(|request| {
        let field = |name: &str| request.head.field(name).unwrap_or("-").to_owned();
        let body = format!("{} {}", field("client-cert"), field("x-user"));
        let control = match request.target.as_str() {
            "/public" => "Cache-Control: public, max-age=60",
            "/none" => "Cache-Control: no-store",
            _ => "Cache-Control: max-age=60",
        };
        let vary = if request.target == "/public" { "Vary: Client-Cert" } else { "X-A: b" };
        Script::answer("200 OK", &[control, vary], body.as_bytes())
    })
}

/// A configuration with one site for `a.org`, with these settings at the top and in the site.
fn config(origin: &Origin, top: &str, site: &str) -> String {
    format!(
        "listen_tls = ['127.0.0.1:0']\ntls_cert = 'site.pem'\ntls_key = 'site.key'\n\
         tls_watch_ms = '1s'\n{top}\n\
         [[site]]\nname = 'a'\nnames = ['a.org']\norigin = 'http://{}'\n{site}\n",
        origin.address()
    )
}

const REQUIRED: &str = "tls_client_auth = 'required'\ntls_client_ca = 'clients.pem'";
const OPTIONAL: &str = "tls_client_auth = 'optional'\ntls_client_ca = 'clients.pem'";

fn connect(server: &Server, name: &str, config: &Arc<ClientConfig>) -> TlsClient {
    TlsClient::connect(server.tls_address(), name, config).expect(name)
}

/// Sends a request on a new connection; returns the status, or the reason of the failure.
fn status(server: &Server, target: &str, config: &Arc<ClientConfig>) -> Result<u16, String> {
    let mut client = TlsClient::connect(server.tls_address(), "a.org", config)?;
    // With TLS 1.3 the client's side is complete before the server has verified the certificate.
    client.get("a.org", target).map(|answer| answer.status()).map_err(|error| error.to_string())
}

#[test]
fn a_handshake_needs_a_certificate_of_the_right_authority_and_no_port_leads_around_it() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "2");
    authorities.write(&builder);
    let server = builder.config(&config(&origin, REQUIRED, "")).start();
    let (good, stranger) = (authorities.clients.issue_client("ann", 5), TestAuthority::new());
    let expired = authorities.clients.issue_with(&[], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let of_server = authorities.clients.issue_with(&[], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    for versions in VERSIONS {
        let showing = |shown: &_| authorities.own.client_with(versions, shown);
        assert_eq!(status(&server, "/", &showing(&good)), Ok(200));
        for (shown, alert) in [
            (None, "CertificateRequired"),
            (Some(stranger.issue_client("ann", 5)), "UnknownCA"),
            (Some(expired.clone()), "CertificateExpired"),
            (Some(of_server.clone()), "UnsupportedCertificate"),
        ] {
            let config = match &shown {
                Some(shown) => showing(shown),
                None => authorities.own.client(versions),
            };
            let refused = status(&server, "/", &config).expect_err(alert);
            assert!(refused.contains(alert), "{alert}: {refused}");
        }
    }
    assert_eq!(server.stat("tls_client_certificates_refused_total"), 8.0);
    let mut plain = Client::connect(server.address());
    plain.send("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n");
    let answer = plain.response("GET").expect("an answer");
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("a certificate of the client is needed"), "{}", answer.text());
    assert_eq!(server.stat("client_certificates_missing_total"), 1.0);
    assert_eq!(origin.count("/"), 1);
}

#[test]
fn a_route_requires_a_certificate_also_for_hits() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authorities.write(&builder);
    let route = "https_redirect_port = 443\n\
                 [[site.route]]\npath_prefix = '/inner'\nclient_certificate = 'required'\n\
                 purge_from = ['127.0.0.1']";
    let server = builder.config(&config(&origin, OPTIONAL, route)).start();
    let ann = authorities.showing(&authorities.clients.issue_client("ann", 5));
    let (mut without, mut with) =
        (connect(&server, "a.org", &authorities.plain()), connect(&server, "a.org", &ann));
    for _ in 0..3 {
        let get = |client: &mut TlsClient, target: &str| client.get("a.org", target).expect(target);
        assert_eq!(get(&mut without, "/open").status(), 200);
        let stored = get(&mut with, "/inner/page");
        assert_eq!(stored.status(), 200);
        let head = stored.head.to_ascii_lowercase();
        assert!(head.contains("cache-control: private, max-age=60"), "{head}");
        let refused = get(&mut without, "/inner/page");
        assert_eq!(refused.status(), 403);
        assert!(refused.text().contains("a certificate of the client is needed"));
        without.send("PURGE /inner/page HTTP/1.1\r\nHost: a.org\r\n\r\n").expect("it is read");
        assert_eq!(without.read().expect("an answer").status(), 403);
    }
    assert_eq!(origin.count("/inner/page"), 1, "it is stored once for all clients");
    assert_eq!(status(&server, "/open", &ann), Ok(200));
    let mut plain = Client::connect(server.address());
    plain.send("GET /inner/page HTTP/1.1\r\nHost: a.org\r\n\r\n");
    let answer = plain.response("GET").expect("an answer");
    assert_eq!(answer.status, 308, "the certificate can be shown there");
    let stranger = authorities.showing(&TestAuthority::new().issue_client("ann", 5));
    assert!(status(&server, "/open", &stranger).is_err(), "a certificate is never ignored");
}

#[test]
fn a_host_with_other_terms_is_not_served_on_the_same_connection() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authorities.write(&builder);
    let url = origin.address();
    let site = |name: &str, more: &str| {
        format!(
            "[[site]]\nname = '{name}'\nnames = ['{name}.org']\norigin = 'http://{url}'\n{more}"
        )
    };
    let off = "tls_client_auth = 'off'\n";
    let text = config(&origin, REQUIRED, "") + &site("b", off) + "\n" + &site("c", "");
    let server = builder.config(&text).start();
    let ann = authorities.showing(&authorities.clients.issue_client("ann", 5));
    for (name, config, expected) in [
        ("a.org", &ann, [200, 421, 200]),
        ("b.org", &ann, [421, 200, 421]),
        ("b.org", &authorities.plain(), [421, 200, 421]),
    ] {
        let mut client = connect(&server, name, config);
        let hosts = ["a.org", "b.org", "c.org"];
        let found = hosts.map(|host| client.get(host, "/").expect(host).status());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_resumed_session_keeps_its_certificate_but_not_beyond_a_change_of_the_terms() {
    let (origin, authorities) = (origin(), Authorities::new());
    for versions in VERSIONS {
        let builder = ServerBuilder::new(PROGRAM).flag("--workers", "2");
        authorities.write(&builder);
        let rules = "cond %{SEND_RESPONSE_HDR_HOOK}\n\
                     set-header X-Subject \"%{INBOUND:CLIENT-CERT:SUBJECT}\"\n";
        std::fs::write(builder.path("a.rules"), rules).expect("a folder of ours");
        let own = "rules = 'a.rules'";
        let server = builder.config(&config(&origin, OPTIONAL, own)).start();
        let ann = authorities.clients.issue_client("ann", 5);
        let ann = authorities.own.client_with(versions, &ann);
        let resumed = |expected: &str| {
            let mut client = connect(&server, "a.org", &ann);
            let answer = client.get("a.org", "/").expect("an answer");
            let head = answer.head.to_ascii_lowercase();
            assert!(head.contains(expected), "{expected}: {head}");
            client.connection().handshake_kind() == Some(HandshakeKind::Resumed)
        };
        assert!(!resumed("x-subject: cn=ann,o=shop"));
        for turn in 0..4 {
            assert!(resumed("x-subject: cn=ann,o=shop"), "{turn}");
        }
        // The ticket is of no use after the authority was replaced.
        let folder = server.path("");
        let other = TestAuthority::new();
        std::fs::write(folder.join("clients.pem"), other.pem()).expect("a folder of ours");
        server.signal(Signal::HUP);
        eventually("it is applied", || server.stat("reloads_total") == 1.0);
        let refused = status(&server, "/", &ann).expect_err("the authority is another one");
        assert!(refused.contains("UnknownCA"), "{refused}");
        // A ticket without a certificate is of no use if one is required now.
        let plain = authorities.own.client(versions);
        assert_eq!(status(&server, "/", &plain), Ok(200));
        server.write_config(&config(&origin, REQUIRED, own));
        server.signal(Signal::HUP);
        eventually("it is applied", || server.stat("reloads_total") == 2.0);
        assert!(status(&server, "/", &plain).is_err());
    }
}

#[test]
fn a_revoked_certificate_is_refused_also_on_open_connections() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authorities.write(&builder);
    let folder = builder.path("");
    let revoke = |serials: &[u8], until_year: i32| {
        let list = authorities.clients.revocation_list(serials, until_year);
        std::fs::write(folder.join("new.crl"), list).expect("a folder of ours");
        std::fs::rename(folder.join("new.crl"), folder.join("clients.crl")).expect("the same");
    };
    revoke(&[7], 2099);
    let top = format!("{REQUIRED}\ntls_client_crl = 'clients.crl'");
    let server = builder.config(&config(&origin, &top, "")).start();
    let shown = |serial: u8| {
        authorities.showing(&authorities.clients.issue_client(&format!("client {serial}"), serial))
    };
    let refused = status(&server, "/", &shown(7)).expect_err("it is revoked");
    assert!(refused.contains("CertificateRevoked"), "{refused}");
    let (ann, bob) = (shown(5), shown(6));
    let (mut of_ann, mut of_bob) =
        (connect(&server, "a.org", &ann), connect(&server, "a.org", &bob));
    for client in [&mut of_ann, &mut of_bob] {
        assert_eq!(client.get("a.org", "/").expect("an answer").status(), 200);
    }
    revoke(&[7, 5], 2099);
    eventually("it is used", || server.stat("tls_certificates_replaced_total") == 1.0);
    let mut text = String::new();
    eventually("the open connection is refused", || {
        let answer = of_ann.get("a.org", "/").expect("an answer");
        text = answer.text();
        answer.status() == 403
    });
    assert!(text.contains("no longer valid"), "{text}");
    assert!(of_ann.get("a.org", "/").is_err(), "the client has to show its certificate again");
    assert_eq!(of_bob.get("a.org", "/").expect("an answer").status(), 200);
    assert!(status(&server, "/", &ann).is_err() && status(&server, "/", &bob) == Ok(200));
    // A list that is out of date lets no client in.
    revoke(&[], 2025);
    eventually("it is used", || server.stat("tls_certificates_replaced_total") == 2.0);
    eventually("it is refused", || status(&server, "/", &shown(8)).is_err());
    eventually("it is refused", || of_bob.get("a.org", "/").expect("an answer").status() == 403);
}

#[test]
fn the_certificate_is_logged_and_forwarded_and_cannot_be_forged() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authorities.write(&builder);
    let rules = "cond %{SEND_REQUEST_HDR_HOOK}\n\
                 set-header X-User \"%{INBOUND:CLIENT-CERT:SERIAL}\"\n";
    std::fs::write(builder.path("a.rules"), rules).expect("a folder of ours");
    let (log, own) = (builder.path("access.log"), "rules = 'a.rules'");
    let top =
        format!("{OPTIONAL}\nforward_client_certificate = true\naccess_log = '{}'", log.display());
    let server = builder.config(&config(&origin, &top, own)).start();
    let (ann, bob) =
        (authorities.clients.issue_client("ann", 10), authorities.clients.issue_client("bob", 11));
    let value = |shown: &IssuedCertificate| {
        let lines = shown.cert.lines().filter(|line| !line.starts_with('-'));
        format!(":{}:", lines.collect::<String>())
    };
    let ask = |config: &Arc<ClientConfig>, target: &str| {
        let mut client = connect(&server, "a.org", config);
        let fields = "Client-Cert: :Zm9v:\r\nClient-Cert-Chain: :Zm9v:\r\n\
                      Connection: client-cert";
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n{fields}\r\n\r\n"))
            .expect("it is read");
        client.read().expect("an answer").text()
    };
    let (of_ann, of_bob) = (authorities.showing(&ann), authorities.showing(&bob));
    for turn in 0..2 {
        // The origin does not permit to store it.
        assert_eq!(ask(&of_ann, "/"), format!("{} 0A", value(&ann)), "{turn}");
        assert_eq!(ask(&of_bob, "/"), format!("{} 0B", value(&bob)), "{turn}");
        // The origin permits it, with the field in Vary.
        assert_eq!(ask(&of_ann, "/public"), format!("{} 0A", value(&ann)), "{turn}");
        assert_eq!(ask(&of_bob, "/public"), format!("{} 0B", value(&bob)), "{turn}");
        assert_eq!(ask(&authorities.plain(), "/plain"), "- -", "{turn}");
    }
    assert_eq!((origin.count("/"), origin.count("/public"), origin.count("/plain")), (4, 2, 1));
    assert!(origin.requests().iter().all(|request| !request.head.has("client-cert-chain")));
    let mut lines = String::new();
    eventually("it is logged", || {
        lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines.lines().count() == 10
    });
    let line = lines.lines().next().unwrap_or_default();
    for part in [
        "\"tls_client_subject\":\"CN=ann,O=Shop\"",
        "\"tls_client_serial\":\"0A\"",
        "\"tls_client_issuer\":\"CN=authority ",
        "\"tls_client_fingerprint\":\"",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_response_with_a_certificate_is_not_stored_for_other_clients() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    authorities.write(&builder);
    let top = format!("{OPTIONAL}\nforward_client_certificate = true");
    let server = builder.config(&config(&origin, &top, "")).start();
    let showing =
        |name, serial| authorities.showing(&authorities.clients.issue_client(name, serial));
    let ask = |config: &Arc<ClientConfig>| {
        let mut client = connect(&server, "a.org", config);
        client.get("a.org", "/").expect("an answer").text()
    };
    let of_ann = ask(&showing("ann", 10));
    assert!(of_ann.starts_with(':'), "{of_ann}");
    assert_eq!(ask(&authorities.plain()), "- -");
    let of_bob = ask(&showing("bob", 11));
    assert!(of_bob.starts_with(':') && of_bob != of_ann, "{of_bob}");
    assert_eq!(origin.count("/"), 3);
}

#[test]
fn no_route_of_the_site_forwards_a_forged_certificate() {
    const FORGED: [&str; 4] =
        ["Client-Cert", "Client-Cert-Chain", "Client_Cert", "client_cert-CHAIN"];
    let (origin, authorities) = (origin(), Authorities::new());
    let off = "[[site.route]]\npath_prefix = '/off'\nforward_client_certificate = false";
    let on = "[[site.route]]\npath_prefix = '/on'\nforward_client_certificate = true";
    for (top, site) in
        [(OPTIONAL, ""), (OPTIONAL, on), ("forward_client_certificate = true", off), ("", on)]
    {
        let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
        authorities.write(&builder);
        let server = builder.config(&config(&origin, top, site)).start();
        let earlier = origin.request_count();
        let fields: String = FORGED.iter().map(|name| format!("{name}: :Zm9v:\r\n")).collect();
        for target in ["/", "/off", "/on"] {
            let mut client = connect(&server, "a.org", &authorities.plain());
            let head = format!("POST {target} HTTP/1.1\r\nHost: a.org\r\n{fields}");
            let body = format!("1\r\nx\r\n0\r\n{fields}\r\n");
            client
                .send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}"))
                .expect("it is read");
            let answer = client.read().expect("an answer");
            assert_eq!((answer.status(), answer.text().as_str()), (200, "- -"), "{top} {site}");
        }
        let requests = origin.requests_since(earlier);
        assert_eq!(requests.len(), 3);
        for request in requests {
            assert!(request.trailers.is_empty(), "{:?}", request.trailers);
            let has_forged = FORGED.iter().any(|name| request.head.has(name));
            assert!(!has_forged, "{top} {site}: {}", request.target);
        }
    }
}

#[test]
fn settings_that_cannot_work_are_named() {
    let (origin, authorities) = (origin(), Authorities::new());
    let builder = ServerBuilder::bare(PROGRAM, "check");
    authorities.write(&builder);
    let folder = builder.path("");
    std::fs::write(folder.join("empty.pem"), "nothing").expect("a folder of ours");
    std::fs::write(folder.join("long.crl"), "x".repeat(300_000)).expect("a folder of ours");
    let check = |top: &str, site: &str| {
        let path = folder.join("f.toml");
        std::fs::write(&path, config(&origin, top, site)).expect("a folder of ours");
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.arg("check").arg(&path).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Both routes require a certificate, one by the setting of its site.
    let (is_valid, text) = check(
        REQUIRED,
        "[[site.route]]\npath_prefix = '/a'\nclient_certificate = 'required'\n\
         [[site.route]]\npath = '/a/b'\nwith_query = ['v']",
    );
    assert!(is_valid, "{text}");
    let required = "[[site.route]]\npath_prefix = '/x'\nclient_certificate = 'required'";
    for (top, site, parts) in [
        ("tls_client_auth = 'optional'", "", &["f.toml:5:19", "needs `tls_client_ca`"][..]),
        (
            "tls_client_auth = 'optional'\ntls_client_ca = 'empty.pem'",
            "",
            &["f.toml:6:17", "contains no certificate"],
        ),
        (
            "tls_client_auth = 'optional'\ntls_client_ca = 'clients.pem'\n\
             tls_client_crl = ['empty.pem']",
            "",
            &["f.toml:7:18", "contains no revocation list"],
        ),
        ("", required, &["f.toml:12:22", "needs `tls_client_auth`"]),
        ("tls_client_auth = 'on'", "", &["f.toml:5:19", "off, optional, required"]),
        (
            REQUIRED,
            "client_certificate = 'off'\n\
             [[site.route]]\npath_prefix = '/a'\nclient_certificate = 'auto'\n\
             [[site.route]]\npath = '/a/b'\nwith_query = ['v']",
            &["f.toml:16:8", "the route of /a, which has another `client_certificate`"],
        ),
        (
            "tls_client_auth = 'optional'\ntls_client_ca = 'clients.pem'\n\
             tls_client_crl = ['long.crl']",
            "",
            &["f.toml:7:18", "larger than 262144 bytes"],
        ),
        ("client_certificate = 'optional'", "", &["f.toml:5:22", "auto, required, off"]),
    ] {
        let (is_valid, text) = check(top, site);
        assert!(!is_valid, "{top} {site}");
        assert!(parts.iter().all(|part| text.contains(part)), "{top} {site}: {parts:?}: {text}");
    }
}
