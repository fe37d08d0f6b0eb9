//! Validations of a stored record. If the origin confirms the record, followers get its new head.

use super::shelf::Shelf;
use super::*;

#[test]
fn followers_get_the_new_head_and_no_caller_joins_any_more() {
    for is_purged in [false, true] {
        let flights = new_flights(config());
        let (lead, mut first) = take_lead(&flights, b"a", None);
        let mut second = follow(&flights, b"a");
        if is_purged {
            assert_eq!(flights.detach(hash(b"a"), b"a"), 1);
        }
        let sequence = (!is_purged).then_some(7);
        lead.validated(RenewedHead { head: Bytes::from_static(b"new head"), base: None, sequence });
        let (_other, _) = take_lead(&flights, b"a", None);
        for follower in [&mut first, &mut second] {
            let FollowOutcome::Validated(renewed) = outcome(follower) else {
                panic!("the outcome is not a validated head")
            };
            assert_eq!((&renewed.head[..], renewed.sequence), (&b"new head"[..], sequence));
        }
    }
}

#[test]
fn another_response_reaches_followers_that_wait_for_a_validation() {
    let flights = new_flights(config());
    let (lead, _first) = take_lead(&flights, b"a", None);
    // A caller that finds the stale record during the fetch follows the fetch.
    let second = follow(&flights, b"a");
    let mut writer = begin(lead, b"", None);
    writer.append(b"new").unwrap();
    assert_eq!(body_of(&writer), b"new");
    writer.finish(None);
    assert_eq!(read_now(&mut reader(second)), (b"new".to_vec(), Poll::Ready(ReadEvent::Done)));
}

/// Begins a fetch while a purge by another process is in progress. Checks that a caller that joins
/// after the purge does not get the record that the purge removed.
#[test]
fn after_a_purge_no_caller_follows_a_validation_of_a_purged_record() {
    for validates in [true, false] {
        let (flights, shelf) = (new_flights(config()), Shelf::new());
        assert!(!validates || shelf.store(b"a", 0, b"old head", b""));
        let found = shelf.find(b"a");
        shelf.begin_purge(b"a");
        let gate = shelf.gate(b"a", found.as_ref());
        let first = flights.join(key(b"a", None), JoinTerms::at(0), &gate);
        assert!(
            matches!(first, JoinResult::Lead(..)),
            "the record is current until its purge removes it"
        );
        shelf.evict(b"a");
        shelf.end_purge();
        let second = flights.join(key(b"a", None), JoinTerms::at(0), &shelf.gate(b"a", None));
        assert_eq!(matches!(second, JoinResult::Lead(..)), validates, "{second:?}");
    }
}
