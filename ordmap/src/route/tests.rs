//! Bounds as written, and as hostile words may present them.

use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::boxed_words;

use super::{BOUND_BYTES_MAX, KeyRange, ROUTE_ROW_WORDS, RouteRow, RouteTable};
use crate::object::ObjectReadError;

fn row(slot: usize, bound: &[u8]) -> RouteRow {
    RouteRow { slot, stamp: slot as u64 * 10, bound: bound.to_vec() }
}

#[test]
fn a_key_is_in_the_shard_whose_bounds_it_lies_between() {
    let (word, rows) = (AtomicU64::new(0), boxed_words(3 * 2 * ROUTE_ROW_WORDS));
    let routes = RouteTable::new(&word, &rows);
    assert_eq!(routes.find(b"anything").unwrap().1, 0);
    assert_eq!(routes.range_of(2).unwrap().high, Some(Vec::new()), "the shard has no keys yet");
    let long = vec![b'm'; BOUND_BYTES_MAX];
    let bounds = [row(2, b"b"), row(3, &long), row(1, b"x\0")];
    routes.publish(routes.now().unwrap(), &bounds);
    let cases: [(&[u8], usize); 9] = [
        (b"", 0),
        (b"a\xff", 0),
        (b"b", 2),
        (b"b\0", 2),
        (&long[1..], 2),
        (&long, 3),
        (b"x", 3),
        (b"x\0", 1),
        (b"\xff", 1),
    ];
    for (key, slot) in cases {
        let (version, found) = routes.find(key).unwrap();
        assert_eq!(found, slot, "{key:?}");
        let position = routes.position(version, key);
        for other in 0..4 {
            assert_eq!(routes.has(version, other, key), other == position, "{key:?} {other}");
        }
        for slot in 0..4 {
            assert_eq!(routes.range_of(slot).unwrap().has(key), slot == found, "{key:?} {slot}");
        }
    }
    assert_eq!(routes.rows().unwrap().1, bounds);
    let expected =
        KeyRange { low: Some(b"b".to_vec()), high: Some(long), low_stamp: 20, high_stamp: 30 };
    assert_eq!(routes.range_of(2).unwrap(), expected);
}

#[test]
fn rows_that_cannot_be_are_damage() {
    let (word, rows) = (AtomicU64::new(0), boxed_words(2 * 2 * ROUTE_ROW_WORDS));
    let routes = RouteTable::new(&word, &rows);
    let cases: [&[RouteRow]; 5] = [
        &[row(3, b"b")],
        &[row(0, b"b")],
        &[row(1, b"b"), row(1, b"c")],
        &[row(1, b"c"), row(2, b"b")],
        &[row(1, b"")],
    ];
    for rows in cases {
        routes.publish(routes.now().unwrap(), rows);
        assert!(matches!(routes.rows(), Err(ObjectReadError::Damaged(_))), "{rows:?}");
        assert!(routes.range_of(0).is_err());
    }
    word.store(3, Relaxed);
    assert!(routes.find(b"key").is_err(), "the route word counts more rows than a copy can have");
}
