//! Held entries stay readable.

use forebay_ordmap::MapError;

use crate::{map, own, region};

#[test]
fn an_entry_that_is_held_stays_whatever_becomes_of_its_key() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "held");
    let key = own.as_bytes();
    map.insert(key, b"first").unwrap();
    let first = map.entry(key).unwrap().unwrap();
    map.insert(key, b"second").unwrap();
    let second = map.entry(key).unwrap().unwrap();
    map.remove(key).unwrap();
    // Memory of this size is freed and used again, many times.
    for round in 0..300 {
        map.insert(key, format!("later{round}").as_bytes()).unwrap();
    }
    map.reclaim().unwrap();
    assert_eq!((first.key(), first.value()), (key, &b"first"[..]));
    assert_eq!((second.key(), second.value()), (key, &b"second"[..]));
    assert!(!first.is_same(&second) && second.is_same(&second));
    map.remove(key).unwrap();
}

#[test]
fn a_member_has_so_many_leases_and_gets_them_back() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "leases");
    map.insert(own.as_bytes(), b"value").unwrap();
    let leases = region.config().leases_max as usize;
    let hold = || map.entry(own.as_bytes()).map(Option::unwrap);
    let held: Vec<_> = (0..leases).map(|_| hold().unwrap()).collect();
    assert_eq!(hold().unwrap_err(), MapError::TooManyLeases);
    assert_eq!(map.first().unwrap_err(), MapError::TooManyLeases);
    assert_eq!(
        map.get(own.as_bytes()).unwrap().as_deref(),
        Some(&b"value"[..]),
        "`get` takes no lease"
    );
    let mut scan = map.scan_prefix(own.as_bytes());
    assert_eq!(
        scan.next().unwrap(),
        Some((own.as_bytes(), &b"value"[..])),
        "a scan takes no lease"
    );
    drop(held);
    for _ in 0..3 * leases {
        hold().unwrap();
    }
    map.remove(own.as_bytes()).unwrap();
}

#[test]
fn leases_of_forgotten_entries_end_with_their_participant() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let changing = map(&participant, "forgotten");
    changing.insert(own.as_bytes(), b"value").unwrap();
    for _ in 0..3 {
        let other = region.join().unwrap();
        let other_map = map(&other, "forgotten");
        let leases = region.config().leases_max as usize;
        for _ in 0..leases {
            std::mem::forget(other_map.entry(own.as_bytes()).unwrap());
        }
        assert_eq!(other_map.entry(own.as_bytes()), Err(MapError::TooManyLeases));
    }
    let third = region.join().unwrap();
    let third_map = map(&third, "forgotten");
    assert!(third_map.entry(own.as_bytes()).unwrap().is_some());
    changing.remove(own.as_bytes()).unwrap();
}

#[test]
fn a_waiting_count_stays_low_while_one_entry_is_held() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "waiting");
    map.insert(own.as_bytes(), b"held").unwrap();
    let held = map.entry(own.as_bytes()).unwrap().unwrap();
    // All leases of all participants, and a batch.
    let config = region.config();
    let limit = u64::from(config.participants_max * config.leases_max) + 64;
    for round in 0..2000_u32 {
        map.insert(own.as_bytes(), &round.to_le_bytes()).unwrap();
        let waiting = map.stats().waiting_count;
        assert!(waiting <= limit, "round {round}: {waiting} wait");
    }
    assert_eq!(held.value(), b"held");
    map.remove(own.as_bytes()).unwrap();
}
