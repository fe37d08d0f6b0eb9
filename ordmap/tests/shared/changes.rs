//! Inserts, replacements and removals, with and without a condition.

use forebay_ordmap::{ExpectedState, MapError};

use crate::{map, own, region};

#[test]
fn a_stored_key_is_found_until_it_is_removed() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "changes");
    let key = |number: usize| format!("{own}{number}").into_bytes();
    for number in 0..500 {
        assert!(!map.insert(&key(number), &[1; 40]).unwrap(), "{number}");
    }
    for number in 0..500 {
        assert!(map.insert(&key(number), format!("{number}").as_bytes()).unwrap());
    }
    for number in 0..500 {
        let value = map.get(&key(number)).unwrap();
        assert_eq!(value, Some(format!("{number}").into_bytes()));
    }
    for number in 0..500 {
        assert!(map.remove(&key(number)).unwrap(), "{number}");
        assert!(!map.remove(&key(number)).unwrap(), "{number}");
        assert_eq!(map.get(&key(number)).unwrap(), None);
    }
    assert_eq!(map.prefix(own.as_bytes()).next().unwrap(), None);
}

#[test]
fn a_condition_decides_if_something_is_stored() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "conditions");
    let key = own.as_bytes();
    let insert = |expected, value: &[u8]| map.compare_and_insert(key, expected, value).unwrap();
    assert!(
        !insert(ExpectedState::Value(b""), b"one"),
        "a missing key has no value, not an empty one"
    );
    assert!(insert(ExpectedState::Absent, b"one"));
    assert!(!insert(ExpectedState::Absent, b"two"));
    assert!(!insert(ExpectedState::Value(b"on"), b"two"));
    assert!(!insert(ExpectedState::Value(b"onee"), b"two"));
    assert!(insert(ExpectedState::Value(b"one"), b"two"));
    let held = map.entry(key).unwrap().unwrap();
    // The same value again is another entry.
    assert!(insert(ExpectedState::Value(b"two"), b"two"));
    assert!(!insert(ExpectedState::Entry(&held), b"three"));
    let held = map.entry(key).unwrap().unwrap();
    assert!(insert(ExpectedState::Entry(&held), b"three"));
    assert!(!map.compare_and_remove(key, ExpectedState::Entry(&held)).unwrap());
    assert!(!map.compare_and_remove(key, ExpectedState::Value(b"two")).unwrap());
    assert!(!map.compare_and_remove(key, ExpectedState::Absent).unwrap());
    assert!(map.compare_and_remove(key, ExpectedState::Value(b"three")).unwrap());
    assert_eq!(map.get(key).unwrap(), None);
    assert!(!map.compare_and_remove(key, ExpectedState::Value(b"three")).unwrap());
}

#[test]
fn keys_and_values_have_limits() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "limits");
    let key = |bytes: usize| {
        let mut key = own.clone().into_bytes();
        key.resize(bytes, b'k');
        key
    };
    assert_eq!(map.insert(&key(8193), b""), Err(MapError::KeyTooLong));
    assert_eq!(map.insert(&key(50), &vec![0; (1 << 20) + 1]), Err(MapError::ValueTooLong));
    assert_eq!(map.get(&key(8193)).unwrap(), None, "it can be looked up");
    let short = (1 << 18) - 1;
    let lengths =
        [(8192, 0), (8192, 1 << 20), (50, 20_000), (51, 0), (8192, short), (60, short + 1)];
    for (key_bytes, value_bytes) in lengths {
        let (key, value) = (key(key_bytes), vec![key_bytes as u8; value_bytes]);
        map.insert(&key, &value).unwrap();
        assert_eq!(map.get(&key).unwrap().as_ref(), Some(&value), "{key_bytes} {value_bytes}");
        let entry = map.entry(&key).unwrap().unwrap();
        assert_eq!((entry.key(), entry.value()), (&key[..], &value[..]));
        assert!(entry.value().as_ptr().addr().is_multiple_of(8));
        assert!(map.remove(&key).unwrap());
    }
}
