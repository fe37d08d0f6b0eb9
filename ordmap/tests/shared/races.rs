//! Races between a lookup and the use of its result, which would break a plain map, do not break
//! this map.

use std::thread;

use forebay_testkit::StopFlag;

use crate::{map, own, region};

/// The number of changes in each race.
const ROUNDS: u32 = if cfg!(debug_assertions) { 3000 } else { 20_000 };

/// The largest number of steps of a reader: a hundred times its lookups during the changes.
const STEPS_MAX: u64 = 1_500 * ROUNDS as u64;

/// An entry that is removed between lookup and use is whole, and has the right key.
#[test]
fn a_removed_entry_can_still_be_read() {
    let (region, own) = (region(), own());
    let stop = StopFlag::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = stop.guard();
            let participant = region.join().unwrap();
            let map = map(&participant, "found and gone");
            for round in 0..ROUNDS {
                let value = vec![round as u8; 20 + (round % 90) as usize];
                map.insert(own.as_bytes(), &value).unwrap();
                if round % 3 == 0 {
                    map.remove(own.as_bytes()).unwrap();
                }
            }
        });
        let participant = region.join().unwrap();
        let map = map(&participant, "found and gone");
        for _ in stop.steps(STEPS_MAX) {
            let Some(entry) = map.entry(own.as_bytes()).unwrap() else { continue };
            let value = map.get(own.as_bytes()).unwrap().unwrap_or_default();
            assert_eq!(entry.key(), own.as_bytes());
            for value in [entry.value(), &value] {
                assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
            }
        }
        map.remove(own.as_bytes()).unwrap();
    });
}

/// An end that moves between comparison and use: the cursor has the entry that it compared.
#[test]
fn an_end_that_moves_is_seen_as_it_was_or_as_it_is() {
    let (region, own) = (region(), own());
    let stop = StopFlag::default();
    let key = |number: u32| format!("{own}{number:08}").into_bytes();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = stop.guard();
            let participant = region.join().unwrap();
            let map = map(&participant, "moving end");
            map.insert(&key(0), b"").unwrap();
            // There are always one or two entries, and the last one moves up.
            for round in 0..ROUNDS {
                map.insert(&key(round + 1), b"").unwrap();
                map.remove(&key(round)).unwrap();
            }
        });
        let participant = region.join().unwrap();
        let map = map(&participant, "moving end");
        let mut last_seen = None;
        for _ in stop.steps(STEPS_MAX) {
            let mut range = map.prefix(own.as_bytes());
            let mut seen = 0;
            while let Some(entry) = range.next().unwrap() {
                let number = std::str::from_utf8(&entry.key()[own.len()..]).unwrap();
                let number: u32 = number.parse().unwrap();
                // The previous entry may still be there when the walk starts again.
                assert!(last_seen.is_none_or(|last| number + 1 >= last), "it went back");
                last_seen = Some(number);
                seen += 1;
            }
            assert!(seen > 0 || last_seen.is_none(), "there was something all the time");
        }
        assert_eq!(map.prefix(own.as_bytes()).next().unwrap().unwrap().key(), key(ROUNDS));
        map.remove(&key(ROUNDS)).unwrap();
    });
}

/// Every second key stays, all others come and go: a walk meets all keys that stay, in order, each
/// once.
#[test]
fn a_walk_among_changes_misses_no_key_that_stays() {
    let (region, own) = (region(), own());
    let stop = StopFlag::default();
    let key = |number: u32| format!("{own}{number:05}").into_bytes();
    const KEYS: u32 = 400;
    {
        let participant = region.join().unwrap();
        let map = map(&participant, "walking");
        (0..KEYS).step_by(2).for_each(|number| _ = map.insert(&key(number), b"stays").unwrap());
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = stop.guard();
            let participant = region.join().unwrap();
            let map = map(&participant, "walking");
            let mut random = forebay_testkit::Rng::of("who_walks_among_changes");
            for _ in 0..ROUNDS {
                let number = random.below(KEYS as usize) as u32;
                match number % 2 {
                    0 => _ = map.insert(&key(number), b"stays").unwrap(),
                    _ if random.below(2) == 0 => _ = map.insert(&key(number), b"goes").unwrap(),
                    _ => _ = map.remove(&key(number)).unwrap(),
                }
            }
        });
        let participant = region.join().unwrap();
        let map = map(&participant, "walking");
        for (step, is_up) in [true, false].into_iter().cycle().enumerate() {
            assert!(step < STEPS_MAX as usize, "not told to stop within {STEPS_MAX} steps");
            let mut range = map.prefix(own.as_bytes());
            let (mut staying, mut last) = (0, Vec::new());
            while let Some(entry) = if is_up { range.next() } else { range.previous() }.unwrap() {
                let is_next = last.is_empty() || (entry.key() > &last[..]) == is_up;
                assert!(is_next && entry.key() != last, "{entry:?} after {last:?}");
                staying += u32::from(entry.value() == b"stays");
                last = entry.key().to_vec();
            }
            assert_eq!(staying, KEYS / 2, "up {is_up}");
            let mut scan = map.scan_prefix(own.as_bytes());
            let (mut staying, mut last) = (0, Vec::new());
            while let Some((key, value)) =
                if is_up { scan.next() } else { scan.previous() }.unwrap()
            {
                let is_next = last.is_empty() || (key > &last[..]) == is_up;
                assert!(is_next && key != last, "{key:?} after {last:?}");
                assert!([&b"stays"[..], b"goes"].contains(&value), "{value:?}");
                staying += u32::from(value == b"stays");
                last = key.to_vec();
            }
            assert_eq!(staying, KEYS / 2, "copied, up {is_up}");
            if stop.is_raised() {
                break;
            }
        }
        (0..KEYS).for_each(|number| _ = map.remove(&key(number)).unwrap());
    });
}

/// Threads increment one number by compare and store: no increment is lost.
#[test]
fn nothing_is_lost_between_comparing_and_storing() {
    use forebay_ordmap::ExpectedState;
    let (region, own) = (region(), own());
    const ADDED: u64 = 300;
    thread::scope(|scope| {
        for thread in 0..3 {
            let (region, own) = (&region, &own);
            scope.spawn(move || {
                let participant = region.join().unwrap();
                let map = map(&participant, "adding");
                for _ in 0..ADDED {
                    loop {
                        let held = map.entry(own.as_bytes()).unwrap();
                        let number = held.as_ref().map_or(0, |entry| {
                            u64::from_le_bytes(entry.value().try_into().unwrap())
                        });
                        let expected = match &held {
                            None => ExpectedState::Absent,
                            Some(entry) if thread == 0 => ExpectedState::Value(entry.value()),
                            Some(entry) => ExpectedState::Entry(entry),
                        };
                        let next = (number + 1).to_le_bytes();
                        if map.compare_and_insert(own.as_bytes(), expected, &next).unwrap() {
                            break;
                        }
                    }
                }
            });
        }
    });
    let participant = region.join().unwrap();
    let map = map(&participant, "adding");
    let sum = map.get(own.as_bytes()).unwrap().unwrap();
    assert_eq!(sum, (3 * ADDED).to_le_bytes());
    map.remove(own.as_bytes()).unwrap();
}
