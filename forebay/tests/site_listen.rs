//! Sites that are served at some addresses only, over real sockets: each address has its own hosts
//! and certificates, and sites with the same hosts share no response.

use std::net::{SocketAddr, TcpListener};

use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{
    Client, Origin, Response, Script, Server, ServerBuilder, TestAuthority, TlsClient,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin whose pages are its name.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |_| {
        Script::answer("200 OK", &["Cache-Control: max-age=600"], name.as_bytes())
    })
}

/// Addresses that nothing uses.
fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let sockets = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("it is bound"))
}

fn site(name: &str, host: &str, origin: &Origin, listen: &[SocketAddr]) -> String {
    let listen: Vec<_> = listen.iter().map(SocketAddr::to_string).collect();
    let url = origin.address();
    format!(
        "[[site]]\nname = '{name}'\nnames = ['{host}']\norigin = 'http://{url}'\n\
         listen = {listen:?}\npurge_from = ['127.0.0.1']\n"
    )
}

fn builder(listen: &[SocketAddr]) -> ServerBuilder {
    let listen: Vec<_> = listen.iter().map(SocketAddr::to_string).collect();
    ServerBuilder::new(PROGRAM).flag("--workers", "2").flag("--listen", &listen.join(","))
}

fn ask(address: SocketAddr, method: &str, host: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!("{method} /page HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response(method).expect("an answer")
}

/// The page that a client of the address gets, or the status if it is refused.
fn page(address: SocketAddr, host: &str) -> String {
    let answer = ask(address, "GET", host);
    match answer.status {
        200 => answer.text(),
        status => status.to_string(),
    }
}

fn shown(server: &Server, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn each_address_has_its_own_sites_which_share_no_response() {
    let [first, second, third] = free_addresses();
    let (general, own) = (origin("general"), origin("own"));
    let config = |of_general: &[SocketAddr], of_own: &[SocketAddr]| {
        site("general", "a.org", &general, of_general)
            + &site("own", "a.org", &own, of_own)
            + &site("third", "c.org", &own, &[third])
    };
    let server = builder(&[first, second, third]).config(&config(&[], &[second])).start();
    for turn in 0..2 {
        assert_eq!(page(first, "a.org"), "general", "{turn}");
        assert_eq!(page(second, "a.org"), "own", "{turn}");
        assert_eq!(page(third, "a.org"), "general", "{turn}");
        assert_eq!(page(third, "c.org"), "own", "{turn}");
        for elsewhere in [first, second] {
            assert_eq!(page(elsewhere, "c.org"), "421", "{turn}");
        }
    }
    assert_eq!((general.count("/page"), own.count("/page")), (1, 2));

    // The sites change their addresses under an open connection, and keep their responses.
    let mut open = Client::connect(second);
    open.send("GET /page HTTP/1.1\r\nHost: a.org\r\n\r\n");
    assert_eq!(open.response("GET").expect("an answer").text(), "own");
    server.write_config(&config(&[second], &[]));
    shown(&server, &["reload"]);
    open.send("GET /page HTTP/1.1\r\nHost: a.org\r\n\r\n");
    assert_eq!(open.response("GET").expect("an answer").text(), "general");
    for (address, expected) in [(first, "own"), (second, "general"), (third, "own")] {
        assert_eq!(page(address, "a.org"), expected, "{address}");
    }
    server.write_config(&config(&[second], &[first]));
    shown(&server, &["reload"]);
    assert_eq!(page(third, "a.org"), "421");
    assert_eq!((general.count("/page"), own.count("/page")), (1, 2));
}

#[test]
fn an_upgrade_keeps_the_sites_of_an_address_whatever_the_order() {
    let [first, second, third] = free_addresses();
    let (general, own) = (origin("general"), origin("own"));
    let config = site("general", "*", &general, &[]) + &site("own", "*", &own, &[second]);
    let mut old = builder(&[first, second]).config(&config).start();
    assert_eq!((page(first, "a.org"), page(second, "a.org")), ("general".into(), "own".into()));
    let listen = format!("{first},{third},{second}");
    let _new = old.successor().flag("--listen", &listen).start();
    assert!(old.wait().is_some(), "the old server ends");
    for (address, expected) in [(first, "general"), (second, "own"), (third, "general")] {
        assert_eq!(page(address, "a.org"), expected, "{address}");
    }
}

#[test]
fn a_purge_reaches_every_site_of_a_url_and_a_purge_request_only_its_own() {
    let [first, second] = free_addresses();
    let (general, own) = (origin("general"), origin("own"));
    let config = site("general", "a.org", &general, &[]) + &site("own", "a.org", &own, &[second]);
    let server = builder(&[first, second]).config(&config).start();
    let fetched = || {
        let pages = (page(first, "a.org"), page(second, "a.org"));
        assert_eq!(pages, ("general".into(), "own".into()));
        (general.count("/page"), own.count("/page"))
    };
    assert_eq!(fetched(), (1, 1));
    assert_eq!(ask(second, "PURGE", "a.org").status, 200);
    assert_eq!(fetched(), (1, 2));
    shown(&server, &["purge", "http://a.org/page"]);
    assert_eq!(fetched(), (2, 3));
    shown(&server, &["purge", "http://a.org/page", "--site", "own"]);
    assert_eq!(fetched(), (2, 4));
}

#[test]
fn an_explanation_is_for_one_address() {
    let [first, second] = free_addresses();
    let (general, own) = (origin("general"), origin("own"));
    let config = site("general", "a.org", &general, &[]) + &site("own", "*", &own, &[second]);
    let server = builder(&[first, second]).config(&config).flag("--workers", "1").start();
    let explained = |url: &str, more: &[&str]| shown(&server, &[&["explain", url], more].concat());
    let at_second = format!("http://a.org:{}/page", second.port());
    for (text, address, site) in [
        (explained("http://a.org/page", &[]), first, "general"),
        (explained(&at_second, &[]), second, "own"),
        (explained("http://a.org/page", &["--listen", &second.to_string()]), second, "own"),
        (explained(&at_second, &["--listen", &first.to_string()]), first, "general"),
    ] {
        assert!(text.contains(&format!("\nlistener    {address}\n")), "{text}");
        assert!(text.contains(&format!("\nsite        {site}, origin")), "{text}");
    }
    let text = explained("http://b.org/", &[]);
    assert!(text.contains("no site serves this host at this address"), "{text}");
    assert!(text.contains(&format!("own: * at {second}")), "{text}");
    let refused = server.command(&["explain", "http://a.org/", "--listen", "127.0.0.1:1"]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains(&format!("which are {first}, {second}")), "{refused}");
}

#[test]
fn each_address_has_the_certificates_of_its_sites() {
    let [plain, first, second] = free_addresses();
    let (general, own) = (origin("general"), origin("own"));
    let authority = TestAuthority::new();
    let tls = |set: &str| format!("tls_cert = '{set}.pem'\ntls_key = '{set}.key'\n");
    let config = site("general", "a.org", &general, &[])
        + &tls("general")
        + &site("own", "a.org", &own, &[second])
        + &tls("own")
        + &site("only", "c.org", &own, &[second])
        + &tls("own")
        // This site needs no certificate.
        + &site("plain", "*", &own, &[plain]);
    let builder = builder(&[plain]).flag("--listen-tls", &format!("{first},{second}"));
    for set in ["general", "own"] {
        let names = ["a.org", "c.org", &format!("{set}.test")];
        authority.issue(&names).write(&builder.path(""), set);
    }
    let _server = builder.config(&config).start();
    let client = authority.client(&[&TLS13]);
    for (address, set) in [(first, "general"), (second, "own")] {
        let mut client = TlsClient::connect(address, "a.org", &client).expect("a handshake");
        let chain = client.connection().peer_certificates().expect("the server has one");
        let own = format!("{set}.test");
        assert!(chain[0].windows(own.len()).any(|part| part == own.as_bytes()), "{set}");
        let answer = client.get("a.org", "/page").expect("an answer");
        assert_eq!((answer.status(), answer.text()), (200, set.to_owned()));
        let expected = if set == "own" { 200 } else { 421 };
        assert_eq!(client.get("c.org", "/page").expect("an answer").status(), expected, "{set}");
    }
    // No site at the address has a certificate for this name.
    TlsClient::connect(first, "c.org", &client).expect_err("it is refused");
    assert_eq!(page(plain, "c.org"), "own");
}
