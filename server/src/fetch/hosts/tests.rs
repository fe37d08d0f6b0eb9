//! What is known of a name, what follows from it, and who may resolve it.

use std::net::SocketAddr;
use std::sync::Arc;

use super::host::{Host, Step, Terms};
use super::resolve::Resolver;
use super::table::{Done, Hosts, Resolution};
use crate::config::Config;
use crate::limits::{ADDRESS_FAILED_MS, HOST_ADDRESSES_MAX, HOST_RETRY_MS, HOSTS_MAX};

const TERMS: Terms = Terms { since_ms: u64::MAX, fresh_ms: 100, stale_ms: 1000 };

/// When something was found, or was not.
const T: u64 = 50_000;

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 80))
}

fn addresses(numbers: &[u8]) -> Vec<SocketAddr> {
    numbers.iter().copied().map(address).collect()
}

fn hosts() -> Arc<Hosts> {
    Arc::new(Hosts::new(Resolver::new(|_, _| unreachable!("these tests resolve by hand"))))
}

/// A step in few words.
fn show(step: &Step) -> String {
    match step {
        Step::Use { addresses, is_stale } => {
            let numbers: Vec<_> = addresses.iter().map(|one| last_number(*one)).collect();
            format!("{} {numbers:?}", if *is_stale { "stale" } else { "fresh" })
        }
        Step::Resolve { has_stale: true } => "resolve, or stale".into(),
        Step::Resolve { has_stale: false } => "resolve".into(),
        Step::Wait(_) => "wait".into(),
        Step::Refuse => "refuse".into(),
    }
}

fn last_number(address: SocketAddr) -> u8 {
    match address {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(address) => address.ip().octets()[15],
    }
}

fn step(hosts: &Hosts, now_ms: u64) -> String {
    show(&hosts.step("a", TERMS, now_ms))
}

fn begin(hosts: &Arc<Hosts>, now_ms: u64) -> (Resolution, Done) {
    hosts.begin("a", TERMS, now_ms).expect("nobody else resolves it")
}

fn resolve(hosts: &Arc<Hosts>, found: &[u8], now_ms: u64) {
    begin(hosts, now_ms).0.end(&addresses(found), now_ms);
}

#[test]
fn addresses_are_fresh_then_a_substitute_then_nothing() {
    // What is found at T and then found no more from T + 500 on; after how long; with somebody
    // who resolves the name at that time; what to do.
    let (found, none, failed) = (Some(&[1, 2][..]), Some(&[][..]), None);
    let last = TERMS.fresh_ms + TERMS.stale_ms;
    let cases = [
        ("never resolved", failed, 0, false, "resolve"),
        ("never resolved, under way", failed, 0, true, "wait"),
        ("fresh", found, 0, false, "fresh [1, 2]"),
        ("fresh to the last", found, TERMS.fresh_ms - 1, false, "fresh [1, 2]"),
        ("stale", found, TERMS.fresh_ms, false, "resolve, or stale"),
        ("stale, under way", found, TERMS.fresh_ms, true, "stale [1, 2]"),
        ("stale to the last", found, last - 1, false, "resolve, or stale"),
        ("stale to the last, under way", found, last - 1, true, "stale [1, 2]"),
        ("too old", found, last, false, "resolve"),
        ("too old, under way", found, last, true, "wait"),
        ("in vain", none, 0, false, "refuse"),
        ("in vain, still remembered", none, HOST_RETRY_MS - 1, false, "refuse"),
        ("in vain, long ago", none, HOST_RETRY_MS, false, "resolve"),
        ("in vain, long ago, under way", none, HOST_RETRY_MS, true, "wait"),
    ];
    for (what, found, later_ms, is_under_way, wanted) in cases {
        let hosts = hosts();
        if let Some(found) = found {
            resolve(&hosts, found, T);
        }
        let under_way = is_under_way.then(|| begin(&hosts, T + later_ms));
        assert_eq!(step(&hosts, T + later_ms), wanted, "{what}");
        drop(under_way);
    }
}

#[test]
fn a_name_that_is_resolved_in_vain_keeps_its_last_addresses() {
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    let stale = T + TERMS.fresh_ms;
    resolve(&hosts, &[], stale);
    // When, and what to do then: one try a second, the rest goes by the stale address.
    let cases = [
        (stale, "stale [1]"),
        (stale + HOST_RETRY_MS - 1, "stale [1]"),
        (stale + HOST_RETRY_MS, "resolve"),
    ];
    for (now_ms, wanted) in cases {
        assert_eq!(step(&hosts, now_ms), wanted, "at {now_ms}");
    }
    let wide = Terms { stale_ms: 10_000, ..TERMS };
    let later = hosts.step("a", wide, stale + HOST_RETRY_MS);
    assert_eq!(show(&later), "resolve, or stale", "the settings of now decide");
    resolve(&hosts, &[2], stale + HOST_RETRY_MS);
    assert_eq!(step(&hosts, stale + HOST_RETRY_MS), "fresh [2]");
    let none = Terms { stale_ms: 0, ..TERMS };
    resolve(&hosts, &[], stale + HOST_RETRY_MS + TERMS.fresh_ms);
    let now_ms = stale + HOST_RETRY_MS + TERMS.fresh_ms;
    assert_eq!(show(&hosts.step("a", none, now_ms)), "refuse", "without a time beyond");
}

#[test]
fn what_is_found_for_a_request_is_new_enough_for_it() {
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    // When the connection was asked for; what to do when the address has become stale.
    let cases = [
        (T - 10, "fresh [1]"),
        (T, "fresh [1]"),
        (T + 1, "resolve, or stale"),
        (T + TERMS.fresh_ms, "resolve, or stale"),
    ];
    for (since_ms, wanted) in cases {
        let terms = Terms { since_ms, ..TERMS };
        let found = show(&hosts.step("a", terms, T + TERMS.fresh_ms));
        assert_eq!(found, wanted, "asked for at {since_ms}");
    }
}

#[test]
fn an_address_that_took_no_connection_comes_last_for_a_while() {
    // Those that fail, one after the other, each 10 ms later; when to look; the order then.
    let cases: &[(&[u8], u64, &[u8])] = &[
        (&[], 0, &[1, 2, 3]),
        (&[1], 0, &[2, 3, 1]),
        (&[1, 2], 10, &[3, 1, 2]),
        (&[3], 0, &[1, 2, 3]),
        (&[1, 2, 3], 20, &[1, 2, 3]),
        (&[9], 0, &[1, 2, 3]),
        (&[1], ADDRESS_FAILED_MS - 1, &[2, 3, 1]),
        (&[1], ADDRESS_FAILED_MS, &[1, 2, 3]),
        // A second failure while it is last already does not count anew.
        (&[1, 1], ADDRESS_FAILED_MS, &[1, 2, 3]),
    ];
    let terms = Terms { fresh_ms: 2 * ADDRESS_FAILED_MS, ..TERMS };
    for (failing, later_ms, wanted) in cases {
        let hosts = hosts();
        resolve(&hosts, &[1, 2, 3], T);
        for (now_ms, number) in (T..).step_by(10).zip(*failing) {
            hosts.put_last("a", address(*number), now_ms);
        }
        let found = show(&hosts.step("a", terms, T + later_ms));
        assert_eq!(found, format!("fresh {wanted:?}"), "{failing:?} at {later_ms}");
    }
}

#[test]
fn a_failure_of_an_address_is_news_once() {
    let hosts = hosts();
    assert!(!hosts.put_last("a", address(1), T), "of an unknown name");
    resolve(&hosts, &[1], T);
    assert!(!hosts.put_last("a", address(1), T), "of the only address");
    let later = T + TERMS.fresh_ms;
    resolve(&hosts, &[1, 2], later);
    assert!(!hosts.put_last("a", address(3), later), "of an address that it has not");
    assert!(hosts.put_last("a", address(1), later));
    assert!(!hosts.put_last("a", address(1), later), "again");
    resolve(&hosts, &[2, 1, 1, 2], later + TERMS.fresh_ms);
    assert_eq!(step(&hosts, later + TERMS.fresh_ms), "fresh [2, 1]", "each once");
    assert!(!hosts.put_last("a", address(1), later + TERMS.fresh_ms), "known since before");
    assert!(hosts.put_last("a", address(1), later + ADDRESS_FAILED_MS), "long after");
}

#[test]
fn addresses_beyond_the_limit_are_left_out() {
    let mut host = Host::default();
    let many: Vec<_> = (0..=u8::MAX).map(address).collect();
    host.end(&many, T);
    let Step::Use { addresses, .. } = host.step(TERMS, T) else {
        panic!("it was resolved");
    };
    assert_eq!(addresses, many[..HOST_ADDRESSES_MAX]);
}

#[test]
fn one_resolves_a_name_and_its_end_wakes_the_others() {
    let hosts = hosts();
    let (resolution, done) = begin(&hosts, T);
    assert!(hosts.begin("a", TERMS, T).is_none(), "one at a time");
    assert!(hosts.begin("b", TERMS, T).is_some(), "another name");
    let Step::Wait(other) = hosts.step("a", TERMS, T) else {
        panic!("there is no address yet");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
    let waiters = [done, other].map(|done| {
        let hosts = Arc::clone(&hosts);
        runtime.spawn(async move {
            done.wait().await;
            step(&hosts, T)
        })
    });
    std::thread::spawn(move || resolution.end(&addresses(&[1]), T));
    for waiter in waiters {
        assert_eq!(runtime.block_on(waiter).expect("it is woken"), "fresh [1]");
    }
}

#[test]
fn a_resolution_that_is_given_up_frees_the_name() {
    let hosts = hosts();
    let now_ms = crate::clock::monotonic_ms();
    let (resolution, _) = begin(&hosts, now_ms);
    drop(resolution);
    assert_eq!(step(&hosts, now_ms), "refuse");
    assert_eq!(step(&hosts, crate::clock::monotonic_ms() + HOST_RETRY_MS), "resolve");
}

#[test]
fn names_that_are_no_origins_any_more_leave() {
    let config = "[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://a\"\n";
    let config = Config::from_toml(config, "test").expect("it is right");
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    let (gone, _) = hosts.begin("b:81", TERMS, T).expect("it is new");
    hosts.retain(&config.sites);
    assert_eq!((hosts.count(), step(&hosts, T).as_str()), (1, "fresh [1]"));
    // The same name is back before the end of the resolution that was under way.
    let (_back, _) = hosts.begin("b:81", TERMS, T).expect("it is new again");
    gone.end(&addresses(&[7]), T);
    assert_eq!(show(&hosts.step("b:81", TERMS, T)), "wait", "the old end is not the new one's");
}

#[test]
fn the_table_does_not_grow_without_a_limit() {
    let hosts = hosts();
    for number in 0..=HOSTS_MAX {
        let name = format!("name-{number}");
        let (resolution, _) = hosts.begin(&name, TERMS, T).expect("it is new");
        resolution.end(&addresses(&[1]), T);
        assert!(hosts.count() <= HOSTS_MAX, "{number}");
    }
    assert_eq!(hosts.count(), 1, "a full table begins anew");
}
