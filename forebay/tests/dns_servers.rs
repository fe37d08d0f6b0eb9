//! Names of origins that the servers of `dns_servers` resolve.

use std::net::{Ipv4Addr, SocketAddr};

use forebay_testkit::{
    Client, DnsMode, DnsRecord, DnsServer, Origin, Request, Script, Server, ServerBuilder,
    eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const NAME: &str = "origin.test";

fn page(_: &Request) -> Script {
    Script::answer("200 OK", &["Cache-Control: no-store"], b"page")
}

/// A server that resolves a name for each request, if the last answer is no longer valid.
fn start(dns: &DnsServer, port: u16) -> Server {
    ServerBuilder::new(PROGRAM)
        .flag("--workers", "2")
        .flag("--origin", &format!("http://{NAME}:{port}"))
        .flag("--origin-pool-idle-count-max", "0")
        .flag("--dns-servers", &dns.address().to_string())
        .start()
}

fn status(server: &Server) -> u16 {
    Client::connect(server.address()).ask("GET", "/", &[]).expect("an answer").status
}

#[test]
fn a_name_is_resolved_again_when_its_answer_is_no_longer_valid() {
    let (dns, one) = (DnsServer::start(), Origin::start(page));
    let port = one.address().port();
    let moved = Ipv4Addr::new(127, 0, 0, 2);
    let other = Origin::start_at(SocketAddr::from((moved, port)), page);
    dns.set(NAME, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
    let server = start(&dns, port);
    assert!((0..10).all(|_| status(&server) == 200));
    assert_eq!(one.request_count(), 10);
    dns.set(NAME, &[DnsRecord::Address(moved)]);
    // `origin_address_ms_max` is 10 seconds, but the answer is valid for one second.
    eventually("the new address is in use", || {
        assert_eq!(status(&server), 200);
        other.request_count() > 0
    });
    assert!(server.stat("uptime_ms") < 9_000.0, "this test has taken too long to show that");
    let resolved = server.stat("origin_resolutions_total");
    assert!((2.0..=10.0).contains(&resolved), "{resolved}");
}

#[test]
fn the_last_addresses_stay_in_use_while_all_name_servers_fail() {
    for mode in [DnsMode::Silent, DnsMode::Fails] {
        let (dns, origin) = (DnsServer::start(), Origin::start(page));
        dns.set(NAME, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
        let server = start(&dns, origin.address().port());
        assert_eq!(status(&server), 200);
        dns.set_mode(mode);
        eventually("old addresses are in use", || {
            assert_eq!(status(&server), 200, "{mode:?}");
            server.stat("origin_stale_addresses_total") > 0.0
        });
        eventually("the failure is reported", || {
            assert_eq!(status(&server), 200, "{mode:?}");
            server.errors().contains("the last known addresses stay in use")
        });
        dns.set_mode(DnsMode::Answers);
    }
}

#[test]
fn names_of_this_machine_and_addresses_are_not_asked_for() {
    let (dns, origin) = (DnsServer::start(), Origin::start(page));
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("http://{host}:{}", origin.address().port());
        let server = ServerBuilder::new(PROGRAM)
            .flag("--origin", &url)
            .flag("--dns-servers", &dns.address().to_string())
            .start();
        assert_eq!(status(&server), 200, "{host}");
    }
    assert_eq!(dns.questions(), []);
}

#[test]
fn a_name_without_an_address_is_an_error() {
    let dns = DnsServer::start();
    let server = start(&dns, 80);
    assert_eq!(status(&server), 502);
    eventually("the failure is reported", || {
        server.errors().contains("origin.test: the name has no address; no addresses are known")
    });
}
