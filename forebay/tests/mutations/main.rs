//! Mutated requests and mutated answers of an origin, over real sockets: the server neither crashes
//! nor hangs, and no byte of one client reaches another client.
//!
//! Each connection of a client has a mark of its own, which its requests carry and the origin
//! repeats. `FOREBAY_MUTATIONS` sets the number of requests, `FOREBAY_SEED` repeats a run.

mod marked_origin;
mod marks;
mod mutator;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_testkit::escape::show;
use forebay_testkit::{Broken, Client, PATIENCE, Rng, Server, ServerBuilder, eventually};
use marked_origin::{Answers, MarkedOrigin};
use marks::Marks;
use mutator::Mutator;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Clients that send at the same time.
const CLIENTS: u64 = 16;

/// The time after which a request without an answer is probably unfinished because of its
/// mutations.
const UNFINISHED: Duration = Duration::from_millis(50);

/// The number of mutated requests or answers, of which each test makes `share`.
fn mutations(share: u64) -> u64 {
    let count = std::env::var("FOREBAY_MUTATIONS");
    count.map_or(20_000, |count| count.parse().expect("a number")) / share
}

fn start(origin: &MarkedOrigin) -> Server {
    ServerBuilder::new(PROGRAM)
        .flag("--origin", &format!("http://{}", origin.address()))
        .flag("--workers", "2")
        .start()
}

/// Runs `act` for each number below `count`, on several threads, each with a generator and an
/// address of its own.
fn on_all_clients(rng: &mut Rng, count: u64, act: impl Fn(&mut Rng, IpAddr, u64) + Sync) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (mut rng, next, act) = (rng.fork(), &next, &act);
            scope.spawn(move || {
                let address = IpAddr::from([127, 0, 1, 1 + number as u8]);
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= count {
                        return;
                    }
                    act(&mut rng, address, number);
                }
            });
        }
    });
}

/// Asserts that the server is as it was before the test: it runs, answers, holds no connection and
/// has not panicked.
fn assert_sound(server: &mut Server, origin: &MarkedOrigin) {
    assert!(server.is_running(), "the server runs");
    assert_eq!(origin.faults(), Vec::<String>::new(), "faults of requests to the origin");
    let mut client = Client::connect(server.address());
    for number in 0..50 {
        let response = client.ask("GET", &format!("/after/{number}"), &[]).expect("an answer");
        assert_eq!(response.status, 200, "a plain request after all others");
    }
    drop(client);
    eventually("no client is connected", || server.stat("connections_open") == 0.0);
    assert_eq!(server.stat("panics_total"), 0.0);
    assert!(!server.errors().contains("panicked"), "{}", server.errors());
}

#[test]
fn a_mutated_request_reaches_only_its_own_client() {
    let mut rng = Rng::of("mutated requests");
    let marks = Arc::new(Marks::new(rng.next_u64()));
    let origin = MarkedOrigin::start(&marks, Answers::Plain, rng.fork());
    let mut server = start(&origin);
    let (mutator, count) = (Mutator::of_requests(), mutations(1));
    let answered = AtomicU64::new(0);
    on_all_clients(&mut rng, count, |rng, address, number| {
        let mark = marks.number(number);
        let mut bytes = Vec::new();
        if rng.below(2) == 0 {
            bytes = mutator.plain(rng, &mark);
        }
        bytes.extend(mutator.mutated(rng, &mark));
        let probe =
            format!("GET /probe/{mark} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        bytes.extend(probe.as_bytes());
        let mut client = Client::connect_from(address, server.address());
        client.send(&bytes);
        let mut received = Vec::new();
        match rng.below(8) {
            0 => return client.reset(),
            1 => {}
            _ => {
                client = client.with_patience(UNFINISHED);
                received = client.rest().0;
            }
        }
        client.finish_sending();
        client = client.with_patience(PATIENCE);
        let (rest, end) = client.rest();
        received.extend(rest);
        assert!(end.is_some(), "the server hangs after {}", show(&bytes));
        let found: BTreeSet<String> = marks.found_in(&received).collect();
        assert!(
            found.iter().all(|other| *other == mark),
            "bytes of another client in {} after {}",
            show(&received),
            show(&bytes)
        );
        let is_http = received.is_empty() || received.starts_with(b"HTTP/1.1 ");
        assert!(is_http, "{} after {}", show(&received), show(&bytes));
        answered.fetch_add(found.len() as u64, Relaxed);
    });
    assert_sound(&mut server, &origin);
    let answered = answered.into_inner();
    assert!(answered > count / 3, "the origin's answer reached {answered} of {count} clients");
}

#[test]
fn a_mutated_answer_reaches_only_its_own_client() {
    let mut rng = Rng::of("mutated answers");
    let marks = Arc::new(Marks::new(rng.next_u64()));
    let origin = MarkedOrigin::start(&marks, Answers::Mutated, rng.fork());
    let mut server = start(&origin);
    let count = mutations(5);
    let answered = AtomicU64::new(0);
    on_all_clients(&mut rng, count, |rng, address, number| {
        let mark = marks.number(number);
        let field = format!("X-Mark: {mark}");
        let mut client = Client::connect_from(address, server.address());
        for _ in 0..=rng.below(3) {
            let method = if rng.below(8) == 0 { "HEAD" } else { "GET" };
            let target = match rng.below(3) {
                0 => format!("/once/{mark}"),
                1 => format!("/stored/{mark}"),
                _ => "/varies".to_string(),
            };
            let response = match client.ask(method, &target, &[&field]) {
                Ok(response) => response,
                Err(Broken::Cut(..)) => return,
                Err(broken) => panic!("{method} {target} with {mark}: {broken:?}"),
            };
            let fields = response.head.fields.iter().chain(&response.trailers);
            let mut text: Vec<u8> = fields.flat_map(|(_, value)| value.bytes()).collect();
            text.extend(&response.body);
            let is_own = |other: &String| *other == mark;
            assert!(marks.found_in(&text).all(|other| is_own(&other)), "{mark} got {response:?}");
            answered.fetch_add(marks.found_in(&text).count().min(1) as u64, Relaxed);
            if response.says_close() {
                return;
            }
        }
    });
    assert!(origin.answer_count() >= count, "the origin answered {}", origin.answer_count());
    origin.answer_plainly();
    assert_sound(&mut server, &origin);
    let answered = answered.into_inner();
    assert!(answered > count / 3, "the origin's answer reached {answered} of {count} clients");
}
