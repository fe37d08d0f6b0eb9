//! Estimates of the entries in a range, against exact counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/keys.rs"]
mod keys;

use std::collections::BTreeSet;
use std::ops::Bound;

use forebay_ordmap::{Map, MapOptions, OrdConfig, OrdRegion};
use forebay_testkit::Rng;
use keys::Keys;

/// Up to this number of entries the estimate is exact.
const EXACT: usize = 100;

/// How a map was filled.
#[derive(Clone, Copy, Debug)]
enum History {
    InOrder,
    AnyOrder,
    /// Inserted in any order; then most of one half is removed.
    HalfRemoved,
}

fn number_key(number: usize) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn fill(map: &Map<'_>, history: History, random: &mut Rng) -> BTreeSet<Vec<u8>> {
    const COUNT: usize = 30_000;
    let mut keys = BTreeSet::new();
    for number in 0..COUNT {
        let number = match history {
            History::InOrder => number,
            History::AnyOrder | History::HalfRemoved => random.below(4 * COUNT),
        };
        map.insert(&number_key(number), b"").unwrap();
        keys.insert(number_key(number));
    }
    if let History::HalfRemoved = history {
        for number in (0..2 * COUNT).filter(|_| random.below(8) > 0).collect::<Vec<_>>() {
            map.remove(&number_key(number)).unwrap();
            keys.remove(&number_key(number));
        }
    }
    keys
}

/// Whether the estimate is off by a quarter at most. It is never off by more than a half.
fn check(map: &Map<'_>, keys: &BTreeSet<Vec<u8>>, low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    let inside = |key: &[u8]| {
        let is_above = match low {
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
            Bound::Unbounded => true,
        };
        let is_below = match high {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        };
        is_above && is_below
    };
    let count = keys.iter().filter(|key| inside(key)).count();
    let estimate = map.estimate((low, high)).unwrap() as usize;
    let error = estimate.abs_diff(count);
    let error_max = if count <= EXACT { 0 } else { count / 2 };
    assert!(error <= error_max, "{estimate} for {count}, {low:?} {high:?}");
    error <= count / 4
}

/// Ranges of all widths, with all kinds of ends.
fn check_ranges(
    map: &Map<'_>,
    keys: &BTreeSet<Vec<u8>>,
    random: &mut Rng,
    any: &dyn Fn(&mut Rng) -> Vec<u8>,
) {
    assert!(check(map, keys, Bound::Unbounded, Bound::Unbounded), "of all");
    let mut far = 0;
    for _ in 0..60 {
        let (one, other) = (any(random), any(random));
        let bound = |random: &mut Rng, key| match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        far += u32::from(!check(map, keys, bound(random, &one[..]), bound(random, &other[..])));
    }
    assert!(far <= 6, "{far} of 60 are off by more than a quarter");
}

#[test]
fn an_estimate_is_exact_for_few_and_near_for_many() {
    let mut random = Rng::of("an_estimate_is_exact_for_few");
    let region = OrdRegion::anonymous(&OrdConfig::with_bytes(32 << 20)).unwrap();
    let participant = region.join().unwrap();
    for history in [History::InOrder, History::AnyOrder, History::HalfRemoved] {
        let map = participant.map(&format!("{history:?}"), &MapOptions::default()).unwrap();
        assert!(check(&map, &BTreeSet::new(), Bound::Unbounded, Bound::Included(b"nothing")));
        println!("{history:?}");
        let keys = fill(&map, history, &mut random);
        let any = |random: &mut Rng| number_key(random.below(120_000));
        check_ranges(&map, &keys, &mut random, &any);
        let near = random.below(100_000);
        let close = |random: &mut Rng| number_key(near + random.below(800));
        check_ranges(&map, &keys, &mut random, &close);
    }
}

#[test]
fn an_estimate_goes_by_keys_of_all_kinds() {
    let mut random = Rng::of("an_estimate_goes_by_keys");
    let region = OrdRegion::anonymous(&OrdConfig::with_bytes(32 << 20)).unwrap();
    let participant = region.join().unwrap();
    for kind in Keys::ALL {
        let map = participant.map(&format!("{kind:?}"), &MapOptions::default()).unwrap();
        println!("{kind:?}");
        let mut keys = BTreeSet::new();
        for _ in 0..4000 {
            let key = kind.any(&mut random);
            map.insert(&key, b"").unwrap();
            keys.insert(key);
        }
        check_ranges(&map, &keys, &mut random, &|random| kind.any(random));
    }
}
