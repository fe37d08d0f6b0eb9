//! The addresses of a name over time, and the order of resolutions.

use std::net::SocketAddr;
use std::sync::Arc;

use super::host::{Host, Step, Terms};
use super::resolve::Resolver;
use super::table::{Hosts, Resolution, ResolutionStart};
use crate::config::Config;
use crate::dns::FoundAddresses;
use crate::limits::{
    ADDRESS_FAILED_MS, HOST_ADDRESSES_MAX, HOST_DOUBTED_MS, HOST_RETRY_MS, HOST_WAIT_MS, HOSTS_MAX,
};

const TERMS: Terms =
    Terms { since_ms: u64::MAX, fresh_ms: 100, stale_ms: 1000, wait_ms: HOST_WAIT_MS };

/// Terms under which addresses stay fresh for the whole test.
const LONG: Terms = Terms { fresh_ms: 100 * ADDRESS_FAILED_MS, ..TERMS };

/// The time at which the first resolution of a test ended, in milliseconds.
const T: u64 = 50_000;

/// Returns an IPv4 address for numbers up to 100, and an IPv6 address for larger numbers.
fn address(number: u8) -> SocketAddr {
    match number {
        0..=100 => SocketAddr::from(([192, 0, 2, number], 80)),
        _ => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)], 80)),
    }
}

fn addresses(numbers: &[u8]) -> Vec<SocketAddr> {
    numbers.iter().copied().map(address).collect()
}

fn found(numbers: &[u8]) -> FoundAddresses {
    FoundAddresses { addresses: addresses(numbers), valid_s: None }
}

fn hosts() -> Arc<Hosts> {
    Arc::new(Hosts::new(Resolver::new(|_, _| unreachable!("these tests resolve by hand"))))
}

/// Returns a step as a short text.
fn show(step: &Step) -> String {
    match step {
        Step::Use { addresses, is_stale, due } => {
            let numbers: Vec<_> = addresses.iter().map(|one| last_number(*one)).collect();
            let due = due.map_or(String::new(), |due| format!(", {} is due", last_number(due)));
            format!("{} {numbers:?}{due}", if *is_stale { "stale" } else { "fresh" })
        }
        Step::Resolve => "resolve".into(),
        Step::Wait { until_ms: None, .. } => "wait".into(),
        Step::Wait { until_ms: Some(until_ms), .. } => format!("wait until T + {}", until_ms - T),
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

fn begin(hosts: &Arc<Hosts>, now_ms: u64) -> Resolution {
    begin_name(hosts, "a", TERMS, now_ms)
}

fn begin_name(hosts: &Arc<Hosts>, name: &str, terms: Terms, now_ms: u64) -> Resolution {
    match hosts.begin(name, terms, now_ms) {
        ResolutionStart::Own(resolution) => resolution,
        other => panic!("{name} at {now_ms}: {other:?}"),
    }
}

fn resolve_name(hosts: &Arc<Hosts>, name: &str, now_ms: u64) {
    begin_name(hosts, name, TERMS, now_ms).end(&found(&[1]), now_ms);
}

fn resolve(hosts: &Arc<Hosts>, found: &[u8], now_ms: u64) {
    begin(hosts, now_ms).end(&self::found(found), now_ms);
}

#[test]
fn addresses_are_fresh_then_stale_then_unusable() {
    // Columns: the case; the result of a resolution at T (addresses, a failure, or no resolution);
    // the time from T until a connection begins; whether the name is being resolved then; the step.
    let (found, none, failed) = (Some(&[1, 2][..]), Some(&[][..]), None);
    let last = TERMS.fresh_ms + TERMS.stale_ms;
    let cases = [
        ("never resolved", failed, 0, false, "resolve"),
        ("never resolved, being resolved", failed, 0, true, "wait"),
        ("fresh", found, 0, false, "fresh [1, 2]"),
        ("fresh to the last", found, TERMS.fresh_ms - 1, false, "fresh [1, 2]"),
        ("stale", found, TERMS.fresh_ms, false, "resolve"),
        ("stale, being resolved", found, TERMS.fresh_ms, true, "wait until T + 1600"),
        ("stale to the last", found, last - 1, false, "resolve"),
        ("stale to the last, being resolved", found, last - 1, true, "wait until T + 2599"),
        ("too old", found, last, false, "resolve"),
        ("too old, being resolved", found, last, true, "wait"),
        ("failed", none, 0, false, "refuse"),
        ("failed a moment ago", none, HOST_RETRY_MS - 1, false, "refuse"),
        ("failed long ago", none, HOST_RETRY_MS, false, "resolve"),
        ("failed long ago, being resolved", none, HOST_RETRY_MS, true, "wait"),
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
fn a_name_that_cannot_be_resolved_keeps_its_last_addresses() {
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    let stale = T + TERMS.fresh_ms;
    resolve(&hosts, &[], stale);
    // Time and step: one connection per second resolves the name, the others use the stale address.
    let cases = [
        (stale, "stale [1]"),
        (stale + HOST_RETRY_MS - 1, "stale [1]"),
        (stale + HOST_RETRY_MS, "resolve"),
    ];
    for (now_ms, wanted) in cases {
        assert_eq!(step(&hosts, now_ms), wanted, "at {now_ms}");
    }
    let wide = Terms { stale_ms: 10_000, ..TERMS };
    let under_way = begin(&hosts, stale + HOST_RETRY_MS);
    let later = hosts.step("a", wide, stale + HOST_RETRY_MS);
    assert_eq!(show(&later), "stale [1]", "the current settings decide");
    under_way.end(&found(&[2]), stale + HOST_RETRY_MS);
    assert_eq!(step(&hosts, stale + HOST_RETRY_MS), "fresh [2]");
    let none = Terms { stale_ms: 0, ..TERMS };
    resolve(&hosts, &[], stale + HOST_RETRY_MS + TERMS.fresh_ms);
    let now_ms = stale + HOST_RETRY_MS + TERMS.fresh_ms;
    assert_eq!(show(&hosts.step("a", none, now_ms)), "refuse", "stale addresses are not allowed");
}

#[test]
fn connections_wait_for_a_resolver_unless_it_failed_or_took_long() {
    // Columns: the time from the failure of another resolution until T + 1000, when this resolution
    // begins; when the connection was requested; how long it can wait; when it takes its step; the
    // step.
    let began = T + 1000;
    let over = began + HOST_WAIT_MS;
    let cases = [
        (None, began, 9999, began, "wait until T + 2500"),
        (None, began + 700, 9999, began + 700, "wait until T + 2500"),
        (None, began + 700, 300, began + 700, "wait until T + 2000"),
        (None, began + 700, 300, began + 999, "wait until T + 2000"),
        (None, began + 700, 300, began + 1000, "stale [1]"),
        (None, began, 9999, over - 1, "wait until T + 2500"),
        (None, began, 9999, over, "stale [1]"),
        (None, over, 9999, over, "stale [1]"),
        (Some(HOST_RETRY_MS), began, 9999, began, "stale [1]"),
        (Some(HOST_DOUBTED_MS - 1), began, 9999, began, "stale [1]"),
        (Some(HOST_DOUBTED_MS), began, 9999, began, "wait until T + 2500"),
    ];
    for (failed_before_ms, since_ms, wait_ms, now_ms, wanted) in cases {
        let hosts = hosts();
        let terms = Terms { since_ms, wait_ms, fresh_ms: 100, stale_ms: 100_000 };
        resolve(&hosts, &[1], T - 40_000);
        if let Some(before_ms) = failed_before_ms {
            resolve(&hosts, &[], began - before_ms);
        }
        let _under_way = begin(&hosts, began);
        let case = format!("{failed_before_ms:?}, since {since_ms}, {wait_ms} ms, at {now_ms}");
        assert_eq!(show(&hosts.step("a", terms, now_ms)), wanted, "{case}");
    }
}

#[test]
fn a_name_whose_addresses_all_failed_is_resolved_again() {
    // Columns: the addresses that failed; the time from the resolution that found 1 and 2 until the
    // next connection; the step.
    let cases: &[(&[u8], u64, &str)] = &[
        (&[], HOST_RETRY_MS, "fresh [1, 2]"),
        (&[1], HOST_RETRY_MS, "fresh [1, 2]"),
        (&[1, 3], HOST_RETRY_MS, "fresh [1, 2]"),
        (&[1, 2], 0, "resolve"),
        (&[1, 2], HOST_RETRY_MS, "resolve"),
        (&[2, 3, 1], 1, "resolve"),
    ];
    let terms = Terms { fresh_ms: 10_000, ..TERMS };
    for (tried, later_ms, wanted) in cases {
        let hosts = hosts();
        hosts.give_up("a", &addresses(tried));
        resolve(&hosts, &[1, 2], T);
        hosts.give_up("a", &addresses(tried));
        let now_ms = T + later_ms;
        let found = show(&hosts.step("a", terms, now_ms));
        assert_eq!(found, *wanted, "{tried:?}, {later_ms} ms later");
        if *wanted == "resolve" {
            let resolution = begin_name(&hosts, "a", terms, now_ms);
            let waits = format!("wait until T + {}", later_ms + HOST_WAIT_MS);
            assert_eq!(show(&hosts.step("a", terms, now_ms)), waits, "{tried:?}");
            resolution.end(&FoundAddresses::default(), now_ms);
            assert_eq!(show(&hosts.step("a", terms, now_ms)), "stale [1, 2]", "{tried:?}");
            resolve(&hosts, &[1, 2], now_ms + HOST_RETRY_MS);
            let later = hosts.step("a", terms, now_ms + 2 * HOST_RETRY_MS);
            assert_eq!(show(&later), "fresh [2, 1]", "{tried:?}");
            hosts.give_up("a", &addresses(tried));
            let later = |ms| show(&hosts.step("a", terms, now_ms + HOST_RETRY_MS + ms));
            assert_eq!(later(HOST_RETRY_MS - 1), "fresh [1, 2]", "{tried:?}, found again");
            assert_eq!(later(HOST_RETRY_MS), "resolve", "{tried:?}");
        }
    }
}

#[test]
fn addresses_that_are_found_for_a_request_are_new_enough_for_it() {
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    // Columns: when the connection was requested; the step once the address has become stale.
    let cases = [
        (T - 10, "fresh [1]"),
        (T, "fresh [1]"),
        (T + 1, "resolve"),
        (T + TERMS.fresh_ms, "resolve"),
    ];
    for (since_ms, wanted) in cases {
        let terms = Terms { since_ms, ..TERMS };
        let found = show(&hosts.step("a", terms, T + TERMS.fresh_ms));
        assert_eq!(found, wanted, "asked for at {since_ms}");
    }
}

#[test]
fn an_address_that_failed_is_tried_last() {
    // Columns: the addresses that fail, each 10 ms after the previous one; the time at which the
    // order is checked; the order at that time.
    let cases: &[(&[u8], u64, &str)] = &[
        (&[], 0, "[1, 2, 3]"),
        (&[1], 0, "[2, 3, 1]"),
        (&[1, 2], 10, "[3, 1, 2]"),
        (&[3], 0, "[1, 2, 3]"),
        (&[1, 2, 3], 20, "[1, 2, 3]"),
        (&[9], 0, "[1, 2, 3]"),
        (&[1], ADDRESS_FAILED_MS - 1, "[2, 3, 1]"),
        (&[1], ADDRESS_FAILED_MS, "[2, 3, 1], 1 is due"),
        (&[2, 1], ADDRESS_FAILED_MS, "[3, 1, 2], 2 is due"),
        (&[3], 10 * ADDRESS_FAILED_MS, "[1, 2, 3], 3 is due"),
        // A second failure is not reported while the address already comes last.
        (&[1, 1], ADDRESS_FAILED_MS, "[2, 3, 1], 1 is due"),
    ];
    for (failing, later_ms, wanted) in cases {
        let hosts = hosts();
        resolve(&hosts, &[1, 2, 3], T);
        for (now_ms, number) in (T..).step_by(10).zip(*failing) {
            hosts.put_last("a", address(*number), now_ms);
        }
        let found = show(&hosts.step("a", LONG, T + later_ms));
        assert_eq!(found, format!("fresh {wanted}"), "{failing:?} at {later_ms}");
    }
}

#[test]
fn connections_take_turns_on_the_addresses_of_one_family() {
    // Columns: the addresses that the resolver finds (IPv6 from 101); those that fail; the order
    // for four connections.
    let cases: &[(&[u8], &[u8], [&str; 4])] = &[
        (&[1], &[], ["[1]", "[1]", "[1]", "[1]"]),
        (&[1, 2], &[], ["[1, 2]", "[2, 1]", "[1, 2]", "[2, 1]"]),
        (&[1, 2, 3], &[], ["[1, 2, 3]", "[2, 3, 1]", "[3, 1, 2]", "[1, 2, 3]"]),
        (&[1, 2, 3], &[2], ["[1, 3, 2]", "[3, 1, 2]", "[1, 3, 2]", "[3, 1, 2]"]),
        (&[1, 2], &[1], ["[2, 1]", "[2, 1]", "[2, 1]", "[2, 1]"]),
        (&[101, 1], &[], ["[101, 1]", "[101, 1]", "[101, 1]", "[101, 1]"]),
        (&[101, 102, 1], &[], ["[101, 102, 1]", "[102, 101, 1]", "[101, 102, 1]", "[102, 101, 1]"]),
        (&[1, 2, 101], &[101], ["[1, 2, 101]", "[2, 1, 101]", "[1, 2, 101]", "[2, 1, 101]"]),
    ];
    for (found, failing, wanted) in cases {
        let hosts = hosts();
        resolve(&hosts, found, T);
        for number in *failing {
            hosts.put_last("a", address(*number), T);
        }
        let seen = [(); 4].map(|()| step(&hosts, T));
        assert_eq!(seen, wanted.map(|one| format!("fresh {one}")), "{found:?} but {failing:?}");
    }
}

#[test]
fn one_connection_at_a_time_tries_an_address_that_failed() {
    let hosts = hosts();
    resolve(&hosts, &[1, 2], T);
    hosts.put_last("a", address(1), T);
    let mut due_ms = T + ADDRESS_FAILED_MS;
    let look = |now_ms| show(&hosts.step("a", LONG, now_ms));
    for turn in 1..=3 {
        assert!(!hosts.take_due("a", address(1), due_ms - 1), "turn {turn}, too early");
        assert!(!hosts.take_due("a", address(2), due_ms), "turn {turn}, it works");
        assert_eq!(look(due_ms), "fresh [2, 1], 1 is due", "turn {turn}");
        assert!(hosts.take_due("a", address(1), due_ms), "turn {turn}");
        assert!(!hosts.take_due("a", address(1), due_ms), "turn {turn}, another has it");
        assert_eq!(look(due_ms), "fresh [2, 1]", "turn {turn}");
        due_ms += ADDRESS_FAILED_MS;
    }
    hosts.put_back("a", address(1));
    assert_eq!(look(due_ms), "fresh [1, 2]", "it works again");
    hosts.give_up("a", &addresses(&[1, 2]));
    assert_eq!(look(due_ms), "resolve");
    hosts.put_back("a", address(9));
    assert_eq!(look(due_ms), "resolve", "the address that works is not one of its own");
    hosts.put_back("a", address(2));
    assert_eq!(look(due_ms), "fresh [2, 1]", "one works after all");
}

#[test]
fn a_failure_of_an_address_is_reported_once_until_it_works_again() {
    let hosts = hosts();
    let fails = |number, now_ms| hosts.put_last("a", address(number), now_ms);
    assert!(!fails(1, T), "of an unknown name");
    resolve(&hosts, &[1], T);
    assert!(!fails(1, T), "of the only address");
    let later = T + TERMS.fresh_ms;
    resolve(&hosts, &[1, 2], later);
    assert!(!fails(3, later), "of an address that the name does not have");
    assert!(fails(1, later));
    assert!(!fails(1, later), "again");
    resolve(&hosts, &[2, 1, 1, 2], later + TERMS.fresh_ms);
    assert_eq!(step(&hosts, later + TERMS.fresh_ms), "fresh [2, 1]", "each once");
    assert!(!fails(1, later + TERMS.fresh_ms), "known since before");
    let due = later + ADDRESS_FAILED_MS;
    assert!(hosts.take_due("a", address(1), due));
    assert!(!fails(1, due), "tried first, and failed");
    assert!(!fails(1, due + 2 * ADDRESS_FAILED_MS), "long after");
    hosts.put_back("a", address(1));
    assert!(fails(1, due + 2 * ADDRESS_FAILED_MS), "it had worked");
}

#[test]
fn addresses_are_fresh_for_as_long_as_the_answer_says_within_limits() {
    // Columns: the validity in the answer; how long the addresses are fresh, in milliseconds.
    let cases = [(None, 100_000), (Some(0), 1000), (Some(2), 2000), (Some(u32::MAX), 100_000)];
    for (valid_s, fresh_ms) in cases {
        let mut host = Host::default();
        host.end(&FoundAddresses { valid_s, ..found(&[1]) }, T);
        let at = |ms| show(&host.step(Terms { fresh_ms: 100_000, ..TERMS }, T + ms));
        let steps = (at(fresh_ms - 1), at(fresh_ms));
        assert_eq!(steps, ("fresh [1]".to_owned(), "resolve".to_owned()), "{valid_s:?}");
    }
}

#[test]
fn addresses_beyond_the_limit_are_left_out() {
    let mut host = Host::default();
    let many: Vec<_> = (0..=u8::MAX).map(address).collect();
    host.end(&FoundAddresses { addresses: many.clone(), valid_s: None }, T);
    let Step::Use { addresses, .. } = host.step(TERMS, T) else {
        panic!("it was resolved");
    };
    assert_eq!(addresses, many[..HOST_ADDRESSES_MAX]);
}

#[test]
fn one_connection_resolves_a_name_and_its_end_wakes_the_others() {
    let hosts = hosts();
    let resolution = begin(&hosts, T);
    assert!(matches!(hosts.begin("a", TERMS, T), ResolutionStart::Another), "one at a time");
    assert!(matches!(hosts.begin("b", TERMS, T), ResolutionStart::Own(_)), "another name");
    let done = || match hosts.step("a", TERMS, T) {
        Step::Wait { done, .. } => done,
        other => panic!("there is no address yet: {other:?}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
    let waiters = [done(), done()].map(|done| {
        let hosts = Arc::clone(&hosts);
        runtime.spawn(async move {
            done.wait().await;
            step(&hosts, T)
        })
    });
    std::thread::spawn(move || resolution.end(&found(&[1]), T));
    for waiter in waiters {
        assert_eq!(runtime.block_on(waiter).expect("it is woken"), "fresh [1]");
    }
}

#[test]
fn a_resolution_that_is_given_up_frees_the_name() {
    let hosts = hosts();
    let now_ms = crate::clock::monotonic_ms();
    let resolution = begin(&hosts, now_ms);
    drop(resolution);
    assert_eq!(step(&hosts, now_ms), "refuse");
    assert_eq!(step(&hosts, crate::clock::monotonic_ms() + HOST_RETRY_MS), "resolve");
}

#[test]
fn names_that_are_no_longer_origins_leave() {
    let config = "[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://a\"\n";
    let config = Config::from_toml(config, "test").expect("it is right");
    let hosts = hosts();
    resolve(&hosts, &[1], T);
    resolve_name(&hosts, "b:81", T);
    let gone = begin_name(&hosts, "c", TERMS, T);
    hosts.retain(&config.sites);
    assert_eq!((hosts.count(), step(&hosts, T).as_str()), (2, "fresh [1]"));
    assert!(matches!(hosts.begin("c", TERMS, T), ResolutionStart::Another), "one at a time");
    gone.end(&found(&[7]), T);
    hosts.retain(&config.sites);
    assert_eq!(hosts.count(), 1, "with the next settings");
}

#[test]
fn a_full_table_drops_the_names_unused_for_longest_and_none_being_resolved() {
    let hosts = hosts();
    let name = |number: usize| format!("name-{number}");
    let running = begin_name(&hosts, "running", TERMS, 0);
    let times = || (1..HOSTS_MAX).zip(T..);
    for (number, now_ms) in times() {
        resolve_name(&hosts, &name(number), now_ms);
    }
    // The first of these names is still in use.
    let end_ms = T + HOSTS_MAX as u64;
    resolve_name(&hosts, &name(1), end_ms);
    assert_eq!(hosts.count(), HOSTS_MAX);
    resolve_name(&hosts, "new", end_ms);
    let wide = Terms { fresh_ms: u64::MAX / 4, stale_ms: 0, ..TERMS };
    let is_there = |name: &str| matches!(hosts.step(name, wide, end_ms), Step::Use { .. });
    assert!(is_there("new") && is_there(&name(1)), "in use");
    let kept = times().filter(|&(number, _)| is_there(&name(number))).count();
    assert!((HOSTS_MAX * 7 / 10..HOSTS_MAX * 8 / 10).contains(&kept), "{kept} are kept");
    assert!(!is_there(&name(2)) && is_there(&name(HOSTS_MAX - 1)), "the oldest leave");
    assert!(
        matches!(hosts.begin("running", TERMS, end_ms), ResolutionStart::Another),
        "it is being resolved"
    );
    running.end(&found(&[1]), end_ms);
    assert!(is_there("running"), "and its end counts");
}

#[test]
fn a_table_full_of_names_being_resolved_takes_no_other() {
    let hosts = hosts();
    let name = |number: usize| format!("name-{number}");
    let running: Vec<_> =
        (0..HOSTS_MAX).map(|number| begin_name(&hosts, &name(number), TERMS, T)).collect();
    assert!(matches!(hosts.begin("one more", TERMS, T), ResolutionStart::NoRoom));
    assert!(matches!(hosts.begin("name-7", TERMS, T), ResolutionStart::Another));
    assert_eq!(hosts.count(), HOSTS_MAX);
    for resolution in running {
        resolution.end(&found(&[1]), T);
    }
    resolve_name(&hosts, "one more", T);
}
