//! Steps across a bound, while others change entries at both sides of it.

use super::{EntryTaker, find, find_end};
use crate::map::Map;
use crate::map::entry::HoldError;
use crate::map::reader::MapReader;
use crate::object::{EntryKind, ObjectReadError, ObjectRef};
use crate::shard::words::TURN;
use crate::tree::{Direction, copy_key_of};
use crate::{MapOptions, MapParticipant, OrdConfig, OrdRegion};

/// The last key below the bound, and the first two above it.
const BELOW: &[u8] = b"0067";
const ABOVE: &[u8] = b"0068";
const ABOVE_NEXT: &[u8] = b"0069";

/// A key between `BELOW` and the bound.
const BETWEEN: &[u8] = b"0067+";

fn region() -> OrdRegion {
    let config = OrdConfig { maps_max: 4, splits_max: 9, ..OrdConfig::with_bytes(4 << 20) };
    OrdRegion::anonymous(&config).unwrap()
}

/// Two shards, the lower one with several leaves.
fn split_map(participant: &MapParticipant) -> Map<'_> {
    let options = MapOptions { shards_max: 4, ..MapOptions::default() };
    let map = participant.map("map", &options).unwrap();
    let key = |number: u32| format!("{number:04}").into_bytes();
    (0..100).for_each(|number| _ = map.insert(&key(number), b"value").unwrap());
    assert_eq!(map.split_at(&key(99)), Ok(32));
    map
}

/// Inserts a key, or removes it.
fn toggle(map: &Map<'_>, key: &[u8]) {
    if !map.remove(key).unwrap() {
        map.insert(key, b"").unwrap();
    }
}

/// Takes keys, and runs a function at each attempt.
struct At<T, F> {
    take: T,
    finish: F,
    tries: u32,
}

impl<'m, T: FnMut(u32), F: FnMut(u32) -> bool> EntryTaker<'m> for At<T, F> {
    type Output = Vec<u8>;

    fn take(&mut self, reader: &MapReader<'m>, entry: ObjectRef) -> Result<Vec<u8>, HoldError> {
        self.tries += 1;
        (self.take)(self.tries);
        let mut key = Vec::new();
        copy_key_of(reader.tree.view, entry, EntryKind::Entry, &mut key)?;
        Ok(key)
    }

    fn finish(&mut self, _: &Vec<u8>) -> Result<(), HoldError> {
        if (self.finish)(self.tries) { Ok(()) } else { Err(ObjectReadError::Changed.into()) }
    }

    fn key<'a>(&'a self, taken: &'a Vec<u8>) -> &'a [u8] {
        taken
    }
}

/// The first key of the map, and the number of attempts that it took.
fn first(map: &Map<'_>, take: impl FnMut(u32)) -> (Option<Vec<u8>>, u32) {
    let mut taker = At { take, finish: |_| true, tries: 0 };
    let mut reader = map.reader;
    let found = find_end(&mut reader, Direction::Up, &mut taker).unwrap();
    (found.map(|(key, _)| key), taker.tries)
}

/// Removes all entries from the lower shard.
fn empty_lower(map: &Map<'_>) {
    (0..=67).for_each(|number| assert!(map.remove(format!("{number:04}").as_bytes()).unwrap()));
}

/// The key above the last key of the lower shard, and the number of attempts that it took.
fn next_above(
    map: &Map<'_>,
    take: impl FnMut(u32),
    finish: impl FnMut(u32) -> bool,
) -> (Option<Vec<u8>>, u32) {
    let mut taker = At { take, finish, tries: 0 };
    let mut reader = map.reader;
    let found = find(&mut reader, BELOW, Direction::Up, false, &mut taker).unwrap();
    (found.map(|(key, _)| key), taker.tries)
}

#[test]
fn changes_elsewhere_in_a_passed_shard_do_not_matter() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) =
        (split_map(&participant), other.map("map", &MapOptions::default()).unwrap());
    let found = next_above(&map, |_| toggle(&changing, b"0001"), |_| true);
    assert_eq!(found, (Some(ABOVE.to_vec()), 1), "a change of another leaf does not matter");
    let found = next_above(&map, |_| _ = changing.insert(BELOW, b"again").unwrap(), |_| true);
    assert_eq!(found, (Some(ABOVE.to_vec()), 1), "another value of the same key does not matter");
}

/// The value is copied once the entry is known: so a long value is no reason to start again.
#[test]
fn a_key_inserted_while_a_value_is_copied_does_not_matter() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) =
        (split_map(&participant), other.map("map", &MapOptions::default()).unwrap());
    let came = |_| changing.insert(BETWEEN, b"").is_ok_and(|was_there| !was_there);
    assert_eq!(next_above(&map, |_| {}, came), (Some(ABOVE.to_vec()), 1));
    // If the entry is freed before its value is copied, the search starts again.
    changing.remove(BETWEEN).unwrap();
    let freed = |tries| tries > 1 || !changing.remove(ABOVE).unwrap();
    assert_eq!(next_above(&map, |_| {}, freed), (Some(ABOVE_NEXT.to_vec()), 2));
}

/// Checks that a reader reports no damage in a sound map, even if other participants change the
/// map more often than a reader's attempts can fail before it reports damage.
#[test]
fn however_often_others_write_a_sound_map_is_not_called_damaged() {
    const CHANGES: u32 = (1 << 16) + 100;
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) =
        (split_map(&participant), other.map("map", &MapOptions::default()).unwrap());
    let change = |tries| {
        if tries <= CHANGES {
            toggle(&changing, b"0066+");
        }
    };
    assert_eq!(next_above(&map, change, |_| true), (Some(ABOVE.to_vec()), CHANGES + 1));
}

/// A writer has announced a publication and is stopped, or it has published and not ended its turn.
/// While the writer is stopped, the first entry above the bound is removed.
#[test]
fn a_key_that_a_stopped_writer_published_is_found() {
    // At the first attempt, and at the last but a few.
    for at in [1, 66] {
        let region = region();
        let (participant, other) = (region.join().unwrap(), region.join().unwrap());
        let map = split_map(&participant);
        let changing = other.map("map", &MapOptions::default()).unwrap();
        let lower = map.words_of(0);
        lower.begin_turn();
        let odd = lower.load(TURN);
        let change = |tries| {
            if tries == at {
                changing.insert(BETWEEN, b"").unwrap();
                lower.store(TURN, odd);
                changing.remove(ABOVE).unwrap();
            }
        };
        let (found, tries) = next_above(&map, change, |_| true);
        let expected = if tries >= at { BETWEEN } else { ABOVE };
        assert_eq!(found.as_deref(), Some(expected), "at {at}, {tries} tries");
    }
}

/// An unrepaired change of a dead writer blocks no reader.
#[test]
fn shards_with_dead_writers_are_passed_at_once() {
    let region = region();
    let participant = region.join().unwrap();
    let map = split_map(&participant);
    map.words_of(0).begin_turn();
    assert_eq!(next_above(&map, |_| {}, |_| true), (Some(ABOVE.to_vec()), 1), "a full one");
    empty_lower(&map);
    map.words_of(0).begin_turn();
    assert_eq!(next_above(&map, |_| {}, |_| true), (Some(ABOVE.to_vec()), 1), "an empty one");
    assert_eq!(first(&map, |_| {}), (Some(ABOVE.to_vec()), 1), "an empty one, from the end on");
}

/// The lowest shard is empty when it is passed, and filled before the next one loses its first
/// entry.
#[test]
fn a_key_inserted_into_an_empty_shard_is_found() {
    let region = region();
    let (participant, other) = (region.join().unwrap(), region.join().unwrap());
    let (map, changing) =
        (split_map(&participant), other.map("map", &MapOptions::default()).unwrap());
    empty_lower(&map);
    let change = |tries| {
        if tries == 1 {
            changing.insert(BETWEEN, b"").unwrap();
            changing.remove(ABOVE).unwrap();
        }
    };
    assert_eq!(first(&map, change).0.as_deref(), Some(BETWEEN));
}
