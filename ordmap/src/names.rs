//! A row of the directory: the name of a map, and where it is.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | 1: the map is there; then nothing of its row changes any more |
//! | 1 | bytes of the name |
//! | 2–9 | the name, with zeros behind it |
//! | 10 | its first shard |
//! | 11 | how many shards it has: 1 |

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};

pub(crate) const STATE: usize = 0;
pub(crate) const NAME_BYTES: usize = 1;
pub(crate) const NAME: usize = 2;
pub(crate) const SHARD: usize = 10;
pub(crate) const SHARD_COUNT: usize = 11;
/// Words of a row.
pub(crate) const ROW_WORDS: usize = 16;
/// The longest name.
pub(crate) const NAME_BYTES_MAX: usize = (SHARD - NAME) * 8;

const LIVE: u64 = 1;

/// Gives a row that is not live a name; the caller has the lock of the directory. Who dies before
/// the last store has done nothing.
pub(crate) fn write(row: &[AtomicU64], name: &[u8], shard: usize) {
    let mut padded = [0; NAME_BYTES_MAX];
    padded[..name.len()].copy_from_slice(name);
    for (word, bytes) in row[NAME..SHARD].iter().zip(padded.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    row[NAME_BYTES].store(name.len() as u64, Relaxed);
    row[SHARD].store(shard as u64, Relaxed);
    row[SHARD_COUNT].store(1, Relaxed);
    crate::step!("map.written");
    // ORDER: pairs with `ordmap.name`.
    row[STATE].store(LIVE, release("ordmap.live"));
    crate::step!("map.live");
}

/// Is there a map?
pub(crate) fn is_live(row: &[AtomicU64]) -> bool {
    // ORDER: pairs with `ordmap.live`: name and shard are there.
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

/// The shard of a live map; `None`: its row is damaged.
pub(crate) fn shard_of(row: &[AtomicU64], shards: usize) -> Option<usize> {
    let shard = row[SHARD].load(Relaxed) as usize;
    (shard < shards && row[SHARD_COUNT].load(Relaxed) == 1).then_some(shard)
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use forebay_sync::boxed_words;
    use forebay_sync::model::{breaks, holds};
    use loom::thread;

    use super::{ROW_WORDS, name_of, shard_of, write};

    /// Somebody looks for a map that is being made.
    fn making() {
        let row = Arc::new(boxed_words(ROW_WORDS));
        let other = Arc::clone(&row);
        let maker = thread::spawn(move || write(&other, b"towns", 3));
        if let Some(name) = name_of(&row) {
            assert_eq!(name, b"towns");
            assert_eq!(shard_of(&row, 4), Some(3));
        }
        maker.join().unwrap();
    }

    #[test]
    fn a_map_that_is_live_is_whole() {
        let model = "ordmap: a map is made while one looks for it";
        holds(model, making);
        breaks("ordmap.live", model, making);
        breaks("ordmap.name", model, making);
    }
}
