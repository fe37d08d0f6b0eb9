//! Maps with a budget, and regions that are full.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_ordmap::{
    Map, MapError, MapOptions, MapParticipant, OrdConfig, OrdOpenError, OrdRegion,
};
use forebay_shm::{Opened, ReplacedWhy};
use forebay_testkit::Rng;

const BUDGET: u64 = 1 << 20;

/// Bytes of a hint table with room for every entry of the budget.
const HINT_BYTES: u64 = 256 << 10;

fn region(bytes: u64) -> OrdRegion {
    let sizes = OrdConfig::with_bytes(bytes);
    let config = OrdConfig { maps_max: 4, hint_bytes: HINT_BYTES, ..sizes };
    OrdRegion::anonymous(&config).unwrap()
}

fn map_with_budget<'m>(participant: &'m MapParticipant, name: &str) -> Map<'m> {
    map_with_front(participant, name, 0)
}

fn map_with_front<'m>(participant: &'m MapParticipant, name: &str, hint_bytes: u64) -> Map<'m> {
    let options = MapOptions { budget_bytes: Some(BUDGET), hint_bytes, ..MapOptions::default() };
    let map = participant.map(name, &options).unwrap();
    assert_eq!(map.stats().budget_bytes, BUDGET);
    map
}

fn key(number: usize) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}

fn assert_sound(participant: &MapParticipant, case: &str) {
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{case}: {report}");
}

#[test]
fn a_map_stays_in_its_budget_whatever_the_sizes() {
    let mut random = Rng::of("a_map_stays_in_its_budget");
    let region = region(16 << 20);
    let participant = region.join().unwrap();
    let map = map_with_front(&participant, "budget", HINT_BYTES);
    for step in 0..10_000 {
        let bytes = match (step / 2000, random.below(300)) {
            (1, _) => 2000 + random.below(3000),
            (3, 0) => 200_000,
            _ => random.below(200),
        };
        map.insert(&key(random.below(30_000)), &vec![1; bytes]).unwrap();
        let stats = map.stats();
        assert!(stats.used_bytes <= BUDGET, "step {step}: {stats:?}");
    }
    let stats = map.stats();
    assert!(stats.evicted_count > 500 && stats.len > 100, "{stats:?}");
    assert_sound(&participant, "in the end");
}

#[test]
fn used_entries_stay_and_unused_ones_are_evicted() {
    let region = region(16 << 20);
    let participant = region.join().unwrap();
    for (name, hint_bytes) in [("by the tree", 0), ("by the hash", HINT_BYTES)] {
        keeps_what_is_used(&map_with_front(&participant, name, hint_bytes));
        assert_sound(&participant, name);
    }
}

fn keeps_what_is_used(map: &Map<'_>) {
    // Like a cache: entries below 100 are read all the time, and stored again after an eviction.
    let missed = |from: usize| {
        let mut missed = 0;
        for number in from..from + 12_000 {
            map.insert(&key(number), &[1; 64]).unwrap();
            if map.get(&key(number % 100)).unwrap().is_none() {
                map.insert(&key(number % 100), b"used").unwrap();
                missed += 1;
            }
        }
        missed
    };
    // Nothing is marked until the map is full, so each entry may be evicted once.
    assert!(missed(1000) <= 200, "at first");
    assert_eq!(missed(20_000), 0, "used entries stay");
    let old = (1000..2000).filter(|number| map.contains(&key(*number)).unwrap()).count();
    assert_eq!(old, 0, "unused entries are evicted");
}

#[test]
fn nothing_is_marked_before_the_budget_is_full() {
    let region = region(16 << 20);
    let participant = region.join().unwrap();
    let map = map_with_budget(&participant, "marks");
    map.insert(b"early", b"").unwrap();
    (0..10).for_each(|_| assert!(map.get(b"early").unwrap().is_some()));
    // If the entry were marked, the hand would spare it the first time.
    let mut number = 0;
    while map.stats().evicted_count == 0 {
        map.insert(&key(number), &[1; 64]).unwrap();
        number += 1;
    }
    assert!(!map.contains(b"early").unwrap());
}

#[test]
fn an_evicted_entry_can_be_read_by_its_holder() {
    let region = region(16 << 20);
    let participant = region.join().unwrap();
    let map = map_with_budget(&participant, "held");
    map.insert(b"a first one", b"held").unwrap();
    let mut range = map.range(..);
    range.next().unwrap().unwrap();
    let held = map.entry(b"a first one").unwrap().unwrap();
    for number in 0..12_000 {
        map.insert(&key(number), &[2; 64]).unwrap();
    }
    assert!(!map.contains(b"a first one").unwrap(), "it was evicted");
    assert_eq!((held.key(), held.value()), (&b"a first one"[..], &b"held"[..]));
    let next = range.next().unwrap().unwrap();
    assert!(next.key() > held.key(), "the range goes on from there");
}

/// Held entries take so much of the budget that a large entry does not fit beside them: then
/// nothing is evicted for the large entry.
#[test]
fn an_insert_that_leases_prevent_evicts_nothing() {
    let config = OrdConfig { leases_max: 64, maps_max: 4, ..OrdConfig::with_bytes(16 << 20) };
    let region = OrdRegion::anonymous(&config).unwrap();
    let participant = region.join().unwrap();
    let map = map_with_budget(&participant, "impossible");
    let large = |number: usize| format!("large/{number}").into_bytes();
    (0..40).for_each(|number| _ = map.insert(&large(number), &[1; 16_000]).unwrap());
    let held: Vec<_> = (0..40).map(|number| map.entry(&large(number)).unwrap().unwrap()).collect();
    (0..2000).for_each(|number| _ = map.insert(&key(number), &[2; 64]).unwrap());
    let before = map.stats();
    assert_eq!(map.insert(b"too large", &[3; 500_000]), Err(MapError::Full));
    assert_eq!(map.stats().evicted_count, before.evicted_count, "{before:?}");
    assert_eq!(map.len(), before.len);
    drop(held);
    map.insert(b"too large", &[3; 500_000]).unwrap();
    assert_sound(&participant, "in the end");
}

/// Entries are held all over the region, so that a large entry cannot be placed: the writer notices
/// that before it has evicted all other entries.
#[test]
fn an_insert_that_leases_prevent_does_not_empty_the_map() {
    let sizes = OrdConfig::with_bytes(4 << 20);
    let config = OrdConfig { leases_max: 512, participants_max: 2, maps_max: 4, ..sizes };
    let region = OrdRegion::anonymous(&config).unwrap();
    let participant = region.join().unwrap();
    let budget_bytes = Some(64 << 20);
    let map = participant
        .map("scattered", &MapOptions { budget_bytes, ..MapOptions::default() })
        .unwrap();
    let mut count = 0;
    while map.stats().evicted_count == 0 {
        map.insert(&key(count), &[1; 64]).unwrap();
        count += 1;
    }
    // Some entries in each chunk are held.
    let held =
        (0..count).step_by(count / 500).filter_map(|number| map.entry(&key(number)).unwrap());
    let held: Vec<_> = held.collect();
    let before = map.len();
    assert_eq!(map.insert(b"too large", &[3; 40_000]), Err(MapError::Full));
    assert!(map.len() > before / 2, "{} of {before} are left", map.len());
    drop(held);
    map.insert(b"too large", &[3; 40_000]).unwrap();
    assert_sound(&participant, "in the end");
}

#[test]
fn a_full_region_says_so_and_can_be_emptied() {
    let region = region(1 << 20);
    let participant = region.join().unwrap();
    let map = participant.map("full", &MapOptions::default()).unwrap();
    for round in 0..3 {
        let mut count = 0;
        let bytes = [20, 300, 3000][round];
        loop {
            match map.insert(&key(count), &vec![3; bytes]) {
                Ok(_) => count += 1,
                Err(MapError::Full) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(count > 50, "round {round}: {count}");
        assert_eq!(map.len(), count as u64);
        assert_sound(&participant, "full");
        for number in (0..count).rev() {
            assert!(map.remove(&key(number)).unwrap(), "round {round}");
        }
        map.reclaim().unwrap();
        assert_eq!(map.stats().used_bytes, 0, "round {round}");
        assert_sound(&participant, "emptied");
    }
}

#[test]
fn memory_of_one_map_and_size_serves_another() {
    let region = region(2 << 20);
    let participant = region.join().unwrap();
    let (left, right) = (
        participant.map("left", &MapOptions::default()).unwrap(),
        participant.map("right", &MapOptions::default()).unwrap(),
    );
    for round in 0..4 {
        let (map, bytes) = if round % 2 == 0 { (&left, 30) } else { (&right, 100_000) };
        let mut count = 0;
        while map.insert(&key(count), &vec![4; bytes]).is_ok() {
            count += 1;
        }
        assert!(count * bytes > 200_000, "round {round}: {count} of {bytes}");
        (0..count).for_each(|number| assert!(map.remove(&key(number)).unwrap()));
        map.reclaim().unwrap();
        assert_sound(&participant, "between");
    }
}

/// The region contains its configuration, so a process that attaches needs none.
#[test]
fn an_attached_region_has_its_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    let config = OrdConfig { maps_max: 3, participants_max: 5, ..OrdConfig::with_bytes(2 << 20) };
    let made = OrdRegion::open_or_create(&path, &config).unwrap();
    let participant = made.join().unwrap();
    let map = participant.map("kept", &MapOptions::default()).unwrap();
    map.insert(b"key", b"value").unwrap();
    let found = OrdRegion::attach(&path).unwrap();
    assert_eq!(*found.config(), config);
    let other = found.join().unwrap();
    let same = other.existing_map("kept").unwrap();
    assert_eq!(same.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    OrdRegion::attach(&dir.path().join("maps/none")).unwrap_err();
    let too_small = OrdRegion::anonymous(&OrdConfig::with_bytes(100_000)).unwrap_err();
    assert!(too_small.to_string().contains("needs at least"), "{too_small}");
}

/// Attaching never replaces a file, whatever it holds.
#[test]
fn attaching_replaces_nothing() {
    use forebay_shm::{AreaSpec, BarrierWish, Region, RegionSpec};
    use forebay_sync::Words;
    use std::sync::atomic::Ordering::Relaxed;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    // The head of a region of maps, and nothing else.
    let head = AreaSpec { kind: 16, version: 1, bytes: 48 * 8 };
    let spec = RegionSpec {
        bytes: 2 << 20,
        participants_max: 5,
        barrier: BarrierWish::Best,
        areas: &[head],
    };
    let other = Region::open_or_create(&path, &spec).unwrap();
    let words = other.area(16).unwrap();
    for (index, number) in [(0, 2 << 20), (1, 3), (2, 5), (3, 16)] {
        words.word(index).store(number, Relaxed);
    }
    let error = OrdRegion::attach(&path).unwrap_err().to_string();
    assert!(error.contains("differs from the layout that this version makes"), "{error}");
    assert_eq!(Region::open_or_create(&path, &spec).unwrap().seed(), other.seed(), "it is there");
}

/// A program with other sizes does not replace a region in use.
#[test]
fn a_region_that_is_used_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    let config = OrdConfig { maps_max: 3, ..OrdConfig::with_bytes(2 << 20) };
    let other = OrdConfig { maps_max: 4, ..config };
    let made = OrdRegion::open_or_create(&path, &config).unwrap();
    let participant = made.join().unwrap();
    participant.map("kept", &MapOptions::default()).unwrap().insert(b"key", b"value").unwrap();
    let refused = OrdRegion::open_or_create(&path, &other).unwrap_err();
    assert!(matches!(refused, OrdOpenError::InUse { participants: 1 }), "{refused}");
    let found = OrdRegion::open_or_create(&path, &config).unwrap();
    assert_eq!(found.opened(), &Opened::Attached);
    let kept = found.join().unwrap();
    let map = kept.existing_map("kept").unwrap();
    assert_eq!(map.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    drop((participant, kept));
    let replaced = OrdRegion::open_or_create(&path, &other).unwrap();
    let why = ReplacedWhy::OtherPlan;
    assert_eq!(replaced.opened(), &Opened::Replaced { why }, "no participant uses it any more");
}

/// A program without hint tables does not replace a region in use either, although its region would
/// have as many chunks as one with a small hint table.
#[test]
fn a_region_that_is_used_is_not_replaced_by_one_without_a_small_area() {
    let dir = tempfile::tempdir().unwrap();
    for hint_bytes in [64, 1024, 8 << 10] {
        let path = dir.path().join(format!("maps/{hint_bytes}"));
        let without = OrdConfig::with_bytes(2 << 20);
        let with = OrdConfig { hint_bytes, ..without };
        for (first, second) in [(with, without), (without, with)] {
            let made = OrdRegion::open_or_create(&path, &first).unwrap();
            let _participant = made.join().unwrap();
            let refused = OrdRegion::open_or_create(&path, &second).unwrap_err();
            assert!(matches!(refused, OrdOpenError::InUse { participants: 1 }), "{refused}");
        }
    }
}
