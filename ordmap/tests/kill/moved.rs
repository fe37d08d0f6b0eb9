//! A process dies while it moves entries into another shard: until the repair the map has the same
//! contents as before.

use std::path::Path;

use forebay_ordmap::Map;

use crate::scene::{KEYS, Scene, key_of, value_of};
use forebay_testkit::process::Actor;

/// The crash points. At `NAME:N` the process dies when it reaches the point the N-th time; without
/// a number, the first time.
const POINTS: &[&str] = &[
    "move.begun",
    "move.announced",
    "move.armed",
    "move.copied:7",
    "move.copied:45",
    "object.taken:60",
    "move.written",
    "move.written:2",
    "move.published",
    "move.published:2",
    "move.counted",
    "move.counted:4",
    "move.trimmed",
    "move.trimmed:3",
    "change.published:60",
    "move.ending",
    "move.ending:2",
    "move.settled",
    "move.settled:2",
];

/// The moves that the process repeats until it reaches the point.
const WAYS: &[&str] = &["split", "up", "down"];

/// Moves entries until it is killed.
pub(crate) fn move_on(map: &Map<'_>) {
    let way = std::env::var("FOREBAY_WAY").unwrap();
    let (low, high) = (sorted(0), sorted(KEYS - 1));
    loop {
        let moved = match &*way {
            "split" => map.split_at(&high).and_then(|_| map.move_up(&low)),
            "up" => map.move_up(&low),
            _ => map.move_down(&high),
        };
        moved.unwrap();
    }
}

/// The key with this number in the order of keys.
fn sorted(number: usize) -> Vec<u8> {
    let mut keys: Vec<_> = (0..KEYS).map(|key| key_of(0, key)).collect();
    keys.sort();
    keys.swap_remove(number)
}

/// Checks that every kind of read finds all keys and no others.
fn check(map: &Map<'_>, case: &str) {
    let mut pairs: Vec<_> =
        (0..KEYS).map(|key| (key_of(0, key), value_of(0, key, 1).unwrap())).collect();
    pairs.sort();
    assert_eq!(map.len(), KEYS as u64, "{case}");
    for (key, value) in &pairs {
        assert_eq!(map.get(key).unwrap().as_ref(), Some(value), "{case}: {key:?}");
    }
    for is_up in [true, false] {
        let (mut scan, mut range) = (map.scan(..), map.range(..));
        let mut expected: Vec<_> = pairs.iter().collect();
        if !is_up {
            expected.reverse();
        }
        for (key, value) in expected {
            let copied = if is_up { scan.next() } else { scan.previous() };
            assert_eq!(copied.unwrap(), Some((&key[..], &value[..])), "{case}");
            let held = if is_up { range.next() } else { range.previous() };
            assert_eq!(held.unwrap().map(|entry| entry.key()), Some(&key[..]), "{case}");
        }
        let copied = if is_up { scan.next() } else { scan.previous() };
        assert_eq!(copied.unwrap(), None, "{case}");
    }
    for (number, (key, _)) in pairs.iter().enumerate() {
        let next = map.scan(&key[..]..).next().unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(next.as_ref(), Some(key), "{case}");
        let before = map.scan(..&key[..]).previous().unwrap().map(|(key, _)| key.to_vec());
        let expected = number.checked_sub(1).map(|before| pairs[before].0.clone());
        assert_eq!(before, expected, "{case}: {number}");
    }
    for (low, high) in (0..KEYS - 60).step_by(20).map(|low| (low, low + 59)) {
        let estimate = map.estimate(&pairs[low].0[..]..&pairs[high].0[..]).unwrap();
        assert_eq!(estimate, 59, "{case}: {low}");
    }
}

fn die_at(dir: &Path, way: &str, point: &str) {
    let case = format!("{way} {point}");
    let scene = Scene::open(dir);
    let participant = scene.region.join().unwrap();
    let map = scene.map(&participant);
    for key in 0..KEYS {
        map.insert(&key_of(0, key), &value_of(0, key, 1).unwrap()).unwrap();
    }
    if way != "split" {
        // There are entries for some moves on both sides.
        map.split_at(&sorted(KEYS - 1)).unwrap();
        (0..4).for_each(|_| assert!(map.move_up(&sorted(0)).unwrap() > 0));
    }
    let environment = [("FOREBAY_WAY", way), ("FOREBAY_CRASH_AT", point)];
    Actor::start_with("move", dir, &environment).end_killed();
    check(&map, &case);
    // Others repair the map.
    for key in 0..KEYS {
        assert!(map.insert(&key_of(0, key), &value_of(0, key, 1).unwrap()).unwrap(), "{case}");
    }
    check(&map, &case);
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{case}: {report}");
    assert_eq!(report.entries, KEYS as u64, "{case}");
}

#[test]
fn a_move_that_is_cut_off_changes_nothing_that_is_seen() {
    if !cfg!(debug_assertions) {
        return;
    }
    for way in WAYS {
        for point in POINTS {
            let dir = tempfile::tempdir().unwrap();
            die_at(dir.path(), way, point);
        }
    }
}
