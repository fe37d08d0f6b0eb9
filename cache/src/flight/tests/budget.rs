//! Tests that flights never hold more bytes than their limit, while bodies grow, become windows,
//! and wait for slow readers.

use super::fragment::{body_cost, fragment_cost};
use super::*;

#[test]
fn mixed_sizes_never_exceed_the_budget() {
    let mut rng = Rng::from_environment("mixed sizes");
    let flights = new_flights(config());
    let mut growing: Vec<(BodyWriter, BodyReader)> = Vec::new();
    // Some clients are slow. The bytes that they hold have left their flight, but not the budget.
    let mut held: Vec<Bytes> = Vec::new();
    for round in 0..20_000_u64 {
        if rng.below(4) == 0 && growing.len() < 16 {
            let (lead, follower) = take_lead(&flights, &round.to_le_bytes(), None);
            let length = (rng.below(2) == 0).then(|| rng.size(140_000));
            if let Ok(writer) = lead.begin(b"head", None, length) {
                growing.push((writer, reader(follower)));
            }
        }
        if growing.is_empty() {
            continue;
        }
        let index = rng.below(growing.len() as u64) as usize;
        let (writer, reader) = &mut growing[index];
        let mut cx = Context::from_waker(Waker::noop());
        if writer.poll_room(&mut cx, 0).is_ready() {
            let _ = writer.append(&content(round, rng.below(16_000) as usize));
        }
        if rng.below(2) == 0 {
            let _ = reader.poll_fragments(&mut cx, rng.size(20_000), &mut held);
        }
        match rng.below(40) {
            0 => drop(growing.swap_remove(index)),
            1 => growing.swap_remove(index).0.finish(None),
            2..8 => held.clear(),
            _ => {}
        }
        check(&flights);
    }
    let stats = flights.stats();
    assert!(stats.refused_no_room > 100 && stats.outgrown > 100, "{stats:?}");
    drop((growing, held));
    check_at_rest(&flights);
}

#[test]
fn read_bytes_stay_charged_until_the_last_clone_is_dropped() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let (mut reader, mut lent) = (reader(follower), Vec::new());
    writer.append(&content(1, 50_000)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(reader.poll_fragments(&mut cx, 1, &mut lent).is_ready());
    writer.finish(None);
    drop(reader);
    assert_eq!(flights.stats().growing_bytes, fragment_cost(50_000));
    lent.clear();
    check_at_rest(&flights);
}

#[test]
fn a_body_that_has_ended_is_held_only_as_far_as_it_is_not_read() {
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let mut readers = [first, follow(&flights, b"a")].map(reader);
    (0..5).for_each(|_| writer.append(&content(1, 10_000)).unwrap());
    writer.finish(None);
    let (full, mut out) = (flights.stats().growing_bytes, Vec::new());
    let mut cx = Context::from_waker(Waker::noop());
    for reader in &mut readers {
        assert!(flights.stats().growing_bytes == full, "another reader needs the fragments");
        assert!(reader.poll_fragments(&mut cx, 30_000, &mut out).is_ready());
        out.clear();
    }
    assert_eq!(flights.stats().growing_bytes, full - 3 * fragment_cost(10_000));
    let rest = readers.map(|mut reader| read_now(&mut reader).0.len());
    assert_eq!(rest, [20_000; 2]);
    check_at_rest(&flights);
}

#[test]
fn without_room_nothing_grows_and_nothing_fails() {
    let flights = new_flights(config());
    let mut growths = Vec::new();
    for i in 0..200_u64 {
        let (lead, follower) = take_lead(&flights, &i.to_le_bytes(), None);
        let Ok(mut writer) = lead.begin(b"", None, None) else {
            continue;
        };
        let mut reader = reader(follower);
        writer.append(&content(i, 8000)).unwrap();
        check(&flights);
        assert_eq!(read_now(&mut reader).0, content(i, 8000), "{i}");
        growths.push((writer, reader));
    }
    let (stats, storing) =
        (flights.stats(), growths.iter().filter(|(g, _)| g.is_storing()).count());
    assert!((20..40).contains(&storing), "{storing} grow, {stats:?}");
    assert_eq!(stats.outgrown, growths.len() as u64 - storing as u64, "{stats:?}");
    assert!(stats.refused_no_room > 100, "{stats:?}");
    drop(growths);
    check_at_rest(&flights);
}

/// Takes the rest of the budget in bodies of one piece, which are held for followers that read
/// nothing.
fn take_rest(flights: &Arc<Flights>) -> Vec<(BodyWriter, Follower)> {
    let mut held = Vec::new();
    for bytes in [30_000, 1000, 1] {
        for number in 0.. {
            let (lead, follower) =
                take_lead(flights, format!("{number} of {bytes}").as_bytes(), None);
            let Ok(mut writer) = lead.begin(b"", None, None) else { break };
            writer.append(&content(1, bytes)).unwrap();
            if !writer.is_storing() {
                break;
            }
            held.push((writer, follower));
        }
    }
    held
}

/// Checks that a body of known length arrives whole, whatever the size of its pieces, although
/// other bodies take the rest of the budget.
#[test]
fn a_promise_is_kept() {
    for (bytes, step) in
        [(20_000, 20_000), (20_000, 1), (20_000, 1460), (3000, 1460), (100, 100), (0, 1)]
    {
        let flights = new_flights(config());
        let (lead, _follower) = take_lead(&flights, b"a", None);
        let mut promised = lead.begin(b"", None, Some(bytes as u64)).unwrap();
        let expected = fragment_cost(0) + body_cost(bytes as u64);
        assert_eq!(flights.stats().growing_bytes, expected);
        let others = take_rest(&flights);
        let left = config().growing_bytes_max - flights.stats().growing_bytes;
        assert!(left < 2 * fragment_cost(1), "{left} bytes are left");
        content(1, bytes).chunks(step).for_each(|part| promised.append(part).unwrap());
        assert!(promised.is_storing() && promised.is_complete(), "{bytes} by {step}");
        assert_eq!(body_of(&promised), content(1, bytes), "{bytes} by {step}");
        check(&flights);
        drop(others);
    }
}
