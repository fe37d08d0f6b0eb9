//! Soft purges beside other operations. Each test makes the steps in an order in which two threads
//! could make them.

use super::super::put::Put;
use super::super::respond::Response;
use super::super::variants::VariantId;
use super::*;
use crate::purge::Predicate;
use crate::segment::{HeaderKind, SegmentQueue};

const KEY: &[u8] = b"key";
const HTML: &[u8] = b"html";
const JSON: &[u8] = b"json";

/// Opens a store, and joins it twice, as two threads would.
fn two() -> (Store, StoreWorker, StoreWorker) {
    let (store, worker) = open(32 << 20);
    let other = store.join().unwrap();
    (store, worker, other)
}

/// A response whose fetch began before any purge.
fn put_of<'a>(key: &'a [u8], body: &'a [&'a [u8]]) -> Put<'a> {
    let (times, primary) = (fresh(), KEY);
    Put {
        kind: HeaderKind::Whole,
        key,
        tags: &[],
        head: b"head",
        body,
        times,
        purge_noted: 0,
        primary,
    }
}

fn is_soft(worker: &StoreWorker) -> Option<bool> {
    match worker.lookup(KEY) {
        Lookup::Miss => None,
        Lookup::Record(found) => Some(found.is_soft()),
        Lookup::Base(_) => panic!("the key has a base"),
    }
}

#[test]
fn an_unchecked_record_does_not_survive_a_soft_purge() {
    for is_replacing in [false, true] {
        let (store, filler, purger) = two();
        if is_replacing {
            assert!(put(&filler, KEY, b"old", b"old"));
        }
        let inner = &filler.inner;
        let appended =
            inner.append(&put_of(KEY, &[b"body"]), 1 << 40, SegmentQueue::Small).unwrap();
        let key = inner.records.key(KEY);
        let unchecked =
            inner.records.index.insert(&inner.records.pins, &key, &appended.for_index()).unwrap();
        assert!(!inner.shared.purges.is_newer(0, KEY, |purge| purge.may_match(KEY)));
        assert_eq!(purger.purge_softly(KEY).unwrap().records, 1, "{is_replacing}");
        assert!(
            !inner.records.index.make_live(&inner.records.pins, &key, unchecked),
            "{is_replacing}"
        );
        assert_eq!(is_soft(&purger), None, "{is_replacing}");
        assert_sound(&store);
    }
}

fn base(value: &[u8]) -> VariantKey {
    VariantKey { names: b"accept".to_vec(), variant: value.to_vec() }
}

/// Whether a variant was purged softly; `None` if it is not stored.
fn is_variant_soft(worker: &StoreWorker, value: &[u8]) -> Option<bool> {
    match worker.lookup(KEY) {
        Lookup::Base(found) => found.variant(value).map(|found| found.is_soft()),
        _ => None,
    }
}

fn put_variant(worker: &StoreWorker, value: &[u8]) -> bool {
    let leader = match worker.collapse(KEY, None, None, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        CollapseResult::Stored => basics::lead_variant(worker, value),
        other => panic!("{other:?}"),
    };
    fill(leader, value, Some(base(value)), b"body")
}

/// A base names a variant before lookups find the variant. So if a soft purge does not see the
/// name, the thread that stores the variant sees the purge.
#[test]
fn a_variant_that_is_not_named_yet_does_not_survive_a_soft_purge() {
    for (purges_at, is_named, is_stored) in
        [(None, true, true), (Some(0), false, false), (Some(1), true, false)]
    {
        let (store, filler, purger) = two();
        assert!(put_variant(&filler, HTML));
        let inner = &filler.inner;
        let purge = |step| {
            if purges_at == Some(step) {
                assert_eq!(purger.purge_softly(KEY).unwrap().records, 1, "{purges_at:?}");
            }
        };
        let json = base(JSON);
        let response = response_of(&json, b"head");
        let hash = inner.shared.wide_hash(JSON);
        purge(0);
        let id = inner.name_variant(&response, b"accept", hash);
        assert_eq!(id.is_some(), is_named, "{purges_at:?}");
        purge(1);
        let (mut key, mut head) = (Vec::new(), (JSON.len() as u16).to_le_bytes().to_vec());
        // The purge keeps out the record of a fill that could not name the variant, too.
        write_key_of(&mut key, KEY, &id.unwrap_or(VariantId::new(1, &hash)));
        head.extend_from_slice(JSON);
        let put = Put { head: &head, ..put_of(&key, &[b"body"]) };
        assert_eq!(inner.put(&put, SegmentQueue::Small).is_ok(), is_stored, "{purges_at:?}");
        let is_marked = Some(purges_at.is_some());
        assert_eq!(is_variant_soft(&purger, HTML), is_marked, "{purges_at:?}");
        assert_eq!(is_variant_soft(&purger, JSON), is_stored.then_some(false), "{purges_at:?}");
        // Responses whose fetch begins now are stored again.
        assert!(put_variant(&purger, JSON), "{purges_at:?}");
        assert_eq!(is_variant_soft(&filler, JSON), Some(false), "{purges_at:?}");
        assert_eq!(is_variant_soft(&filler, HTML), is_marked, "{purges_at:?}");
        assert_sound(&store);
    }
}

fn response_of<'a>(base: &'a VariantKey, head: &'a [u8]) -> Response<'a> {
    Response {
        primary: KEY,
        base: Some(base),
        kind: HeaderKind::Whole,
        tags: &[],
        head,
        body: &[b"body"],
        times: fresh(),
        begun_at: u64::MAX,
        purge_noted: 0,
        queue: SegmentQueue::Small,
    }
}

/// If the record of a variant cannot be stored, the base names the variant nevertheless.
#[test]
fn a_variant_is_named_before_it_is_stored() {
    let (store, worker) = open(32 << 20);
    assert!(put_variant(&worker, HTML));
    let too_long = vec![b'h'; usize::from(u16::MAX)];
    let json = base(JSON);
    worker.inner.put_response(&response_of(&json, &too_long)).unwrap_err();
    let is_named = |value: &[u8]| variant_key(&worker, KEY, value).is_some();
    assert!(is_named(HTML) && is_named(JSON));
    assert_eq!(is_variant_soft(&worker, JSON), None);
    assert_sound(&store);
}

/// A renewal that began before a soft purge does not remove the purge's mark. A renewal that began
/// after it does.
#[test]
fn a_renewal_takes_the_mark_of_older_soft_purges_only() {
    for (is_newer, expected) in [(true, Some(true)), (false, Some(false))] {
        let (store, leader_worker, purger) = two();
        assert!(put(&leader_worker, KEY, b"old", b"body"));
        if !is_newer {
            assert_eq!(purger.purge_softly(KEY).unwrap().records, 1);
        }
        let known = known(&leader_worker);
        let CollapseResult::Leader(leader, _) =
            leader_worker.collapse(KEY, None, Some(known), JoinTerms::at(0))
        else {
            panic!("the caller did not become leader");
        };
        if is_newer {
            assert_eq!(purger.purge_softly(KEY).unwrap().records, 1);
        }
        leader.validated(b"new", fresh(), None);
        assert_eq!(is_soft(&purger), expected, "{is_newer}");
        assert_sound(&store);
    }
}

/// The next soft purge removes a frozen record. So a renewal freezes the record only when nothing
/// but a purge can prevent the renewal.
#[test]
fn a_renewal_that_fails_leaves_a_record_that_can_be_marked() {
    for is_too_long in [true, false] {
        let (store, worker, purger) = two();
        assert!(put(&worker, KEY, b"old", b"body"));
        let known = known(&worker);
        let CollapseResult::Leader(leader, _) =
            worker.collapse(KEY, None, Some(known), JoinTerms::at(0))
        else {
            panic!("the caller did not become leader");
        };
        if !is_too_long {
            assert_eq!(purger.purge_softly(KEY).unwrap().records, 1);
        }
        leader.validated(&vec![b'h'; if is_too_long { 8 << 20 } else { 3 }], fresh(), None);
        assert_eq!(is_soft(&worker), Some(!is_too_long), "{is_too_long}");
        assert_eq!(purger.purge_softly(KEY).unwrap().records, 1);
        assert_eq!(is_soft(&worker), Some(true), "{is_too_long}");
        assert_sound(&store);
    }
}

fn known(worker: &StoreWorker) -> crate::RecordVersion {
    match worker.lookup(KEY) {
        Lookup::Record(found) => found.version(),
        other => panic!("{other:?}"),
    }
}

/// A purge of a record has begun when a leader begins to validate that record, and removes the
/// record before or after the renewal. A caller that joins after the acknowledgement may follow,
/// since the origin is asked after the purge has begun. But the caller does not find the purged
/// record.
#[test]
fn a_follower_of_a_validation_during_a_purge_finds_no_purged_record() {
    for is_out_first in [true, false] {
        let (store, leading, purger) = two();
        assert!(put(&leading, KEY, b"old", b"body"));
        let known = known(&leading);
        let inner = &purger.inner;
        let hash = inner.shared.hash(KEY);
        inner.shared.purges.announce(Predicate::Key(KEY));
        assert_eq!(inner.shared.flights.detach(hash.value(), KEY), 0);
        let CollapseResult::Leader(leader, _) =
            leading.collapse(KEY, None, Some(known), JoinTerms::at(0))
        else {
            panic!("the caller did not become leader");
        };
        let follow = || match purger.collapse(KEY, None, None, JoinTerms::at(0)) {
            CollapseResult::Follower(follower) => follower,
            other => panic!("{other:?}"),
        };
        let mut follower = if is_out_first {
            assert_eq!(inner.records.purge_key(hash, KEY), 1);
            let follower = follow();
            leader.validated(b"new", fresh(), None);
            follower
        } else {
            let CollapseResult::Follower(follower) =
                purger.collapse(KEY, None, Some(known), JoinTerms::at(0))
            else {
                panic!("the caller did not become follower");
            };
            leader.validated(b"new", fresh(), None);
            assert_eq!(inner.records.purge_key(hash, KEY), 1);
            follower
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(crate::FollowOutcome::Validated(renewed)) = follower.poll_outcome(&mut cx)
        else {
            panic!("the outcome is not a validated head");
        };
        let found = renewed.version().and_then(|known| purger.find_version(KEY, None, known));
        assert!(found.is_none(), "{is_out_first}: the record was found after its purge");
        assert_eq!(renewed.version().is_none(), is_out_first);
        assert_eq!(is_soft(&purger), None, "{is_out_first}");
        assert_sound(&store);
    }
}
