//! Tests that look behind the public interface.

use std::time::Duration;

use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;

use super::entry::HoldError;
use crate::layout::head;
use crate::object::{ObjectReadError, POOL_WORDS, follow};
use crate::shard::{EPOCH, EPOCHS_MAX, SEQUENCE};
use crate::tree::NodeView;
use crate::{ExpectedState, MapError, MapOptions, MapParticipant, MapsError, OrdConfig, OrdRegion};

fn region() -> OrdRegion {
    OrdRegion::anonymous(&OrdConfig { maps_max: 4, ..OrdConfig::with_bytes(2 << 20) }).unwrap()
}

fn map<'m>(participant: &'m MapParticipant, name: &str) -> super::Map<'m> {
    participant.map(name, &MapOptions::default()).unwrap()
}

#[test]
fn a_writer_that_waits_too_long_gives_up_and_changes_nothing() {
    let region = region();
    let (owner, other) = (region.join().unwrap(), region.join().unwrap());
    let (owned, waiting) = (map(&owner, "map"), map(&other, "map"));
    owned.insert(b"key", b"before").unwrap();
    for wait_max in [Duration::ZERO, Duration::from_millis(5)] {
        other.set_wait_max(Some(wait_max));
        owned
            .under_lock(|_| {
                assert_eq!(waiting.insert(b"key", b"after"), Err(MapError::Busy));
                assert_eq!(waiting.remove(b"key"), Err(MapError::Busy));
                assert_eq!(waiting.reclaim(), Err(MapError::Busy));
                assert_eq!(waiting.get(b"key").unwrap().as_deref(), Some(&b"before"[..]));
            })
            .unwrap();
        assert_eq!(waiting.get(b"key").unwrap().as_deref(), Some(&b"before"[..]));
        let directory = owner.lock(&region.shared.directory_lock).unwrap();
        let made = other.map("another", &MapOptions::default());
        assert_eq!(made.unwrap_err(), MapsError::Busy);
        drop(directory);
        assert!(waiting.insert(b"key", b"before").unwrap(), "no thread has the lock any more");
    }
}

/// The same changes make the same references in two regions, and in two maps of one region.
#[test]
fn an_entry_of_another_map_is_never_the_same() {
    let (left, right) = (region(), region());
    let (left, right) = (left.join().unwrap(), right.join().unwrap());
    let maps = [map(&left, "one"), map(&right, "one"), map(&left, "two")];
    maps.iter().for_each(|map| _ = map.insert(b"key", b"value").unwrap());
    let again = map(&left, "one");
    let held = maps.each_ref().map(|map| map.entry(b"key").unwrap().unwrap());
    assert!(held[0].is_same(&again.entry(b"key").unwrap().unwrap()));
    for (mine, map) in maps.iter().enumerate() {
        for (other, entry) in held.iter().enumerate().filter(|(other, _)| *other != mine) {
            assert!(!held[mine].is_same(entry), "{mine} {other}");
            let expected = ExpectedState::Entry(entry);
            assert!(!map.compare_and_remove(b"key", expected).unwrap(), "{mine} {other}");
            let expected = ExpectedState::Entry(entry);
            assert!(!map.compare_and_insert(b"key", expected, b"x").unwrap(), "{mine} {other}");
        }
        assert!(map.compare_and_remove(b"key", ExpectedState::Entry(&held[mine])).unwrap());
    }
}

/// Two handles of one file have two mappings.
#[test]
fn an_entry_is_the_same_in_another_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    let config = OrdConfig { maps_max: 4, ..OrdConfig::with_bytes(2 << 20) };
    let open = || OrdRegion::open_or_create(&path, &config).unwrap();
    let (left, right) = (open(), open());
    let (left, right) = (left.join().unwrap(), right.join().unwrap());
    let (left, right) = (map(&left, "one"), map(&right, "one"));
    left.insert(b"key", b"value").unwrap();
    let (held, other) =
        (left.entry(b"key").unwrap().unwrap(), right.entry(b"key").unwrap().unwrap());
    assert!(held.is_same(&other));
    assert!(right.compare_and_remove(b"key", ExpectedState::Entry(&held)).unwrap());
}

#[test]
fn a_read_during_which_a_generation_may_wrap_around_is_repeated() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "epochs");
    let reader = &map.reader;
    for (passed, is_young) in [(0, true), (EPOCHS_MAX, true), (EPOCHS_MAX + 1, false)] {
        for found in [Ok(7), Err(HoldError::Read(ObjectReadError::Damaged("nonsense")))] {
            let epoch = reader.epoch();
            let counted = reader.while_young(epoch, || {
                reader.shard.store(EPOCH, epoch + passed);
                found
            });
            let expected = if is_young { found } else { Err(ObjectReadError::Changed.into()) };
            assert_eq!(counted, expected, "{passed} epochs pass");
        }
    }
}

#[test]
fn a_claimed_chunk_makes_cursors_look_up_their_keys() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "claims");
    map.insert(b"0", b"").unwrap();
    let (mut cursor, epoch) = (map.cursor(), map.reader.epoch());
    cursor.first().unwrap();
    let owned_bytes = map.stats().owned_bytes;
    let mut number = 1;
    while map.stats().owned_bytes == owned_bytes {
        assert_eq!(map.reader.epoch(), epoch, "nothing was claimed");
        map.insert(format!("{number}").as_bytes(), &[0; 64]).unwrap();
        number += 1;
    }
    assert_eq!(map.reader.while_young(epoch, || Ok(())), Err(ObjectReadError::Changed.into()));
    assert_eq!(cursor.next().unwrap().unwrap().key(), b"1");
}

#[test]
fn a_chunk_of_another_map_is_not_read() {
    let region = region();
    let participant = region.join().unwrap();
    let (mine, other) = (map(&participant, "mine"), map(&participant, "other"));
    other.insert(b"key", b"value").unwrap();
    let at = other.reader.tree.find(b"key").unwrap().unwrap().entry.reference();
    assert!(other.reader.tree.view.begin(at).is_ok());
    assert_eq!(mine.reader.tree.view.begin(at).unwrap_err(), ObjectReadError::Changed);
}

/// A process has given chunks back and died before it counted that.
#[test]
fn a_full_map_finds_free_chunks_that_were_not_counted() {
    let region = region();
    let participant = region.join().unwrap();
    let (full, other) = (map(&participant, "full"), map(&participant, "other"));
    let key = |number: u32| number.to_le_bytes();
    (0..100).for_each(|number| _ = other.insert(&key(number), &[1; 2000]).unwrap());
    let mut count = 0;
    while full.insert(&key(count), &[1; 2000]).is_ok() {
        count += 1;
    }
    let pool = &region.shared.head.all()[head::POOL..];
    let before: Vec<u64> = pool[..POOL_WORDS].iter().map(|word| word.load(Relaxed)).collect();
    (0..100).for_each(|number| assert!(other.remove(&key(number)).unwrap()));
    other.reclaim().unwrap();
    for (word, before) in pool.iter().zip(before) {
        word.store(before, Relaxed);
    }
    assert_eq!(full.insert(&key(count), &[1; 2000]), Ok(false));
}

/// Every attempt of a read fails, as if a slot named a freed object, while other keys keep
/// changing.
#[test]
fn damage_is_reported_while_others_write() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "damaged");
    for changes_between in [0, 1] {
        let mut tries = 0;
        let found: Result<(), _> = map.reader.read(|| {
            tries += 1;
            assert!(tries < 1_000_000, "the read does not end");
            let sequence = map.reader.shard.word(SEQUENCE);
            sequence.store(sequence.load(Relaxed) + changes_between, Relaxed);
            Err(ObjectReadError::Changed.into())
        });
        assert!(matches!(found, Err(MapError::Damaged { .. })), "{changes_between}: {found:?}");
    }
}

/// All slots of an inner node on one path name the same child, which is visited once.
#[test]
fn a_check_looks_once_at_what_is_named_often() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "often");
    (0..3000_u32).for_each(|number| _ = map.insert(&number.to_le_bytes(), b"").unwrap());
    let view = map.reader.tree.view;
    let begin = |at| NodeView::begin(view, at, None).unwrap();
    let root = begin(follow(map.reader.tree.root));
    let (left, right) = (begin(root.slot(0).unwrap()), begin(root.slot(1).unwrap()));
    assert_eq!((root.level, left.level), (2, 1));
    for node in [root, right] {
        let slot = |index| view.data_word(node.slot_number(index).unwrap()).unwrap();
        assert!(node.count > 3);
        (2..node.count).for_each(|index| slot(index).store(slot(1).load(Relaxed), Relaxed));
    }
    let report = participant.check().unwrap();
    // The root, two nodes, the leaves of the left one, two leaves of the right one.
    assert_eq!(report.nodes, 3 + left.count as u64 + 2, "{report}");
    let is_found = |what| report.findings.iter().any(|finding| finding.what == what);
    assert!(is_found("two slots refer to the same object"), "{report}");
}

/// A slot names an entry from elsewhere in the order: a cursor reports that and does not go back.
#[test]
fn a_wrong_slot_sends_no_cursor_back() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "back");
    let key = |number: u32| format!("{number:02}").into_bytes();
    (0..20).for_each(|number| _ = map.insert(&key(number), b"").unwrap());
    let view = map.reader.tree.view;
    let leaf = NodeView::begin(view, follow(map.reader.tree.root), Some(0)).unwrap();
    let slot = |index| view.data_word(leaf.slot_number(index).unwrap()).unwrap();
    let damaged = MapError::Damaged { what: "keys are out of order" };
    for (wrong, named) in [(10, 3), (10, 9), (9, 10), (9, 15)] {
        let before = slot(wrong).load(Relaxed);
        slot(wrong).store(slot(named).load(Relaxed), Relaxed);
        let is_up = named < wrong;
        for is_native in [true, false] {
            let mut cursor = map.cursor();
            let from =
                if is_up { cursor.at_or_above(&key(9)) } else { cursor.at_or_below(&key(10)) };
            assert_eq!(from.unwrap().unwrap().key(), key(if is_up { 9 } else { 10 }));
            cursor.forget_path_unless(is_native);
            let next = if is_up { cursor.next() } else { cursor.previous() };
            assert_eq!(next.map(|_| ()), Err(damaged), "{wrong} names {named}, {is_native}");
        }
        slot(wrong).store(before, Relaxed);
    }
}

/// Limbo is full, which cannot happen otherwise. The change has been published by then.
#[test]
fn a_change_that_failed_when_it_was_published_is_finished_by_the_next() {
    let region = region();
    let participant = region.join().unwrap();
    let map = map(&participant, "failed");
    map.insert(b"key", b"old").unwrap();
    let limbo = map.reader.shard.limbo();
    limbo.iter().for_each(|place| place.store(u64::MAX, Relaxed));
    assert!(matches!(map.insert(b"key", b"new"), Err(MapError::Damaged { .. })));
    limbo.iter().for_each(|place| place.store(0, Relaxed));
    assert!(map.insert(b"key", b"newer").unwrap());
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.waiting, map.stats().repair_count), (2, 1), "{report}");
}

/// Inserts entries when it is dropped, as long as the map has memory.
struct Fills<'m>(super::Map<'m>);

impl Drop for Fills<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        // Separators of all sizes: sometimes there is room for the entry and none for them.
        for number in 0..3000 {
            let mut key = vec![b'x'; number * 37 % 1500];
            key.extend_from_slice(&number.to_le_bytes());
            let _ = self.0.insert(&key, &[1; 500]);
        }
    }
}

/// A destructor changes a full map during a panic: objects that did not fit are given back.
#[test]
fn nothing_is_lost_by_changes_in_a_panic() {
    let region = region();
    let participant = region.join().unwrap();
    let options = MapOptions { budget_bytes: Some(64 << 20), ..MapOptions::default() };
    let map = || participant.map("panic", &options).unwrap();
    let fills = Fills(map());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _fills = fills;
        panic!("on purpose");
    }));
    panicked.unwrap_err();
    assert!(map().stats().evicted_count > 0);
    map().reclaim().unwrap();
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
fn a_range_that_is_over_holds_nothing() {
    let config = OrdConfig { leases_max: 2, ..OrdConfig::with_bytes(4 << 20) };
    let region = OrdRegion::anonymous(&config).unwrap();
    let participant = region.join().unwrap();
    let map = participant.map("towns", &MapOptions::default()).unwrap();
    for key in ["a", "b", "c"] {
        map.insert(key.as_bytes(), b"value").unwrap();
    }
    let mut over = Vec::new();
    for _ in 0..10 {
        let mut range = map.range(&b"a"[..]..b"b");
        assert!(range.next().unwrap().is_some());
        assert!(range.next().unwrap().is_none());
        over.push(range);
    }
}

#[test]
fn a_number_that_names_no_map_is_refused() {
    let config = OrdConfig::with_bytes(4 << 20);
    let [one, other] = [(); 2].map(|()| OrdRegion::anonymous(&config).unwrap());
    let (one, other) = (one.join().unwrap(), other.join().unwrap());
    one.map("first", &MapOptions::default()).unwrap();
    let second = one.map("second", &MapOptions::default()).unwrap().id();
    assert!(one.map_of(second).is_ok());
    assert!(matches!(other.map_of(second), Err(MapsError::NotThere)));
}

#[test]
fn a_failed_read_appends_nothing() {
    let region = OrdRegion::anonymous(&OrdConfig::with_bytes(4 << 20)).unwrap();
    let participant = region.join().unwrap();
    let map = participant.map("towns", &MapOptions::default()).unwrap();
    map.insert(b"lyon", b"Rhone").unwrap();
    let mut out = b"before ".to_vec();
    assert!(!map.read_into(b"london", &mut out).unwrap());
    assert_eq!(out, b"before ");
    assert!(map.read_into(b"lyon", &mut out).unwrap());
    assert_eq!(out, b"before Rhone");
    map.damage();
    assert!(map.read_into(b"lyon", &mut out).is_err());
    assert_eq!(out, b"before Rhone");
}
