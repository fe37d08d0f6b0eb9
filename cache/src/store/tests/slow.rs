//! Readers of slow clients: the bytes that the store holds for them, and the place at which they
//! continue.

use forebay_sync::atomic::Relaxed;

use super::super::body_handle::RevokeProgress;
use super::super::layout::row;
use super::super::put::FreeReserve;
use super::super::reclaim::SliceOutcome;
use super::basics::body;
use super::*;
use crate::segment::SegmentQueue;
use crate::{BodyReader, FollowOutcome, Follower, ReadEvent};

/// Two lengths of a body, and whether a body of this length is stored in fragments rather than in
/// one record.
const LENGTHS: [(usize, bool); 2] = [(300_000, true), (20_000, false)];

fn follow(worker: &StoreWorker) -> Follower {
    match worker.collapse(b"key", None, None, JoinTerms::at(0)) {
        CollapseResult::Follower(follower) => follower,
        other => panic!("{other:?}"),
    }
}

fn reader(mut follower: Follower) -> BodyReader {
    let mut cx = Context::from_waker(Waker::noop());
    match follower.poll_outcome(&mut cx) {
        Poll::Ready(FollowOutcome::Growing(reader)) => reader,
        other => panic!("{other:?}"),
    }
}

/// Reads once. Returns the event, and at most `bytes_max` bytes.
fn read(reader: &mut BodyReader, bytes_max: u64) -> (ReadEvent, Vec<u8>) {
    let mut fragments = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    match reader.poll_fragments(&mut cx, bytes_max, &mut fragments) {
        Poll::Ready(event) => (event, fragments.concat()),
        Poll::Pending => panic!("the reader has nothing to read"),
    }
}

/// Reads the rest of a body from the store, where `event` says it is.
fn stored(worker: &StoreWorker, event: ReadEvent) -> Vec<u8> {
    let ReadEvent::Stored { long, offset } = event else {
        panic!("{event:?}");
    };
    let part = offset..long.bytes();
    let mut body = Vec::new();
    for number in long.fragments(part.clone()) {
        let lent = worker.pin_fragment(&long, number, long.part_of(number, &part), 0);
        let lent = lent.expect("the fragment is stored");
        body.extend_from_slice(
            lent.bytes(&worker.send_guard()).expect("the handle is not revoked"),
        );
    }
    body
}

#[test]
fn a_reader_that_steps_aside_holds_no_stored_bytes_and_reads_on_in_the_store() {
    for (bytes, is_long) in LENGTHS {
        let (store, worker) = open(32 << 20);
        let body = body(1, bytes);
        let CollapseResult::Leader(leader, first) =
            worker.collapse(b"key", None, None, JoinTerms::at(0))
        else {
            unreachable!("no leader, although the key has no other fetch");
        };
        let mut filling = leader.begin(b"head", None, None, fresh()).expect("there is room");
        let followers = [first, follow(&worker), follow(&worker), follow(&worker)];
        let [mut aside, mut later, mut back, mut here] = followers.map(reader);
        append(&mut filling, &body);
        for reader in [&mut aside, &mut later, &mut back] {
            assert_eq!(read(reader, 1000), (ReadEvent::Data, body[..1000].to_vec()));
        }
        aside.step_aside();
        back.step_aside();
        assert_eq!(
            read(&mut back, 1000).1,
            body[1000..2000],
            "all bytes are held until the body is stored"
        );
        assert!(filling.finish(), "{bytes}");

        assert!(store.stats().growing_bytes > bytes as u64, "two readers have not read the body");
        assert_eq!(read(&mut here, u64::MAX), (ReadEvent::Data, body.clone()));
        assert_eq!(read(&mut here, 1), (ReadEvent::Done, Vec::new()));
        later.step_aside();
        assert_eq!(read(&mut back, u64::MAX).1, body[2000..], "{bytes}");
        let held = store.stats().growing_bytes;
        assert_eq!(
            held < bytes as u64,
            is_long,
            "{bytes}: {held} held for a reader that stepped aside"
        );
        for mut reader in [aside, later] {
            let (event, read) = read(&mut reader, u64::MAX);
            let rest = if is_long { stored(&worker, event) } else { read };
            assert!(rest == body[1000..], "{bytes}");
        }
        drop((back, here));
        assert_eq!(store.stats().growing_bytes, 0);
        assert_sound(&store);
    }
}

#[test]
fn handles_on_drained_segments_are_copied_or_lost_and_used_records_stay() {
    let config = StoreConfig { record_bytes_expected: 20_000, ..config(16 << 20) };
    let store = Store::open(config.clone()).unwrap();
    let worker = store.join().unwrap();
    assert!(put(&worker, b"used", b"head", &body(0, 1000)));
    let lent: Vec<_> = (0..600_usize)
        .map(|number| {
            let key = format!("lent{number}");
            assert!(put(&worker, key.as_bytes(), b"head", &body(number, 20_000)), "{key}");
            get(&worker, b"used").expect("a used record is stored");
            let Lookup::Record(found) = worker.lookup(key.as_bytes()) else {
                panic!("{key} is not stored");
            };
            found.pin_body(0..20_000, number as u64)
        })
        .collect();
    let mut told = Vec::new();
    for number in 0..600_usize {
        let key = format!("more{number}");
        assert!(put(&worker, key.as_bytes(), b"head", &body(number, 20_000)), "{key}");
        get(&worker, b"used").expect("a used record is stored");
        while worker.turn(NOW, |tag| told.push(tag)) {}
    }
    let lost: Vec<_> = (0..600).filter(|number| lent[*number as usize].is_revoked()).collect();
    told.sort_unstable();
    assert_eq!(told, lost, "each lost body is reported once");
    let stats = store.stats();
    assert!(stats.copied_out > 0 && stats.bodies_revoked as usize == lost.len(), "{stats:?}");
    assert!(stats.copied_bytes <= config.copied_out_bytes_max(), "{stats:?}");
    assert!(stats.pinned_bytes < stats.budget_bytes / 4, "{stats:?}");
    for (number, lent) in lent.iter().enumerate() {
        let reading = worker.send_guard();
        let bytes = lent.bytes(&reading);
        assert!(bytes.is_err() || bytes == Ok(&body(number, 20_000)[..]), "{number}");
    }
    drop(lent);
    while worker.turn(NOW, |_| ()) {}
    let stats = store.stats();
    assert_eq!((stats.copied_bytes, stats.pinned_bytes), (0, 0), "{stats:?}");
    assert_sound(&store);
}

#[test]
fn segments_of_which_something_is_lent_are_passed_over() {
    let (store, worker) = open(16 << 20);
    assert!(put(&worker, b"lent", b"head", &body(7, 20_000)));
    let lent = {
        let Lookup::Record(found) = worker.lookup(b"lent") else {
            panic!("the key has no record");
        };
        [found.pin_body(0..10_000, 1), found.pin_body(10_000..20_000, 1)]
    };
    for number in 0..4000_usize {
        assert!(put(&worker, format!("more{number}").as_bytes(), b"head", &body(number, 20_000)));
        while worker.turn(NOW, |tag| panic!("connection {tag} lost its body")) {}
    }
    assert_eq!(store.stats().copied_out, 0, "the pinned segment was never chosen");
    drop(lent);
    assert_eq!(store.stats().pinned_bytes, 0);
    assert_sound(&store);
}

/// Makes a worker that holds a handle on each of `count` records in sealed segments. Returns the
/// worker and the handles.
fn lender(store: &Store, count: usize) -> (StoreWorker, Vec<crate::BodyHandle>) {
    let worker = store.join().unwrap();
    let lent = (0..count).map(|number| {
        let key = format!("lent{number}");
        assert!(put(&worker, key.as_bytes(), b"head", &body(number, 20_000)), "{key}");
        let Lookup::Record(found) = worker.lookup(key.as_bytes()) else {
            panic!("{key} is not stored");
        };
        found.pin_body(0..20_000, number as u64)
    });
    let lent = lent.collect();
    worker.inner.appender.seal(SegmentQueue::Small);
    (worker, lent)
}

#[test]
fn requested_handles_are_copied_out_in_slices() {
    let (store, other) = open(64 << 20);
    let (worker, lent) = lender(&store, 80);
    other.empty();
    let is_asked =
        || worker.inner.shared.row_word(worker.inner.part.row(), row::REVOKE).load(Relaxed) != 0;
    worker.inner.shared.row_word(worker.inner.part.row(), row::REVOKE).store(1, Relaxed);
    let mut turns = 0;
    while is_asked() {
        let before = store.stats().copied_bytes;
        let goes_on = worker.turn(NOW, |tag| panic!("connection {tag} lost its body"));
        let copied = store.stats().copied_bytes - before;
        assert!(copied <= 256 * 1024 + 20_000, "{copied} in one turn");
        assert!(
            goes_on && worker.is_due() || !is_asked(),
            "there is more to copy, but no further turn is due"
        );
        turns += 1;
    }
    assert!(turns > 1, "{turns}");
    for (number, lent) in lent.iter().enumerate() {
        assert_eq!(lent.bytes(&worker.send_guard()), Ok(&body(number, 20_000)[..]), "{number}");
    }
}

#[test]
fn a_request_that_arrives_while_handles_are_revoked_stays() {
    let (_store, worker) = open(4 << 20);
    let bodies = &worker.inner.bodies;
    let request = worker.inner.shared.row_word(worker.inner.part.row(), row::REVOKE);
    for (progress, arrives, is_answered, stays) in [
        (RevokeProgress::All, false, true, false),
        (RevokeProgress::All, true, true, true),
        (RevokeProgress::Some, false, true, true),
        (RevokeProgress::Some, true, true, true),
        (RevokeProgress::Nothing, false, false, true),
    ] {
        request.store(1, Relaxed);
        let answered = bodies.answer_request_by(|| {
            if arrives {
                request.store(2, Relaxed);
            }
            progress
        });
        assert_eq!(answered, is_answered, "{progress:?}, {arrives}");
        assert_eq!(bodies.is_revoke_requested(), stays, "{progress:?}, {arrives}");
    }
    request.store(0, Relaxed);
    assert!(!bodies.answer_request_by(|| unreachable!("nothing was requested")));
}

#[test]
fn a_segment_whose_last_pin_is_down_is_free_before_anything_else_is_drained() {
    let (store, other) = open(4 << 20);
    let (worker, lent) = lender(&store, 1);
    other.empty();
    for number in 0..200 {
        assert!(put(&other, format!("small{number}").as_bytes(), b"head", &[1; 100]));
    }
    other.inner.appender.seal(SegmentQueue::Small);
    let segment_count = store.shared.plan.geometry.segment_count();
    assert_eq!(other.inner.reclaim_towards(segment_count, NOW), SliceOutcome::More);
    let under_way = other.inner.reclaimer.draining().expect("more than a slice takes");
    assert_eq!(store.phases().draining, 2);
    let free = store.phases().free;
    drop(lent);
    assert!(worker.inner.reclaim_now(FreeReserve(free)));
    assert_eq!(other.inner.reclaimer.draining(), Some(under_way));
}

#[test]
#[allow(unsafe_code)]
fn a_pin_owner_that_never_answers_stops_the_others_for_a_while_only() {
    let (store, worker) = open(4 << 20);
    let (_lender, lent) = lender(&store, 1);
    worker.empty();
    assert!(put(&worker, b"used", b"head", &body(0, 1000)));
    get(&worker, b"used").expect("the record is stored");
    worker.inner.appender.seal(SegmentQueue::Small);
    // SAFETY: the row belongs to this participant, which keeps the claimed segments open to the end
    // of the test.
    let claim = || unsafe {
        store.shared.segments.claim(worker.inner.part.row(), SegmentQueue::Small, None)
    };
    let taken: Vec<_> = std::iter::from_fn(claim).collect();
    assert_eq!(worker.inner.reclaim_slice(NOW), SliceOutcome::More, "the segment is chosen");
    // The record is used, and it would have room if the other worker gave up its pins.
    for now in [NOW, NOW, NOW + 1] {
        assert_eq!(worker.inner.reclaim_slice(now), SliceOutcome::Nothing);
        assert_eq!((store.phases().free, store.phases().draining), (0, 2));
    }
    get(&worker, b"used").expect("the record is still stored");
    let mut slices = 0;
    while store.phases().free == 0 {
        worker.inner.reclaim_slice(NOW + 2);
        slices += 1;
        assert!(slices < 10, "the drain has not ended after {slices} slices");
    }
    assert_eq!(get(&worker, b"used"), None);
    assert!(!lent[0].is_revoked());
    drop(taken);
}

#[test]
fn a_long_body_waits_for_room_that_others_are_about_to_give_up() {
    let (store, worker) = open(16 << 20);
    let other = store.join().unwrap();
    let lent: Vec<_> = (0..800_usize)
        .map(|number| {
            let key = format!("lent{number}");
            put(&worker, key.as_bytes(), b"head", &body(number, 20_000));
            match other.lookup(key.as_bytes()) {
                Lookup::Record(found) => Some(found.pin_body(0..20_000, 0)),
                _ => None,
            }
        })
        .collect();
    let bytes = body(1, 300_000);
    let mut filling = lead(&worker, b"long", None).begin(b"head", None, None, fresh()).unwrap();
    append(&mut filling, &bytes);
    let filling = *filling.try_finish().expect_err("all segments that could be freed are pinned");
    assert!(get(&worker, b"long").is_none());
    // A worker that is asked to revoke its handles does so in its next turn.
    while other.turn(NOW, |_| ()) {}
    drop(lent);
    assert!(filling.try_finish().expect("there is room"), "the body is stored");
    assert_eq!(get(&worker, b"long"), Some((b"head".to_vec(), bytes)));
    assert_sound(&store);
}
