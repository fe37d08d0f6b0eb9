//! One fetch for many callers: leading, following, the outcome that all callers get, and purges in
//! between.

use super::fragment::fragment_cost;
use super::*;

#[test]
fn all_followers_read_the_same_record_while_it_arrives() {
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let mut followers: Vec<Follower> = (0..99).map(|_| follow(&flights, b"a")).collect();
    followers.push(first);
    let mut writer = lead.begin(b"head", None, Some(6000)).unwrap();
    let mut readers: Vec<BodyReader> = followers.into_iter().map(reader).collect();
    let body = content(1, 6000);
    for part in body.chunks(2000) {
        writer.append(part).unwrap();
        for reader in &mut readers {
            assert_eq!(read_now(reader), (part.to_vec(), Poll::Pending));
        }
    }
    let mut late = reader(follow(&flights, b"a"));
    assert_eq!((late.head(), late.body_bytes()), (&b"head"[..], Some(6000)));
    assert!(writer.is_storing() && writer.is_complete());
    writer.finish(None);
    for reader in &mut readers {
        assert_eq!(read_now(reader), (vec![], Poll::Ready(ReadEvent::Done)));
    }
    assert_eq!(read_now(&mut late), (body, Poll::Ready(ReadEvent::Done)));
    drop((readers, late));
    check_at_rest(&flights);
}

#[test]
fn a_fill_outlives_its_first_client() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    drop(follower);
    let mut writer = begin(lead, b"", None);
    writer.append(b"abc").unwrap();
    assert!(writer.is_storing() && writer.is_complete());
    assert_eq!(body_of(&writer), b"abc");
}

#[test]
fn a_read_is_limited() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    // Each part is so much shorter than the part before it that they are not joined.
    for part in [&b"abcdefghi"[..], b"jklm", b"n"] {
        writer.append(part).unwrap();
    }
    let (mut reader, mut cx) = (reader(follower), Context::from_waker(Waker::noop()));
    for (bytes_max, expected) in [(3, "abc"), (0, "d"), (5, "efghi"), (2, "jk"), (9, "lmn")] {
        let mut out = Vec::new();
        let event = reader.poll_fragments(&mut cx, bytes_max, &mut out);
        assert_eq!(event, Poll::Ready(ReadEvent::Data), "{bytes_max}");
        assert_eq!(out.concat(), expected.as_bytes(), "{bytes_max}");
    }
}

/// Checks, for each way in which a leader can end its flight, the outcome that its followers see.
#[test]
fn every_end_of_a_fetch_reaches_its_followers() {
    type Act = fn(LeaderGuard);
    let cases: [(&str, Act, &str); 5] = [
        ("declined", |lead| lead.decline(0, DeclineReason::TooLarge), "Declined(Some(TooLarge))"),
        (
            "declined once",
            |lead| lead.decline_once(DeclineReason::Code(3)),
            "Declined(Some(Code(3)))",
        ),
        ("failed", |lead| lead.fail(503), "Failed(Some(503))"),
        ("dropped", drop, "Failed(None)"),
        ("aborted before it was read", |lead| drop(begin(lead, b"", None)), "Failed(None)"),
    ];
    for (name, act, expected) in cases {
        let flights = new_flights(config());
        let (lead, mut follower) = take_lead(&flights, b"a", None);
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(Arc::clone(&alarm));
        let mut cx = Context::from_waker(&waker);
        assert!(follower.poll_outcome(&mut cx).is_pending(), "{name}");
        act(lead);
        assert!(alarm.0.load(Relaxed) >= 1, "{name}: the follower was not woken");
        assert_eq!(format!("{:?}", outcome(&mut follower)), expected, "{name}");
        assert_eq!(
            format!("{:?}", outcome(&mut follower)),
            "Failed(None)",
            "{name}: the outcome comes once"
        );
        drop(follower);
        check_at_rest(&flights);
    }
}

#[test]
fn a_broken_body_aborts_its_readers_and_frees_unread_bytes() {
    type Act = fn(BodyWriter);
    let cases: [(&str, Option<u64>, Act); 3] = [
        ("dropped", None, drop),
        ("too short", Some(4), |writer| writer.finish(None)),
        ("too long", Some(2), |writer| writer.finish(None)),
    ];
    for (name, body_bytes, act) in cases {
        let flights = new_flights(config());
        let (lead, follower) = take_lead(&flights, b"a", None);
        let mut writer = lead.begin(b"", None, body_bytes).unwrap();
        let mut reader = reader(follower);
        writer.append(b"abc").unwrap();
        assert_eq!(writer.is_complete(), body_bytes.is_none(), "{name}");
        act(writer);
        let (begun, stats) = (fragment_cost(0), flights.stats());
        assert_eq!((stats.growing_bytes, stats.flight_count), (begun, 0), "{name}");
        assert_eq!(read_now(&mut reader).1, Poll::Ready(ReadEvent::Aborted), "{name}");
        drop(reader);
        check_at_rest(&flights);
    }
}

#[test]
fn a_declined_key_is_not_collapsed_for_a_while() {
    let flights = new_flights(config());
    let reason = DeclineReason::Code(7);
    take_lead(&flights, b"a", None).0.decline(1000, reason);
    let expected = DeclinedUntil { reason, until_ms: 1100 };
    let preview = flights.preview(key(b"a", None), terms_at(1000), &Nothing);
    assert_eq!(preview, JoinPreview::Declined(expected));
    let join_variant =
        |variant, now_ms| flights.join(key(b"a", variant), terms_at(now_ms), &Nothing);
    for (variant, now_ms, declined) in [
        (None, 1000, true),
        (None, 1099, true),
        (None, 1100, false),
        (Some(&b"v"[..]), 1000, false),
    ] {
        let joined = join_variant(variant, now_ms);
        assert_eq!(matches!(joined, JoinResult::Declined(_)), declined, "{variant:?} at {now_ms}");
    }
    let ways: [fn(&Flights); 2] = [
        |flights| flights.forget_declined(hash(b"a")),
        |flights| _ = flights.detach(hash(b"a"), b"a"),
    ];
    for forget in ways {
        assert!(matches!(join(&flights, b"a", 1000), JoinResult::Declined(_)));
        forget(&flights);
        take_lead(&flights, b"a", None).0.decline(1000, DeclineReason::TooLarge);
    }
    take_lead(&flights, b"b", None).0.decline_once(DeclineReason::TooLarge);
    assert!(matches!(join(&flights, b"b", 0), JoinResult::Lead(..)));
    assert_eq!(flights.stats().declined, 3);
}

#[test]
fn a_response_to_a_personal_caller_declines_only_such_callers() {
    let flights = new_flights(config());
    let join = |is_personal| {
        let terms = JoinTerms { is_personal, ..terms_at(0) };
        flights.join(key(b"a", None), terms, &Nothing)
    };
    let JoinResult::Lead(lead, _) = join(true) else { panic!("the first one leads") };
    let JoinResult::Follow(follower) = join(false) else { panic!("it waits for the leader") };
    assert!(follower.is_personal());
    lead.decline(0, DeclineReason::TooLarge);
    assert!(matches!(join(true), JoinResult::Declined(_)));
    let JoinResult::Lead(lead, follower) = join(false) else { panic!("it is declined") };
    assert!(!follower.is_personal());
    lead.decline(0, DeclineReason::TooLarge);
    assert!(matches!(join(false), JoinResult::Declined(_)));
    flights.forget_declined(hash(b"a"));
    assert!(matches!(join(true), JoinResult::Lead(..)));
}

#[test]
fn a_caller_that_needs_a_part_follows_the_whole_response_that_arrives() {
    let flights = new_flights(config());
    let part = FlightKey { is_part: true, ..key(b"a", None) };
    let join_part = || flights.join(part, terms_at(0), &Nothing);
    let whole = take_lead(&flights, b"a", None).0;
    // The origin may be slow to begin the whole response.
    let JoinResult::Lead(lead, _) = join_part() else { panic!("it waits for the whole response") };
    assert!(!flights.is_whole_arriving(part));
    lead.decline_once(DeclineReason::TooLarge);
    let writer = begin(whole, b"whole", None);
    assert!(flights.is_whole_arriving(part) && !flights.is_whole_arriving(key(b"a", None)));
    assert!(matches!(join_part(), JoinResult::Follow(_)));
    assert!(!flights.is_whole_arriving(FlightKey { is_part: true, ..key(b"a", Some(b"v")) }));
    drop(writer);
    assert!(matches!(join_part(), JoinResult::Lead(..)));
    let declined = DeclinedUntil { reason: DeclineReason::TooLarge, until_ms: 10 };
    flights.decline_all(part, declined);
    for key in [part, key(b"a", None)] {
        assert!(matches!(flights.join(key, terms_at(9), &Nothing), JoinResult::Declined(_)));
    }
    check_at_rest(&flights);
}

/// Checks that a caller neither waits nor makes others wait if its response may be for this caller
/// alone.
#[test]
fn a_caller_that_joins_only_arrived_flights_leads_beside_others() {
    let flights = new_flights(config());
    let terms = JoinTerms { policy: JoinPolicy::Arrived, ..terms_at(0) };
    let join = |terms| flights.join(key(b"a", None), terms, &Nothing);
    let lead = |joined| match joined {
        JoinResult::Lead(lead, _) => lead,
        other => panic!("{other:?}"),
    };
    let (alone, beside) = (lead(join(terms)), lead(join(terms)));
    let first = lead(join(terms_at(0)));
    assert!(matches!(join(terms_at(0)), JoinResult::Follow(_)));
    let third = lead(join(terms));
    assert_eq!(flights.stats().flight_count, 1);
    drop(third);
    first.decline_once(DeclineReason::TooLarge);
    // The first flight whose response is being stored gets the followers.
    let writer = begin(alone, b"alone", None);
    check(&flights);
    let second_writer = begin(beside, b"beside", None);
    for terms in [terms, terms_at(0)] {
        let JoinResult::Follow(follower) = join(terms) else {
            panic!("a caller does not follow a response that has arrived")
        };
        assert_eq!(reader(follower).head(), b"alone");
    }
    assert!(writer.is_storing() && second_writer.is_storing());
    writer.finish(None);
    second_writer.finish(None);
    check_at_rest(&flights);
}

#[test]
fn a_body_that_has_stopped_is_not_joined_and_still_stored() {
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let join = |now_ms| {
        let terms = JoinTerms { stalled_ms: 100, ..terms_at(now_ms) };
        flights.join(key(b"a", None), terms, &Nothing)
    };
    assert!(matches!(join(10_000), JoinResult::Follow(_)), "the wait for a response is no stall");
    let mut writer = begin(lead, b"old", None);
    let mut first = reader(first);
    // The first caller that sees the body starts the clock.
    assert!(matches!(join(10_000), JoinResult::Follow(_)));
    assert!(matches!(join(10_099), JoinResult::Follow(_)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(writer.poll_room(&mut cx, 10_099).is_ready());
    writer.append(b"abc").unwrap();
    assert!(matches!(join(10_198), JoinResult::Follow(_)), "the body has moved");
    let JoinResult::Lead(lead, _) = join(10_199) else {
        panic!("the body has not moved for 100 ms")
    };
    assert!(writer.is_storing());
    let new = begin(lead, b"new", None);
    let JoinResult::Follow(follower) = join(10_199) else { panic!("there is a new leader") };
    assert_eq!(reader(follower).head(), b"new");
    writer.append(b"def").unwrap();
    writer.finish(None);
    assert_eq!(read_now(&mut first), (b"abcdef".to_vec(), Poll::Ready(ReadEvent::Done)));
    new.finish(None);
    drop(first);
    check_at_rest(&flights);
}

#[test]
fn a_leader_that_waits_for_its_turn_is_not_followed_by_a_caller_that_has_one() {
    let flights = new_flights(config());
    let join =
        |has_turn| flights.join(key(b"a", None), JoinTerms { has_turn, ..terms_at(0) }, &Nothing);
    let JoinResult::Lead(waiting, _) = join(false) else { panic!("there is no flight") };
    let JoinResult::Follow(mut first) = join(false) else { panic!("neither has its turn") };
    let JoinResult::Lead(admitted, _) = join(true) else { panic!("the leader waits") };
    let JoinResult::Follow(second) = join(true) else { panic!("the new leader asks the origin") };
    // The followers of the first leader stay with it.
    drop(waiting);
    assert!(matches!(outcome(&mut first), FollowOutcome::Failed(None)));
    begin(admitted, b"head", None).finish(None);
    assert_eq!(reader(second).head(), b"head");
    // A leader that gets its turn later is followed from then on.
    let JoinResult::Lead(waiting, _) = join(false) else { panic!("there is no flight") };
    waiting.set_waits(false);
    assert!(matches!(join(true), JoinResult::Follow(_)));
    // The leader can lose its turn again, when it asks a second time.
    waiting.set_waits(true);
    let JoinResult::Lead(other, _) = join(true) else { panic!("the leader waits again") };
    drop((waiting, other));
    check_at_rest(&flights);
}

#[test]
fn a_body_beyond_the_share_of_its_source_is_declined() {
    let (growing_bytes_max, declined_ms) = (config().growing_bytes_max, DECLINED_MS);
    let is_begun = |share, bytes: u64| {
        let flights = new_flights(FlightConfig { object_bytes_max: u64::MAX, ..config() });
        let terms = JoinTerms { share, declined_ms, ..terms_at(0) };
        let JoinResult::Lead(lead, _) = flights.join(key(b"a", None), terms, &Nothing) else {
            panic!("there is no flight");
        };
        match lead.begin(b"", None, Some(bytes)) {
            Ok(_) => true,
            Err((_, refused)) => {
                assert_eq!(refused, FillRefused::TooLarge);
                false
            }
        }
    };
    assert!(is_begun(None, growing_bytes_max / 2));
    assert!(!is_begun(Some(1), growing_bytes_max / 2));
    assert!(is_begun(Some(1), growing_bytes_max / 4));
    // A body of unknown length is found to be too long when it passes the limit.
    let flights = new_flights(FlightConfig { object_bytes_max: u64::MAX, ..config() });
    let join = || {
        let terms = JoinTerms { share: Some(1), ..terms_at(0) };
        flights.join(key(b"a", None), terms, &Nothing)
    };
    let JoinResult::Lead(lead, follower) = join() else { panic!("there is no flight") };
    let mut writer = begin(lead, b"", None);
    let mut body = reader(follower);
    let piece = [0; 1000];
    while writer.is_storing() {
        assert!(writer.bytes() < growing_bytes_max / 2);
        writer.append(&piece).unwrap();
        let _ = read_now(&mut body);
    }
    assert!(matches!(join(), JoinResult::Declined(_)), "after {} bytes", writer.bytes());
}

#[test]
fn a_body_known_to_be_too_long_gives_the_lead_back() {
    let flights = new_flights(config());
    let (lead, mut follower) = take_lead(&flights, b"a", None);
    let (lead, refused) = lead.begin(b"", None, Some(200_000)).unwrap_err();
    assert_eq!(refused, FillRefused::TooLarge);
    assert!(follower.poll_outcome(&mut Context::from_waker(Waker::noop())).is_pending());
    lead.decline(0, DeclineReason::TooLarge);
    assert!(matches!(outcome(&mut follower), FollowOutcome::Declined(_)));
    assert_eq!(flights.stats().refused_large, 1);
    // Bodies of known length share the room for growing records.
    let growths: Vec<BodyWriter> = (0..2_u8)
        .map(|i| take_lead(&flights, &[i], None).0.begin(b"", None, Some(110_000)).unwrap())
        .collect();
    let (_, refused) =
        take_lead(&flights, b"c", None).0.begin(b"", None, Some(110_000)).unwrap_err();
    assert_eq!((refused, flights.stats().refused_no_room), (FillRefused::NoRoom, 1));
    drop(growths);
    drop(follower);
    check_at_rest(&flights);
}

#[test]
fn a_follower_of_another_variant_sees_whose_response_it_is() {
    let flights = new_flights(config());
    let (lead, _first) = take_lead(&flights, b"a", None);
    let other = follow(&flights, b"a");
    let writer = begin(lead, b"", base("encoding", "gzip"));
    let other = reader(other);
    assert_eq!(other.base(), base("encoding", "gzip").as_ref());
    assert_eq!(writer.opening().base, base("encoding", "gzip"));
    // The follower knows the field names now, so its own variant has a flight of its own.
    let (lead, _) = take_lead(&flights, b"a", Some(b"br"));
    assert_eq!(lead.key(), key(b"a", Some(b"br")));
    assert_eq!(flights.stats().flight_count, 2);
}

/// Checks that a fill that is purged is not stored and that no caller joins it, whenever the purge
/// comes, and that its followers get its response.
#[test]
fn a_fill_that_was_detached_is_neither_stored_nor_joined() {
    for moment in 0..4 {
        let flights = new_flights(config());
        let purge_at = |now: usize| {
            if now == moment {
                assert_eq!(flights.detach(hash(b"a"), b"a"), 1, "moment {moment}");
                check(&flights);
            }
        };
        let (lead, follower) = take_lead(&flights, b"a", None);
        purge_at(0);
        let mut writer = begin(lead, b"", None);
        let mut reader = reader(follower);
        purge_at(1);
        writer.append(b"abc").unwrap();
        purge_at(2);
        writer.append(b"def").unwrap();
        purge_at(3);
        assert!(!writer.is_storing(), "moment {moment}");
        let (second, _) = take_lead(&flights, b"a", None);
        writer.finish(None);
        assert_eq!(read_now(&mut reader), (b"abcdef".to_vec(), Poll::Ready(ReadEvent::Done)));
        drop(follow(&flights, b"a"));
        assert!(begin(second, b"new", None).is_storing(), "moment {moment}");
        drop(reader);
        check_at_rest(&flights);
    }
}

#[test]
fn a_reader_is_woken_once_by_each_change_and_never_without() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let mut reader = reader(follower);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    for round in 0..3 {
        assert_eq!(read(&mut reader, &mut cx).1, Poll::Pending);
        assert_eq!(read(&mut reader, &mut cx).1, Poll::Pending, "a second poll waits, too");
        assert_eq!(alarm.0.load(Relaxed), round);
        writer.append(b"a").unwrap();
        writer.append(b"b").unwrap();
        assert_eq!(alarm.0.load(Relaxed), round + 1, "one wake-up for each wait");
    }
    assert_eq!(read(&mut reader, &mut cx), (b"ab".to_vec(), Poll::Pending));
    drop(writer);
    assert_eq!(alarm.0.load(Relaxed), 4);
    assert_eq!(read(&mut reader, &mut cx).1, Poll::Ready(ReadEvent::Aborted));
}
