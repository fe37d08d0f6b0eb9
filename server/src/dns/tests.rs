use std::net::Ipv4Addr;

use forebay_testkit::{DnsMode, DnsRecord, DnsServer, Rng};

use super::message::{AnswerReading, DnsQuestion, QuestionKind};
use super::servers::of_file;
use super::*;

const SERVICE: &str = "_http._tcp.shop.test";

fn servers(addresses: &[SocketAddr]) -> DnsServers {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    DnsServers::parse(&texts).expect("they are addresses")
}

fn target(priority: u16, weight: u16, port: u16, host: &str) -> ServiceTarget {
    ServiceTarget { host: host.to_owned(), port, priority, weight }
}

fn record(priority: u16, weight: u16, port: u16, host: &str) -> DnsRecord {
    DnsRecord::Target(priority, weight, port, host.to_owned())
}

/// Returns the targets, and the number of unusable records.
fn targets_of(server: &DnsServer) -> (Vec<ServiceTarget>, usize) {
    match service(&servers(&[server.address()]), SERVICE).expect("it answers") {
        ServiceAnswer::Targets { targets, valid_s: 1, unusable_count } => (targets, unusable_count),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_targets_of_a_service_are_those_of_the_answer() {
    let server = DnsServer::start();
    server.set(SERVICE, &[record(1, 2, 3, "One.Test"), record(4, 0, 65535, "two_2.test")]);
    let expected = vec![target(1, 2, 3, "one.test"), target(4, 0, 65535, "two_2.test")];
    for mode in [DnsMode::Answers, DnsMode::Truncates, DnsMode::Forges] {
        server.set_mode(mode);
        assert_eq!(targets_of(&server), (expected.clone(), 0), "{mode:?}");
        let is_tcp = server.questions().last().expect("it was asked").is_tcp;
        assert_eq!(is_tcp, mode == DnsMode::Truncates, "{mode:?}");
    }
    // A name in capitals is the same name (RFC 4343).
    let answer = service(&servers(&[server.address()]), &SERVICE.to_uppercase());
    assert!(matches!(answer, Ok(ServiceAnswer::Targets { .. })), "{answer:?}");
}

#[test]
fn a_long_answer_comes_over_tcp() {
    let server = DnsServer::start();
    let many: Vec<_> = (1..=100).map(|port| record(0, 1, port, "a-host.shop.test")).collect();
    server.set(SERVICE, &many);
    let (targets, _) = targets_of(&server);
    assert_eq!(targets.len(), 100);
    let questions = server.questions();
    let is_tcp: Vec<_> = questions.iter().map(|question| question.is_tcp).collect();
    assert_eq!(is_tcp, [false, true]);
}

#[test]
fn an_alias_of_a_service_has_its_targets() {
    let server = DnsServer::start();
    server.set(SERVICE, &[DnsRecord::Alias("other.test".to_owned())]);
    server.set("other.test", &[record(0, 1, 80, "one.test")]);
    assert_eq!(targets_of(&server).0, [target(0, 1, 80, "one.test")]);
    let chain = |number: usize| format!("alias-{number}.test");
    server.set(SERVICE, &[DnsRecord::Alias(chain(0))]);
    for number in 0..20 {
        server.set(&chain(number), &[DnsRecord::Alias(chain(number + 1))]);
    }
    server.set(&chain(20), &[record(0, 1, 80, "one.test")]);
    let answer = service(&servers(&[server.address()]), SERVICE).expect("it answers");
    assert_eq!(answer, ServiceAnswer::Missing, "too many aliases");
}

#[test]
fn targets_that_cannot_be_used_are_counted() {
    let server = DnsServer::start();
    let bad = [(80, "a b.test"), (80, "10.0.0.1"), (0, "one.test"), (80, "\u{e4}.test")];
    let records = bad.iter().map(|(port, host)| record(0, 1, *port, host));
    let good = record(0, 1, 80, "one.test");
    server.set(SERVICE, &records.chain([good]).collect::<Vec<_>>());
    assert_eq!(targets_of(&server), (vec![target(0, 1, 80, "one.test")], 4));
}

#[test]
fn a_service_may_be_missing_or_unavailable() {
    let server = DnsServer::start();
    let ask = || service(&servers(&[server.address()]), SERVICE).expect("it answers");
    assert_eq!(ask(), ServiceAnswer::Missing, "no such name");
    server.set(SERVICE, &[]);
    assert_eq!(ask(), ServiceAnswer::Missing, "no such record");
    server.set(SERVICE, &[record(0, 0, 0, "")]);
    assert_eq!(ask(), ServiceAnswer::Unavailable);
}

#[test]
fn another_server_is_asked_if_one_fails() {
    let (one, other) = (DnsServer::start(), DnsServer::start());
    other.set(SERVICE, &[record(0, 1, 80, "one.test")]);
    let both = servers(&[one.address(), other.address()]);
    for mode in [DnsMode::Fails, DnsMode::Silent] {
        one.set_mode(mode);
        let answer = service(&both, SERVICE);
        assert!(matches!(answer, Ok(ServiceAnswer::Targets { .. })), "{mode:?} {answer:?}");
    }
    let asked = one.count(SERVICE);
    assert_eq!(asked, 2);
    let only = servers(&[one.address()]);
    let error = service(&only, SERVICE).expect_err("it is silent").to_string();
    assert_eq!(error, format!("name server {}: no answer in 1000 ms", one.address()));
    assert_eq!(one.count(SERVICE), asked + 2, "a datagram may be lost");
    let closed = one.address();
    drop(one);
    // Until the sockets are closed, the server is silent.
    let is_refused = || {
        let error = service(&servers(&[closed]), SERVICE).expect_err("it is gone");
        error.to_string().contains("refused")
    };
    forebay_testkit::eventually("the port is closed", is_refused);
}

#[test]
fn the_addresses_of_a_name_are_those_of_both_families() {
    let server = DnsServer::start();
    let address = Ipv4Addr::new(127, 0, 0, 9);
    server.set("one.test", &[DnsRecord::Address(address)]);
    let of = |name| addresses(&servers(&[server.address()]), name, 81);
    let expected = FoundAddresses { addresses: vec![(address, 81).into()], valid_s: Some(1) };
    assert_eq!(of("one.test").expect("it has one"), expected);
    let mut kinds: Vec<_> = server.questions().iter().map(|question| question.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [1, 28]);
    assert_eq!(of("none.test").expect_err("it has none").to_string(), "the name has no address");
}

#[test]
fn no_bytes_make_the_reader_of_answers_panic_or_hang() {
    let question = DnsQuestion { name: SERVICE, kind: QuestionKind::Srv };
    let mut rng = Rng::of("dns_answers");
    let mut request = question.request(7).expect("it is a name");
    request[2] |= 0x80;
    assert!(matches!(question.read(7, &request), AnswerReading::Whole(_)));
    for _ in 0..200_000 {
        let mut bytes = request.clone();
        bytes.resize(bytes.len() + rng.below(60), 0xc0);
        for _ in 0..=rng.below(12) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next_u64() as u8;
        }
        bytes.truncate(rng.below(bytes.len() + 1));
        question.read(7, &bytes);
    }
    // Names that refer to each other, at the end of a message with as many records as are read.
    let mut bytes = request[..12].to_vec();
    bytes[6..8].copy_from_slice(&[4, 0]);
    bytes.resize(16 << 10, 0xc0);
    assert_eq!(question.read(7, &bytes), AnswerReading::Foreign);
}

#[test]
fn the_servers_of_the_system_are_those_of_its_file() {
    let text = "# a comment\nsearch shop.test\nnameserver 10.0.0.1\n nameserver ::1 \n\
                nameserver fe80::1%eth0\nnameserver\noptions timeout:1\n";
    let addresses = |text| of_file(text).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(addresses(text), ["10.0.0.1:53", "[::1]:53"]);
    assert_eq!(addresses(""), ["127.0.0.1:53"]);
    assert_eq!(of_file(&"nameserver 10.0.0.1\n".repeat(50)).len(), 8);
    assert_eq!(DnsServers::parse(&["::1", "10.0.0.2:8600"]).expect("valid").get().len(), 2);
    assert_eq!(DnsServers::parse(&["::1", "ns.test"]), Err("ns.test"));
}
