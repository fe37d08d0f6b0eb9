//! Tests of the basic operations: storing, finding, renewing, purging and evicting records.

use super::*;
use crate::JoinPolicy;

pub(super) fn body(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + seed * 13 + at / 251) as u8).collect()
}

#[test]
fn a_stored_record_is_found_at_every_length() {
    let (store, worker) = open(64 << 20);
    let lengths = [0, 1, 63, 64, 4096, 65_536, 65_537, 300_000, 2_000_000];
    for (seed, bytes) in lengths.into_iter().enumerate() {
        let key = format!("site\0http\0h\0/{bytes}");
        let body = body(seed, bytes);
        assert!(put(&worker, key.as_bytes(), b"head", &body), "{bytes}");
        let found = get(&worker, key.as_bytes()).expect("stored");
        assert_eq!(found.0, b"head", "{bytes}");
        assert!(found.1 == body, "{bytes}");
    }
    assert_eq!(get(&worker, b"site\0http\0h\0/other"), None);
    assert_sound(&store);
}

#[test]
fn variants_stand_side_by_side_and_go_together() {
    let (store, worker) = open(32 << 20);
    let base = |value: &[u8]| VariantKey { names: b"accept".to_vec(), variant: value.to_vec() };
    for value in [&b"html"[..], b"json", b"html"] {
        let leader = match worker.collapse(b"key", None, None, JoinTerms::at(0)) {
            CollapseResult::Leader(leader, _) => leader,
            CollapseResult::Stored => lead_variant(&worker, value),
            other => panic!("{other:?}"),
        };
        assert!(fill(leader, value, Some(base(value)), b"body"));
    }
    let variant = |value: &[u8]| match worker.lookup(b"key") {
        Lookup::Base(found) => {
            assert_eq!(found.name_sets().collect::<Vec<_>>(), [b"accept"]);
            found.variant(value).map(|found| found.head().to_vec())
        }
        Lookup::Miss => None,
        Lookup::Record(_) => panic!("the key has no base"),
    };
    assert_eq!(variant(b"html").as_deref(), Some(&b"html"[..]));
    assert_eq!(variant(b"json").as_deref(), Some(&b"json"[..]));
    assert_eq!(variant(b"xml"), None);
    assert_eq!(worker.purge(b"key").unwrap().records, 2);
    assert_eq!(variant(b"html"), None);
    assert_sound(&store);
}

pub(super) fn lead_variant(worker: &StoreWorker, value: &[u8]) -> Leader {
    let known = match worker.lookup(b"key") {
        Lookup::Base(found) => found.variant(value).map(|found| found.version()),
        _ => None,
    };
    match worker.collapse(b"key", Some(&selector_list(value)), known, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_validated_record_gets_its_new_head_and_keeps_its_body() {
    for bytes in [100, 500_000] {
        let (store, worker) = open(64 << 20);
        let body = body(3, bytes);
        assert!(put(&worker, b"key", b"old", &body));
        let known = match worker.lookup(b"key") {
            Lookup::Record(found) => found.version(),
            other => panic!("{other:?}"),
        };
        let CollapseResult::Leader(leader, mut follower) =
            worker.collapse(b"key", None, Some(known), JoinTerms::at(0))
        else {
            panic!("the caller did not become leader");
        };
        leader.validated(b"new and longer", fresh(), None);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(crate::FollowOutcome::Validated(renewed)) = follower.poll_outcome(&mut cx)
        else {
            panic!("the outcome is not a validated head");
        };
        assert_eq!(&renewed.head[..], b"new and longer");
        assert!(renewed.sequence.is_some());
        let (head, found) = get(&worker, b"key").expect("stored");
        assert_eq!(head, b"new and longer");
        assert!(found == body, "{bytes}");
        assert_sound(&store);
    }
}

#[test]
fn a_purge_removes_stored_records_and_detaches_fetches() {
    let (store, worker) = open(32 << 20);
    assert!(put(&worker, b"key", b"head", b"body"));
    let purged = worker.purge(b"key").unwrap();
    assert_eq!((purged.records, purged.flights), (1, 0));
    assert_eq!(get(&worker, b"key"), None);
    let leader = lead(&worker, b"key", None);
    let purged = worker.purge(b"key").unwrap();
    assert_eq!((purged.records, purged.flights), (0, 1));
    // The fetch has no follower and its response will not be stored, so appending may fail.
    let filling = leader.begin(b"stale", None, None, fresh()).unwrap();
    assert!(!filling.finish());
    assert_eq!(get(&worker, b"key"), None);
    assert_sound(&store);
}

#[test]
fn far_more_than_fits_passes_through_and_the_used_stays() {
    let (store, worker) = open(16 << 20);
    let before = store.stats();
    for round in 0..20_000_usize {
        let key = format!("k{round}");
        assert!(put(&worker, key.as_bytes(), b"head", &body(round, 4000)), "{round}");
        worker.turn(NOW, |_| ());
        if round > 0 {
            get(&worker, b"k0")
                .unwrap_or_else(|| panic!("the used record was evicted in round {round}"));
        }
    }
    let stats = store.stats();
    assert!(stats.segments_freed > 0, "{stats:?}");
    assert_eq!(stats.sum_bytes(), stats.budget_bytes, "{stats:?}");
    assert_eq!(before.metadata_bytes, stats.metadata_bytes);
    assert_sound(&store);
}

/// Three records fit into a segment, and more than a fifth of it is left unused. Compacting does
/// not regain these bytes.
#[test]
fn records_that_fill_segments_badly_are_evicted_and_not_moved() {
    let (store, worker) = open(2 << 20);
    for round in 0..500_usize {
        let key = format!("k{round}");
        assert!(put(&worker, key.as_bytes(), b"head", &body(round, 16_384)), "{round}");
        let turns = (0..1000).take_while(|_| worker.turn(NOW, |_| ())).count();
        assert!(turns < 1000, "round {round}: {:?}", store.stats());
    }
    assert_eq!(store.stats().promoted, 0, "no record was used, so none is moved");
}

/// Two fetches of one key run side by side if a request with Authorization leads, or if the body of
/// the first one stalls.
// RFC: 9111-4-8
#[test]
fn a_response_does_not_replace_one_that_was_received_after_it() {
    let base = || VariantKey { names: b"accept".to_vec(), variant: b"html".to_vec() };
    let begin = |worker: &StoreWorker, head: &[u8], varies: bool, after_s: u32| {
        let (known, has_base) = match worker.lookup(b"key") {
            Lookup::Record(found) => (Some(found.version()), false),
            Lookup::Base(found) => (Some(found.variant(b"html").expect("stored").version()), true),
            Lookup::Miss => (None, false),
        };
        let variant =
            (varies || has_base).then(|| [selector_list(b"html"), selector_list(b"none")].concat());
        let terms = JoinTerms { policy: JoinPolicy::Arrived, stalled_ms: 0, ..JoinTerms::at(0) };
        let times = RecordTimes { response_time: NOW as u32 + after_s, ..fresh() };
        match worker.collapse(b"key", variant.as_deref(), known, terms) {
            CollapseResult::Leader(leader, _) => {
                leader.begin(head, varies.then(base), None, times).unwrap()
            }
            other => panic!("{other:?}"),
        }
    };
    // Whether the first and the second response vary, and whether the base names the variant
    // before; the times at which they are received, and whether the first one, which ends last, is
    // stored.
    let vary =
        [(false, false, false), (true, true, false), (true, true, true), (true, false, false)];
    let times = [(10, 12, false), (10, 10, true), (12, 10, true)];
    let cases = vary.into_iter().flat_map(|vary| times.map(|times| (vary, times)));
    for ((first_varies, second_varies, is_known), (first_s, second_s, is_stored)) in cases {
        let case = format!("{first_varies} {second_varies} {first_s} {second_s} {is_known}");
        let (store, worker) = open(32 << 20);
        if is_known {
            assert!(begin(&worker, b"known", true, 0).finish(), "{case}");
        }
        let first = begin(&worker, b"first", first_varies, first_s);
        let second = begin(&worker, b"second", second_varies, second_s);
        assert!(second.finish(), "{case}");
        assert_eq!(first.finish(), is_stored, "{case}");
        let head = match worker.lookup(b"key") {
            Lookup::Record(found) => found.head().to_vec(),
            Lookup::Base(found) => found.variant(b"html").expect("stored").head().to_vec(),
            Lookup::Miss => panic!("nothing is stored: {case}"),
        };
        let expected: &[u8] = if is_stored { b"first" } else { b"second" };
        assert_eq!(head, expected, "{case}");
        // A later fetch replaces both, even if the clock was set back.
        let varies = if is_stored { first_varies } else { second_varies };
        assert!(begin(&worker, b"third", varies, 0).finish(), "{case}");
        assert_sound(&store);
    }
}
