//! Moves between shards at chosen moments.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use forebay_testkit::StopFlag;

use crate::map::Map;
use crate::map::entry::HoldError;
use crate::map::reader::MapReader;
use crate::map::split::MoveTarget;
use crate::map::step::{EntryTaker, find};
use crate::object::{EntryKind, ObjectRef};
use crate::shard::{LEN, SPLIT_TO};
use crate::tree::{Direction, copy_key_of};
use crate::{MapError, MapOptions, MapParticipant, OrdConfig, OrdRegion};

/// A region for maps of four shards.
fn region() -> OrdRegion {
    let config = OrdConfig { maps_max: 4, splits_max: 9, ..OrdConfig::with_bytes(4 << 20) };
    OrdRegion::anonymous(&config).unwrap()
}

fn map<'m>(participant: &'m MapParticipant, name: &str) -> Map<'m> {
    participant.map(name, &MapOptions { shards_max: 4, ..MapOptions::default() }).unwrap()
}

fn number_key(number: u32) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

/// The entry leaves its shard after the reader has found the shard and before it has read there.
#[test]
fn a_reader_that_looks_in_the_old_shard_looks_again() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, moving) = (map(&participant, "map"), map(&other, "map"));
    (0..100).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    let key = number_key(99);
    let mut tries = 0;
    let is_found = map.reader.read_for(&key, |reader| {
        tries += 1;
        if tries == 1 {
            assert!(moving.split_at(&key).unwrap() > 0);
        }
        Ok(reader.tree.find(&key)?.is_some())
    });
    assert_eq!((is_found, tries), (Ok(true), 2));
}

/// Changes the map when a walk reaches an entry.
struct Changes<'t, 'm> {
    map: &'t Map<'m>,
    tries: usize,
    key: Vec<u8>,
}

impl<'m> EntryTaker<'m> for Changes<'_, '_> {
    type Output = Vec<u8>;

    fn take(&mut self, reader: &MapReader<'m>, entry: ObjectRef) -> Result<Vec<u8>, HoldError> {
        self.tries += 1;
        if self.tries == 1 {
            self.map.insert(b"0067+", b"").unwrap();
            self.map.remove(&self.key).unwrap();
            self.map.reclaim().unwrap();
        }
        let mut key = Vec::new();
        copy_key_of(reader.tree.view, entry, EntryKind::Entry, &mut key)?;
        Ok(key)
    }

    fn finish(&mut self, _: &Vec<u8>) -> Result<(), HoldError> {
        Ok(())
    }

    fn key<'a>(&'a self, taken: &'a Vec<u8>) -> &'a [u8] {
        taken
    }
}

/// No entry follows the key in its shard. Then one is inserted there, and the first entry of the
/// next shard is removed. So the second entry of the next shard was never the next one.
#[test]
fn a_key_inserted_into_a_passed_shard_is_found() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) = (map(&participant, "map"), map(&other, "map"));
    (0..100).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    assert_eq!(map.split_at(&number_key(99)), Ok(32));
    let mut reader = map.reader;
    let mut taker = Changes { map: &changing, tries: 0, key: number_key(68) };
    let found = find(&mut reader, &number_key(67), Direction::Up, false, &mut taker).unwrap();
    let found = found.map(|(key, _)| key);
    assert_eq!(found.as_deref(), Some(&b"0067+"[..]), "{} tries", taker.tries);
}

/// Changes another part of the passed shard whenever a walk reaches an entry.
struct Disturbs<'t, 'm> {
    map: &'t Map<'m>,
    tries: usize,
}

impl<'m> EntryTaker<'m> for Disturbs<'_, '_> {
    type Output = Vec<u8>;

    fn take(&mut self, reader: &MapReader<'m>, entry: ObjectRef) -> Result<Vec<u8>, HoldError> {
        self.tries += 1;
        self.map.insert(&number_key(0), b"again").unwrap();
        let mut key = Vec::new();
        copy_key_of(reader.tree.view, entry, EntryKind::Entry, &mut key)?;
        Ok(key)
    }

    fn finish(&mut self, _taken: &Vec<u8>) -> Result<(), HoldError> {
        Ok(())
    }

    fn key<'a>(&'a self, taken: &'a Vec<u8>) -> &'a [u8] {
        taken
    }
}

#[test]
fn a_walk_passes_a_shard_that_is_written_elsewhere() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) = (map(&participant, "map"), map(&other, "map"));
    (0..100).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    assert_eq!(map.split_at(&number_key(99)), Ok(32));
    for (key, direction, next) in [(67, Direction::Up, 68), (68, Direction::Down, 67)] {
        let mut reader = map.reader;
        let mut taker = Disturbs { map: &changing, tries: 0 };
        let found = find(&mut reader, &number_key(key), direction, false, &mut taker).unwrap();
        assert_eq!((found.map(|(key, _)| key), taker.tries), (Some(number_key(next)), 1));
    }
}

/// A move that finds no memory in the other shard leaves nothing behind.
#[test]
fn a_move_without_memory_moves_nothing() {
    let region = region();
    let participant = region.join().unwrap();
    let (map, filling) = (map(&participant, "map"), map(&participant, "filling"));
    (0..100).for_each(|number| _ = map.insert(&number_key(number), &[1; 300]).unwrap());
    let mut count = 0;
    // Chunks are left for some entries of a batch.
    while filling.insert(&number_key(count), &[1; 300]).is_ok() {
        count += 1;
    }
    let mut failed = 0;
    for number in (0..count).rev() {
        if map.split_at(&number_key(99)) != Err(MapError::Full) {
            break;
        }
        failed += 1;
        if failed % 16 == 1 {
            let report = participant.check().unwrap();
            assert!(report.is_sound(), "{report}");
        }
        assert_eq!((map.len(), map.stats().shard_count), (100, 1));
        (0..100).for_each(|number| assert!(map.contains(&number_key(number)).unwrap()));
        filling.remove(&number_key(number)).unwrap();
        filling.reclaim().unwrap();
    }
    assert!(failed > 20, "the move failed {failed} times");
    assert_eq!((map.len(), map.stats().shard_count), (100, 2));
}

/// Entries of other shards are counted and found, though each shard knows only its own.
#[test]
fn counts_of_a_map_include_all_its_shards() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "map");
    (0..400).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    for key in [399, 300, 200] {
        assert!(map.split_at(&number_key(key)).unwrap() > 0);
    }
    assert_eq!(map.stats().shard_count, 4);
    assert_eq!((map.len(), map.stats().len), (400, 400));
    assert!(map.stats().owned_bytes >= 4 * 16384);
    for (low, high) in [(0, 400), (10, 380), (300, 399), (350, 360), (399, 0)] {
        let keys = (number_key(low), number_key(high));
        let estimate = map.estimate(&keys.0[..]..&keys.1[..]).unwrap();
        assert_eq!(estimate, u64::from(high.saturating_sub(low)), "{low}..{high}");
    }
    let memory_usage = participant.memory_usage(&[map.id()]);
    assert_eq!(memory_usage.used_bytes, map.stats().used_bytes);
    assert_eq!(memory_usage.owned_bytes, map.stats().owned_bytes);
}

/// The number of entries in each of the first two shards.
fn lens(map: &Map<'_>) -> [u64; 2] {
    [0, 1].map(|slot| map.words_of(slot).load(LEN))
}

/// Waits until another thread makes a condition true, or raises the flag.
fn wait_until(stop: &StopFlag, condition: impl Fn() -> bool) {
    /// The largest number of yields, which take about 50 s.
    const YIELDS_MAX: u64 = 50_000_000;
    stop.steps(YIELDS_MAX).take_while(|_| !condition()).for_each(|_| thread::yield_now());
}

/// Inserts entries in one thread while another thread holds the lock, again and again.
fn insert_in_turns(region: &OrdRegion, locked: &Map<'_>, until: impl Fn() -> bool) {
    const TURN_MAX: u32 = 20_000;
    const GO: u32 = 1;
    const GOES: u32 = 2;
    const GONE: u32 = 0;
    let (told, stop) = (AtomicU32::new(0), StopFlag::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = stop.guard();
            let participant = region.join().unwrap();
            let map = map(&participant, "map");
            for number in (0..5000).cycle() {
                wait_until(&stop, || told.load(SeqCst) == GO);
                if stop.is_raised() {
                    return;
                }
                told.store(GOES, SeqCst);
                map.insert(&number_key(number), b"again").unwrap();
                told.store(GONE, SeqCst);
            }
        });
        let _guard = stop.guard();
        for _ in 0..TURN_MAX {
            if until() || stop.is_raised() {
                break;
            }
            locked
                .under_lock(|_| {
                    told.store(GO, SeqCst);
                    wait_until(&stop, || told.load(SeqCst) != GO);
                    (0..50).for_each(|_| thread::yield_now());
                })
                .unwrap();
            wait_until(&stop, || told.load(SeqCst) == GONE);
        }
    });
}

/// Writers that wait for each other split the map into halves: each change moves some entries.
#[test]
fn a_map_whose_writers_wait_is_split_into_halves() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "map");
    (0..5000).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    assert_eq!(map.stats().shard_count, 1, "no writer waited");
    insert_in_turns(&region, &map, || map.stats().shard_count == 2);
    assert!(lens(&map)[1] < 1000, "a change moves few: {:?}", lens(&map));
    for number in 0..200 {
        map.insert(&number_key(number), b"more").unwrap();
    }
    let [lower, upper] = lens(&map);
    assert!(lower.abs_diff(upper) < 200 && map.stats().shard_count == 2, "{lower}, {upper}");
    assert_eq!(map.len(), 5000);
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

/// A map gets no more shards than its options allow, and a map with a budget gets only one.
#[test]
fn a_map_has_as_many_shards_as_it_may() {
    let region = region();
    let participant = region.join().unwrap();
    let shards = |name, shards_max, budget_bytes| {
        let map =
            participant.map(name, &MapOptions { shards_max, budget_bytes, hint_bytes: 0 }).unwrap();
        (0..1000).for_each(|number| _ = map.insert(&number_key(number), b"").unwrap());
        (0..20).for_each(|_| _ = map.split_at(&number_key(0)).unwrap());
        map.stats().shard_count
    };
    let found =
        [("none", 0, None), ("budget", 16, Some(1 << 20)), ("some", 7, None), ("rest", 16, None)]
            .map(|(name, shards_max, budget)| shards(name, shards_max, budget));
    assert_eq!(found, [1, 1, 7, 4], "the maps have nine splits in all");
    assert!(participant.check().unwrap().is_sound());
}

/// A split continues with the changes of the lower shard; the owner of the upper one may be
/// stopped.
#[test]
fn a_split_never_waits() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, owner) = (map(&participant, "map"), map(&other, "map"));
    (0..5000).for_each(|number| _ = map.insert(&number_key(number), b"value").unwrap());
    assert!(map.split_at(&number_key(0)).unwrap() > 0);
    map.words_of(0).store(SPLIT_TO, 1);
    let before = lens(&map);
    let (_guard, _writer) = owner.begin(1).unwrap();
    assert_eq!(map.move_from(0, MoveTarget::Half), Ok(0), "to wait would end with an error");
    (0..100).for_each(|number| _ = map.insert(&number_key(number), b"more").unwrap());
    assert_eq!(lens(&map), before, "nothing moved");
    drop(_guard);
    (0..1000).for_each(|number| _ = map.insert(&number_key(number), b"more").unwrap());
    let [lower, upper] = lens(&map);
    assert!(lower.abs_diff(upper) < 200, "the split continued: {lower}, {upper}");
}
