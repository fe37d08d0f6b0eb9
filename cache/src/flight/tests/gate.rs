//! Gates, which decide whether a caller may join a flight.

use std::cell::RefCell;

use super::*;

/// A gate that gives the answers of a case, and records the questions that it is asked.
struct Scripted {
    current: bool,
    purges: u64,
    asked: RefCell<String>,
}

impl Scripted {
    fn new(current: bool, purges: u64) -> Self {
        Self { current, purges, asked: RefCell::default() }
    }

    fn write_down(&self, what: &str) {
        self.asked.borrow_mut().push_str(what);
    }
}

impl Gate for Scripted {
    fn note(&self) -> u64 {
        self.write_down("note ");
        self.purges
    }

    fn is_current(&self) -> bool {
        self.write_down("current ");
        self.current
    }

    fn may_follow(&self, purge_noted: u64) -> bool {
        self.write_down("follow ");
        purge_noted >= self.purges
    }
}

#[test]
fn a_gate_decides_whether_a_caller_looks_again_follows_or_leads() {
    // (there is a flight, its key is declined, the caller's record is current, the number of
    // purges after purge 3, which the flight's leader noted, the result, the gate's questions)
    let cases = [
        (false, false, true, 0, "Lead", "note current "),
        (false, false, false, 0, "Changed", "note current "),
        (true, false, true, 0, "Follow", "note current follow "),
        (true, false, false, 0, "Changed", "note current "),
        (true, false, true, 1, "Lead", "note current follow "),
        (true, false, false, 1, "Changed", "note current "),
        (false, true, true, 0, "Declined", "note current "),
        (false, true, false, 0, "Changed", "note current "),
    ];
    for (has_flight, is_declined, current, purges, expected, asked) in cases {
        let flights = new_flights(config());
        if is_declined {
            take_lead(&flights, b"a", None).0.decline(0, DeclineReason::TooLarge);
        }
        let first =
            has_flight.then(|| flights.join(key(b"a", None), terms_at(0), &Scripted::new(true, 3)));
        let gate = Scripted::new(current, 3 + purges);
        let joined = flights.join(key(b"a", None), terms_at(0), &gate);
        let case = format!("{has_flight} {is_declined} {current} {purges}");
        assert!(format!("{joined:?}").starts_with(expected), "{case}: {joined:?}");
        assert_eq!(*gate.asked.borrow(), asked, "{case}");
        if let JoinResult::Lead(lead, _) = &joined {
            assert_eq!(lead.purge_noted(), 3 + purges, "{case}");
        }
        check(&flights);
        drop((first, joined));
        check_at_rest(&flights);
    }
}

#[test]
fn a_leader_after_a_purge_elsewhere_detaches_the_flight_before_it() {
    let flights = new_flights(config());
    let join = |purges| flights.join(key(b"a", None), terms_at(0), &Scripted::new(true, purges));
    let JoinResult::Lead(first, follower) = join(1) else {
        panic!("the caller did not become leader")
    };
    let mut first = begin(first, b"", None);
    let JoinResult::Lead(second, _) = join(2) else { panic!("the first is followed") };
    assert!(!first.is_storing() && matches!(join(2), JoinResult::Follow(_)));
    // If no purge matches the key, the gate lets the caller follow any leader.
    assert!(matches!(join(0), JoinResult::Follow(_)));
    first.append(b"abc").unwrap();
    first.finish(None);
    assert_eq!(read_now(&mut reader(follower)).0, b"abc");
    assert!(
        matches!(join(2), JoinResult::Follow(_)),
        "the end of the first flight leaves the second"
    );
    assert!(begin(second, b"", None).is_storing());
    check_at_rest(&flights);
}

#[test]
fn a_purge_detaches_matching_flights_in_all_shards() {
    let flights = new_flights(FlightConfig { shard_count: 16, ..config() });
    let names: Vec<String> = (0..100).map(|i| format!("{}{i}", ["a/", "b/"][i % 2])).collect();
    let mut leads: Vec<LeaderGuard> = names
        .iter()
        .flat_map(|name| [None, Some(&b"v"[..])].map(|v| take_lead(&flights, name.as_bytes(), v).0))
        .collect();
    assert_eq!(flights.detach_where(|primary| primary.starts_with(b"a/")), 100);
    assert_eq!(flights.detach_where(|primary| primary.starts_with(b"a/")), 0);
    assert_eq!(flights.detach(hash(b"b/1"), b"b/1"), 2, "both variants are detached");
    assert_eq!(
        flights.detach(hash(b"b/1"), b"b/3"),
        0,
        "another key with the same hash is not detached"
    );
    check(&flights);
    assert_eq!(flights.stats().flight_count, 98);
    for lead in leads.drain(..) {
        let is_purged = lead.key().primary.starts_with(b"a/") || lead.key().primary == b"b/1";
        let name = String::from_utf8_lossy(lead.key().primary).into_owned();
        assert_eq!(begin(lead, b"", None).is_storing(), !is_purged, "{name}");
    }
    check_at_rest(&flights);
}
