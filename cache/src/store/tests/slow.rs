//! Readers whose clients make them wait: what is held for them, and where they go on.

use super::basics::body;
use super::*;
use crate::{Follower, Outcome, ReadEvent, Reader};

/// Long enough for several fragments, and for one record.
const LENGTHS: [(usize, bool); 2] = [(300_000, true), (20_000, false)];

fn follow(worker: &StoreWorker) -> Follower {
    match worker.collapse(b"key", None, None, 0) {
        Join::Follower(follower) => follower,
        other => panic!("{other:?}"),
    }
}

fn reader(mut follower: Follower) -> Reader {
    let mut cx = Context::from_waker(Waker::noop());
    match follower.poll_outcome(&mut cx) {
        Poll::Ready(Outcome::Growing(reader)) => reader,
        other => panic!("{other:?}"),
    }
}

/// What comes next, at most so much of it.
fn read(reader: &mut Reader, bytes_max: u64) -> (ReadEvent, Vec<u8>) {
    let mut fragments = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    match reader.poll_fragments(&mut cx, bytes_max, &mut fragments) {
        Poll::Ready(event) => (event, fragments.concat()),
        Poll::Pending => panic!("it waits"),
    }
}

/// What is stored of a body from there on.
fn stored(worker: &StoreWorker, event: ReadEvent) -> Vec<u8> {
    let ReadEvent::Stored { long, offset } = event else {
        panic!("{event:?}");
    };
    let part = offset..long.bytes();
    let mut body = Vec::new();
    for number in long.fragments(part.clone()) {
        let lent = worker.lend_fragment(&long, number, long.part_of(number, &part), 0);
        let lent = lent.expect("it is there");
        body.extend_from_slice(lent.bytes(&worker.reading()).expect("it is there"));
    }
    body
}

#[test]
fn who_steps_aside_holds_nothing_that_is_stored_and_reads_on_in_the_store() {
    for (bytes, is_long) in LENGTHS {
        let (store, worker) = open(32 << 20);
        let body = body(1, bytes);
        let Join::Leader(leader, first) = worker.collapse(b"key", None, None, 0) else {
            unreachable!("nobody else fetches");
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
        assert_eq!(read(&mut back, 1000).1, body[1000..2000], "until it is stored all is held");
        assert!(filling.finish(), "{bytes}");

        assert!(store.stats().growing_bytes > bytes as u64, "two have still to read it");
        assert_eq!(read(&mut here, u64::MAX), (ReadEvent::Data, body.clone()));
        assert_eq!(read(&mut here, 1), (ReadEvent::Done, Vec::new()));
        later.step_aside();
        assert_eq!(read(&mut back, u64::MAX).1, body[2000..], "{bytes}");
        let held = store.stats().growing_bytes;
        assert_eq!(held < bytes as u64, is_long, "{bytes}: {held} held for who stepped aside");
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
fn pieces_that_are_wanted_are_copied_or_lost_and_what_is_used_stays() {
    let (store, worker) = open(16 << 20);
    assert!(put(&worker, b"used", b"head", &body(0, 1000)));
    let lent: Vec<_> = (0..600_usize)
        .map(|number| {
            let key = format!("lent{number}");
            assert!(put(&worker, key.as_bytes(), b"head", &body(number, 20_000)), "{key}");
            get(&worker, b"used").expect("it is used");
            let Lookup::Record(found) = worker.lookup(key.as_bytes()) else {
                panic!("{key} is not there");
            };
            found.lend(0..20_000, number as u64)
        })
        .collect();
    let mut told = Vec::new();
    for number in 0..600_usize {
        let key = format!("more{number}");
        assert!(put(&worker, key.as_bytes(), b"head", &body(number, 20_000)), "{key}");
        get(&worker, b"used").expect("it is used");
        while worker.turn(NOW, |tag| told.push(tag)) {}
    }
    let lost: Vec<_> = (0..600).filter(|number| lent[*number as usize].is_lost()).collect();
    told.sort_unstable();
    assert_eq!(told, lost, "all are told of, once");
    let stats = store.stats();
    assert!(stats.copied_out > 0 && stats.lent_lost as usize == lost.len(), "{stats:?}");
    assert!(stats.copied_bytes <= config(16 << 20).copied_out_bytes_max(), "{stats:?}");
    assert!(stats.pinned_bytes < stats.budget_bytes / 4, "{stats:?}");
    for (number, lent) in lent.iter().enumerate() {
        let reading = worker.reading();
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
            panic!("it is stored");
        };
        [found.lend(0..10_000, 1), found.lend(10_000..20_000, 1)]
    };
    for number in 0..4000_usize {
        assert!(put(&worker, format!("more{number}").as_bytes(), b"head", &body(number, 20_000)));
        while worker.turn(NOW, |tag| panic!("{tag} lost its piece")) {}
    }
    assert_eq!(store.stats().copied_out, 0, "its segment was never chosen");
    drop(lent);
    assert_eq!(store.stats().pinned_bytes, 0);
    assert_sound(&store);
}
