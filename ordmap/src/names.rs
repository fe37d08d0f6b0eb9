//! A row of the directory: a map's name and its shards.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | 1: the map exists; words 1–12 no longer change |
//! | 1 | length of the name in bytes |
//! | 2–9 | the name, padded with zeros |
//! | 10 | the number, in the whole region, of the map's first shard |
//! | 11 | the largest number of shards that the map may have |
//! | 12 | the number, in the whole region, of the map's second shard; later ones are consecutive |
//! | 13 | the route word, which tells the shard of a key: see [`route`](crate::route) |
//! | 14 | the lock for moving entries from one shard to another |

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};

use crate::route::SHARDS_MAX;

pub(crate) const STATE: usize = 0;
pub(crate) const NAME_BYTES: usize = 1;
pub(crate) const NAME: usize = 2;
pub(crate) const SHARD: usize = 10;
pub(crate) const SHARD_COUNT: usize = 11;
pub(crate) const FURTHER: usize = 12;
pub(crate) const ROUTE: usize = 13;
pub(crate) const MOVE_LOCK: usize = 14;
/// The number of words of a row.
pub(crate) const ROW_WORDS: usize = 16;
/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = (SHARD - NAME) * 8;

const LIVE: u64 = 1;

/// The shards of the region that a map may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapShards {
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The first of the other shards, which are consecutive.
    pub(crate) further: usize,
}

/// Writes a map into a row that is not live. The caller holds the directory's lock. If the process
/// dies before the last store, the row is still not live.
pub(crate) fn write(row: &[AtomicU64], name: &[u8], shards: MapShards) {
    let mut padded = [0; NAME_BYTES_MAX];
    padded[..name.len()].copy_from_slice(name);
    for (word, bytes) in row[NAME..SHARD].iter().zip(padded.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    row[NAME_BYTES].store(name.len() as u64, Relaxed);
    row[SHARD].store(shards.first as u64, Relaxed);
    row[SHARD_COUNT].store(shards.count as u64, Relaxed);
    row[FURTHER].store(shards.further as u64, Relaxed);
    crate::step!("map.written");
    // ORDER: pairs with `ordmap.name`.
    row[STATE].store(LIVE, release("ordmap.live"));
    crate::step!("map.live");
}

/// Whether the row holds a map.
pub(crate) fn is_live(row: &[AtomicU64]) -> bool {
    // ORDER: pairs with `ordmap.live`: name and shards are written.
    row[STATE].load(acquire("ordmap.name")) == LIVE
}

/// The name of a live map.
pub(crate) fn name_of(row: &[AtomicU64]) -> Option<Vec<u8>> {
    if !is_live(row) {
        return None;
    }
    let words = row[NAME..SHARD].iter();
    let mut name: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    name.truncate(row[NAME_BYTES].load(Relaxed) as usize);
    Some(name)
}

impl MapShards {
    /// The shards of a live map, in a region with this many maps and shards; `None` if the row is
    /// damaged.
    pub(crate) fn of(row: &[AtomicU64], maps: usize, shards: usize) -> Option<MapShards> {
        let word = |index: usize| row[index].load(Relaxed) as usize;
        let found =
            MapShards { first: word(SHARD), count: word(SHARD_COUNT), further: word(FURTHER) };
        let is_right = found.first < maps && (1..=SHARDS_MAX).contains(&found.count);
        let further = shards.checked_sub(found.further).filter(|_| found.further >= maps);
        (is_right && further.is_some_and(|left| found.count - 1 <= left)).then_some(found)
    }

    /// The number, in the whole region, of the map's shard in this slot.
    pub(crate) fn number(self, slot: usize) -> usize {
        if slot == 0 { self.first } else { self.further + slot - 1 }
    }

    /// The numbers, in the whole region, of all shards of the map.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |slot| self.number(slot))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use forebay_sync::boxed_words;
    use forebay_sync::model::{breaks, holds};
    use loom::thread;

    use super::{MapShards, ROW_WORDS, name_of, write};

    const SHARDS: MapShards = MapShards { first: 3, count: 4, further: 4 };

    /// Models a reader that looks for a map that is being created.
    fn making() {
        let row = Arc::new(boxed_words(ROW_WORDS));
        let other = Arc::clone(&row);
        let maker = thread::spawn(move || write(&other, b"towns", SHARDS));
        if let Some(name) = name_of(&row) {
            assert_eq!(name, b"towns");
            assert_eq!(MapShards::of(&row, 4, 7), Some(SHARDS));
        }
        maker.join().unwrap();
    }

    #[test]
    fn a_map_that_is_live_is_whole() {
        let model = "ordmap: a map is created while a thread looks for it";
        holds(model, making);
        breaks("ordmap.live", model, making);
        breaks("ordmap.name", model, making);
    }
}
