//! One fetch for many: who leads, who follows, what everybody learns, and purges in between.

use super::*;
use crate::Refused;

#[test]
fn all_followers_read_the_same_record_while_it_arrives() {
    let store = store(config(1 << 20));
    let (leader, first) = lead(&store, b"a", None);
    let mut followers: Vec<Follower> = (0..99).map(|_| follow(&store, b"a")).collect();
    followers.push(first);
    let mut filling = leader.begin(b"head", None, Some(6000)).unwrap();
    let mut readers: Vec<Reader> = followers.into_iter().map(reader).collect();
    let body = content(1, 6000);
    for part in body.chunks(2000) {
        filling.append(part).unwrap();
        for reader in &mut readers {
            assert_eq!(read_now(reader), (part.to_vec(), Poll::Pending));
        }
    }
    let mut late = reader(follow(&store, b"a"));
    assert_eq!((late.head(), late.body_bytes()), (&b"head"[..], Some(6000)));
    assert!(filling.finish());
    for reader in &mut readers {
        assert_eq!(read_now(reader), (vec![], Poll::Ready(ReadEvent::Done)));
    }
    assert_eq!(read_now(&mut late), (body, Poll::Ready(ReadEvent::Done)));
    assert!(matches!(store.join(b"a", None, None, 0), Join::Stored));
    assert_eq!(store.stats().inserted, 1);
    drop((readers, late));
    check_at_rest(&store);
}

#[test]
fn a_fill_outlives_its_first_client() {
    let store = store(config(1 << 20));
    let (leader, follower) = lead(&store, b"a", None);
    drop(follower);
    let mut filling = begin(leader, b"", None);
    filling.append(b"abc").unwrap();
    assert!(filling.finish());
    assert_eq!(body_of(&found(&store, b"a").unwrap()), b"abc");
}

#[test]
fn what_a_reader_takes_at_a_time_is_limited() {
    let store = store(config(1 << 20));
    let (leader, follower) = lead(&store, b"a", None);
    let mut filling = begin(leader, b"", None);
    // Each so much shorter than the one before that they are not joined.
    for part in [&b"abcdefghi"[..], b"jklm", b"n"] {
        filling.append(part).unwrap();
    }
    let (mut reader, mut cx) = (reader(follower), Context::from_waker(Waker::noop()));
    for (bytes_max, expected) in [(3, "abc"), (0, "d"), (5, "efghi"), (2, "jk"), (9, "lmn")] {
        let mut out = Vec::new();
        let event = reader.poll_fragments(&mut cx, bytes_max, &mut out);
        assert_eq!(event, Poll::Ready(ReadEvent::Data), "{bytes_max}");
        assert_eq!(out.concat(), expected.as_bytes(), "{bytes_max}");
    }
}

/// What a leader may say, and what its followers see.
#[test]
fn every_end_of_a_fetch_reaches_its_followers() {
    type Act = fn(Leader);
    let cases: [(&str, Act, &str); 6] = [
        ("declined", |leader| leader.decline(0), "Declined"),
        ("declined once", |leader| leader.decline_once(), "Declined"),
        ("failed", |leader| leader.fail(), "Failed"),
        ("dropped", drop, "Failed"),
        ("validated without a record", |leader| leader.validated(b""), "Failed"),
        ("aborted before it was read", |leader| drop(begin(leader, b"", None)), "Failed"),
    ];
    for (name, act, expected) in cases {
        let store = store(config(1 << 20));
        let (leader, mut follower) = lead(&store, b"a", None);
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(Arc::clone(&alarm));
        let mut cx = Context::from_waker(&waker);
        assert!(follower.poll_outcome(&mut cx).is_pending(), "{name}");
        act(leader);
        assert!(alarm.0.load(Relaxed) >= 1, "{name}: not woken");
        assert_eq!(format!("{:?}", outcome(&mut follower)), expected, "{name}");
        assert_eq!(format!("{:?}", outcome(&mut follower)), "Failed", "{name}: it comes once");
        drop(follower);
        check_at_rest(&store);
    }
}

#[test]
fn a_broken_body_is_never_stored() {
    type Act = fn(Filling) -> bool;
    let cases: [(&str, Option<u64>, Act); 3] = [
        ("dropped", None, |filling| {
            drop(filling);
            false
        }),
        ("too short", Some(4), Filling::finish),
        ("too long", Some(2), Filling::finish),
    ];
    for (name, body_bytes, act) in cases {
        let store = store(config(1 << 20));
        let (leader, follower) = lead(&store, b"a", None);
        let mut filling = leader.begin(b"", None, body_bytes).unwrap();
        let mut reader = reader(follower);
        filling.append(b"abc").unwrap();
        assert!(!act(filling), "{name}");
        assert_eq!(read_now(&mut reader).1, Poll::Ready(ReadEvent::Aborted), "{name}");
        assert!(found(&store, b"a").is_none(), "{name}");
        drop(reader);
        check_at_rest(&store);
    }
}

#[test]
fn a_declined_key_is_not_collapsed_for_a_while() {
    let store = store(config(1 << 20));
    lead(&store, b"a", None).0.decline(1000);
    for (now_ms, declined) in [(1000, true), (1099, true), (1100, false)] {
        let join = store.join(b"a", Some(b"v"), None, now_ms);
        assert_eq!(matches!(join, Join::Declined), declined, "at {now_ms}");
    }
    let ways: [fn(&Store); 2] =
        [|store| store.forget_declined(b"a"), |store| _ = store.purge(b"a")];
    for forget in ways {
        assert!(matches!(store.join(b"a", None, None, 1000), Join::Declined));
        forget(&store);
        lead(&store, b"a", None).0.decline(1000);
    }
    lead(&store, b"b", None).0.decline_once();
    assert!(matches!(store.join(b"b", None, None, 0), Join::Leader(..)));
}

#[test]
fn a_body_known_to_be_too_long_gives_the_leader_back() {
    let store = store(config(1 << 20));
    let (leader, mut follower) = lead(&store, b"a", None);
    let (leader, refused) = leader.begin(b"", None, Some(200_000)).unwrap_err();
    assert_eq!(refused, Refused::TooLarge);
    assert!(follower.poll_outcome(&mut Context::from_waker(Waker::noop())).is_pending());
    leader.decline(0);
    assert!(matches!(outcome(&mut follower), Outcome::Declined));
    assert_eq!(store.stats().refused_large, 1);
    // Promised lengths share what may grow.
    let fillings: Vec<Filling> = (0..2_u8)
        .map(|i| lead(&store, &[i], None).0.begin(b"", None, Some(130_000)).unwrap())
        .collect();
    let (_, refused) = lead(&store, b"c", None).0.begin(b"", None, Some(130_000)).unwrap_err();
    assert_eq!((refused, store.stats().refused_no_room), (Refused::NoRoom, 1));
    drop(fillings);
    drop(follower);
    check_at_rest(&store);
}

#[test]
fn a_follower_of_another_variant_sees_whose_response_it_is() {
    let store = store(config(1 << 20));
    let (leader, _first) = lead(&store, b"a", None);
    let other = follow(&store, b"a");
    let filling = begin(leader, b"", base("encoding", "gzip"));
    let other = reader(other);
    assert_eq!(other.base(), base("encoding", "gzip").as_ref());
    // It knows the names now: its own variant has a flight of its own.
    let (leader, _) = lead(&store, b"a", Some(b"br"));
    assert!(filling.finish() && begin(leader, b"", base("encoding", "br")).finish());
    assert_eq!(store.stats().record_count, 2);
    assert!(matches!(store.join(b"a", None, None, 0), Join::Stored), "it has a base now");
}

/// A purge at any moment of a fill: it is neither stored nor joined, its followers are served.
#[test]
fn a_fill_that_began_before_a_purge_is_never_stored() {
    for moment in 0..4 {
        let store = store(config(1 << 20));
        let purge_at = |now: usize| {
            if now == moment {
                let purged = store.purge(b"a");
                assert_eq!(purged.flights, 1, "moment {moment}");
                check(&store);
            }
        };
        let (leader, follower) = lead(&store, b"a", None);
        purge_at(0);
        let mut filling = begin(leader, b"", None);
        let mut reader = reader(follower);
        purge_at(1);
        filling.append(b"abc").unwrap();
        purge_at(2);
        filling.append(b"def").unwrap();
        purge_at(3);
        let (second, _) = lead(&store, b"a", None);
        assert!(!filling.finish(), "moment {moment}");
        assert!(found(&store, b"a").is_none(), "moment {moment}");
        assert_eq!(read_now(&mut reader), (b"abcdef".to_vec(), Poll::Ready(ReadEvent::Done)));
        assert!(begin(second, b"new", None).finish(), "moment {moment}");
        assert_eq!(found(&store, b"a").unwrap().head(), b"new");
        drop(reader);
        check_at_rest(&store);
    }
}

#[test]
fn a_reader_is_woken_once_by_each_change_and_never_without() {
    let store = store(config(1 << 20));
    let (leader, follower) = lead(&store, b"a", None);
    let mut filling = begin(leader, b"", None);
    let mut reader = reader(follower);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    for round in 0..3 {
        assert_eq!(read(&mut reader, &mut cx).1, Poll::Pending);
        assert_eq!(read(&mut reader, &mut cx).1, Poll::Pending, "asked twice");
        assert_eq!(alarm.0.load(Relaxed), round);
        filling.append(b"a").unwrap();
        filling.append(b"b").unwrap();
        assert_eq!(alarm.0.load(Relaxed), round + 1, "who does not wait is not woken");
    }
    assert_eq!(read(&mut reader, &mut cx), (b"ab".to_vec(), Poll::Pending));
    drop(filling);
    assert_eq!(alarm.0.load(Relaxed), 4);
    assert_eq!(read(&mut reader, &mut cx).1, Poll::Ready(ReadEvent::Aborted));
}
