//! Ranges, prefixes and cursors, up and down.

use forebay_ordmap::key::{join, join_prefix};
use forebay_ordmap::{MapOptions, OrdConfig, OrdRegion};

use crate::{map, own, region, split_or_move};

#[test]
fn ranges_go_up_and_down_between_their_ends() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "ranges");
    let key = |number: u32| format!("{own}{number:05}").into_bytes();
    for number in 0..1000 {
        map.insert(&key(number * 2), &number.to_le_bytes()).unwrap();
    }
    let cases = [(0, 2000), (1, 3), (3, 3), (100, 400), (101, 399), (1998, 1999), (500, 100)];
    for (low, high) in cases {
        let (low_key, high_key) = (key(low), key(high));
        split_or_move(&map, &low_key);
        let expected: Vec<u32> = (low..high.max(low)).filter(|number| number % 2 == 0).collect();
        for is_up in [true, false] {
            let mut range = map.range(&low_key[..]..&high_key[..]);
            let mut found = Vec::new();
            loop {
                let next = if is_up { range.next() } else { range.previous() };
                let Some(entry) = next.unwrap() else { break };
                found.push(u32::from_le_bytes(entry.value().try_into().unwrap()) * 2);
            }
            if !is_up {
                found.reverse();
            }
            assert_eq!(found, expected, "{low}..{high}, up {is_up}");
            let again = range.next().unwrap();
            assert_eq!(again, None, "the range is over");
        }
    }
    let mut inclusive = map.range(&key(4)[..]..=&key(6)[..]);
    assert_eq!(inclusive.next().unwrap().unwrap().key(), key(4));
    assert_eq!(inclusive.next().unwrap().unwrap().key(), key(6));
    assert_eq!(inclusive.next().unwrap(), None);
    for number in 0..1000 {
        assert!(map.remove(&key(number * 2)).unwrap());
    }
}

#[test]
fn parts_of_keys_are_found_by_their_prefix() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "parts");
    let tags = ["news", "news2", "sports"];
    let key = |tag: &str, number: u32| {
        join(&[own.as_bytes(), tag.as_bytes(), format!("{number:04}").as_bytes()]).unwrap()
    };
    for tag in tags {
        for number in 0..90 {
            map.insert(&key(tag, number), tag.as_bytes()).unwrap();
        }
    }
    for tag in tags {
        let prefix = join_prefix(&[own.as_bytes(), tag.as_bytes()]).unwrap();
        let mut range = map.prefix(&prefix);
        for number in 0..90 {
            assert_eq!(range.next().unwrap().unwrap().key(), key(tag, number));
        }
        assert_eq!(range.next().unwrap(), None);
        let mut range = map.prefix(&prefix);
        assert_eq!(range.previous().unwrap().unwrap().key(), key(tag, 89));
        for number in 0..90 {
            assert!(map.remove(&key(tag, number)).unwrap());
        }
    }
}

#[test]
fn a_cursor_goes_on_from_what_it_holds() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "cursors");
    let key = |number: u32| format!("{own}{number:05}").into_bytes();
    for number in 0..200 {
        map.insert(&key(number), b"").unwrap();
    }
    let mut cursor = map.cursor();
    assert_eq!(cursor.at_or_above(&key(50)).unwrap().unwrap().key(), key(50));
    split_or_move(&map, &key(50));
    // The entry that the cursor holds is removed, and so are its neighbours.
    for number in 40..60 {
        map.remove(&key(number)).unwrap();
    }
    assert_eq!(cursor.entry().unwrap().key(), key(50));
    assert_eq!(cursor.next().unwrap().unwrap().key(), key(60));
    split_or_move(&map, &key(60));
    assert_eq!(cursor.previous().unwrap().unwrap().key(), key(39));
    map.insert(&key(50), b"again").unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().value(), b"again");
    let held = cursor.into_entry().unwrap();
    for number in 0..200 {
        map.remove(&key(number)).unwrap();
    }
    assert_eq!(held.key(), key(50));
}

/// Entries of other processes may come behind the last one, so this test has a region of its own.
#[test]
fn a_cursor_at_the_last_entry_finds_what_comes_behind_it() {
    let region = OrdRegion::anonymous(&OrdConfig::with_bytes(8 << 20)).unwrap();
    let participant = region.join().unwrap();
    let map = participant.map("append", &MapOptions::default()).unwrap();
    let key = |number: u32| format!("{number:05}").into_bytes();
    // Leaves and the nodes above them are full at some of these numbers.
    for number in 0..2_000 {
        map.insert(&key(2 * number), b"").unwrap();
        let mut cursor = map.cursor();
        assert_eq!(cursor.last().unwrap().unwrap().key(), key(2 * number));
        map.insert(&key(2 * number + 1), b"").unwrap();
        let next = cursor.next().unwrap().map(|entry| entry.key().to_vec());
        assert_eq!(next, Some(key(2 * number + 1)));
    }
}
