//! Whatever a region holds, an operation ends with a result or an error, and never panics.
//!
//! `FOREBAY_ROUNDS=10000` for a longer run, `FOREBAY_SEED` to repeat one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_ordmap::{ExpectedState, Map, MapOptions, MapParticipant, OrdConfig, OrdRegion};
use forebay_testkit::Rng;

const BYTES: u64 = 448 << 10;
/// Bytes of the map's hint table.
const HINT_BYTES: u64 = 8 << 10;
/// The first byte that may be damaged. The header of the region and the rows of its participants,
/// which lie before it, have tests of their own.
const FIRST: u64 = 8192;

fn rounds() -> usize {
    let usual = if cfg!(debug_assertions) { 150 } else { 2000 };
    std::env::var("FOREBAY_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap())
}

fn config() -> OrdConfig {
    OrdConfig {
        maps_max: 2,
        participants_max: 4,
        leases_max: 4,
        splits_max: 3,
        hint_bytes: HINT_BYTES,
        ..OrdConfig::with_bytes(BYTES)
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("some/prefix/{number:05}").into_bytes()
}

fn fill(map: &Map<'_>, random: &mut Rng) {
    for number in 0..400 {
        map.insert(&key(number), &vec![1; random.below(150)]).unwrap();
    }
    (0..60).for_each(|_| _ = map.remove(&key(random.below(400))).unwrap());
    // Some maps have several shards.
    (0..random.below(5)).for_each(|_| _ = map.split_at(&key(random.below(400))));
}

/// Overwrites some words with nonsense, or copies words to wrong places.
fn damage(file: &File, random: &mut Rng) {
    let word = |random: &mut Rng| FIRST + 8 * random.below(((BYTES - FIRST) / 8) as usize) as u64;
    for _ in 0..1 + random.below(200) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, word(random)).unwrap();
        match random.below(4) {
            0 => bytes = random.next_u64().to_le_bytes(),
            1 => bytes[random.below(8)] ^= 1 << random.below(8),
            2 => bytes = [0; 8],
            _ => {}
        }
        file.write_all_at(&bytes, word(random)).unwrap();
    }
}

fn use_all(participant: &MapParticipant, map: &Map<'_>, random: &mut Rng) {
    for _ in 0..40 {
        let key = key(random.below(500));
        match random.below(13) {
            0 => drop(map.get(&key)),
            1 => drop(map.entry(&key)),
            2 | 3 => drop(map.insert(&key, &vec![2; random.below(3000)])),
            4 => drop(map.remove(&key)),
            5 => drop(map.compare_and_insert(&key, ExpectedState::Value(b"x"), b"y")),
            6 => drop(map.reclaim()),
            7 => walk(map, random),
            8 => drop(map.split_at(&key)),
            9 => drop(map.move_up(&key)),
            10 => drop(map.move_down(&key)),
            11 => drop(map.estimate(&key[..]..)),
            _ => drop(map.stats()),
        }
    }
    drop(participant.check());
    drop(participant.map("another", &MapOptions::default()));
}

fn walk(map: &Map<'_>, random: &mut Rng) {
    let is_up = random.below(2) == 0;
    let mut scan = map.scan(..);
    for _ in 0..1000 {
        let next = if is_up { scan.next() } else { scan.previous() };
        match next {
            Ok(Some((key, _))) => assert!(key.len() <= 8192),
            Ok(None) | Err(_) => break,
        }
    }
    let mut range = map.range(..);
    for _ in 0..1000 {
        let next = if is_up { range.next() } else { range.previous() };
        match next {
            Ok(Some(entry)) => assert!(entry.key().len() <= 8192),
            Ok(None) | Err(_) => return,
        }
    }
}

#[test]
fn a_damaged_region_is_an_error_and_no_panic() {
    let mut random = Rng::of("a_damaged_region");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    let mut found = 0;
    for round in 0..rounds() {
        let _ = std::fs::remove_file(&path);
        println!("round {round}");
        found += usize::from(play(&path, random.fork()));
    }
    assert!(found * 3 > rounds(), "the check found {found} of {} damages", rounds());
}

/// Fills a map, damages its region and uses it; returns whether the check finds the damage.
fn play(path: &Path, mut random: Rng) -> bool {
    let budget_bytes = (random.below(2) == 0).then_some(200 << 10);
    let region = OrdRegion::open_or_create(path, &config()).unwrap();
    let participant = region.join().unwrap();
    let options = MapOptions { budget_bytes, hint_bytes: HINT_BYTES, shards_max: 4 };
    let map = participant.map("damaged", &options).unwrap();
    fill(&map, &mut random);
    let file = File::options().read(true).write(true).open(path).unwrap();
    damage(&file, &mut random);
    let is_seen = !participant.check().is_ok_and(|report| report.is_sound());
    use_all(&participant, &map, &mut random);
    is_seen
}
