//! Measures how full the index is when a record is first evicted for another key.

use std::cell::Cell;

use forebay_cache::index::{
    BUCKET_WORDS, Index, IndexHit, IndexKey, InsertRequest, KeyHash, PinnedLocation, Records,
    RemovalReason,
};
use forebay_sync::{Barrier, Words};

use super::{Row, index, mixed, pins, row};
use forebay_testkit::Rng;

/// Records that consist of their location only.
#[derive(Default)]
struct Locations {
    evicted_count: Cell<usize>,
}

impl Records for Locations {
    fn segment_of(&self, _location: u32) -> usize {
        0
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        u64::from(at.location())
    }

    fn on_removed(&self, _hit: &IndexHit<'_>, reason: RemovalReason) {
        assert_eq!(reason, RemovalReason::Evicted, "each key is inserted once");
        self.evicted_count.set(self.evicted_count.get() + 1);
    }
}

fn insert<W: Words>(index: &Index<W, Locations>, row: &Row, location: u32, salt: u64) {
    let hash = KeyHash::new(mixed(salt ^ u64::from(location)));
    let key = IndexKey::new(hash, |at: PinnedLocation<'_>| at.location() == location);
    let new = InsertRequest { location, size_class: 20, sequence: u64::from(location) };
    let unchecked = index.insert(row, &key, &new).expect("the new record finds a slot");
    assert!(index.make_live(row, &key, unchecked));
}

/// Inserts as many keys as there are words. Returns the number of keys at the first eviction, the
/// number of evictions when nine tenths of the keys were inserted, and the number when all were
/// inserted.
fn fill(bucket_count: usize, salt: u64) -> [usize; 3] {
    let index = index(bucket_count, Locations::default());
    let row = row(&pins(1, 1, Barrier::fence()), 0);
    let word_count = bucket_count * BUCKET_WORDS;
    let (mut first, mut at_nine_tenths) = (word_count, 0);
    for location in 0..word_count {
        insert(&index, &row, location as u32, salt);
        let evicted_count = index.records().evicted_count.get();
        if evicted_count == 1 && first == word_count {
            first = location;
        }
        if location < word_count * 9 / 10 {
            at_nine_tenths = evicted_count;
        }
    }
    let words = (0..bucket_count).flat_map(|bucket| index.bucket(bucket));
    let left = words.filter(|word| !word.is_empty()).count();
    let evicted_count = index.records().evicted_count.get();
    assert_eq!(left + evicted_count, word_count, "each record is in, or was evicted");
    [first, at_nine_tenths, evicted_count]
}

/// Prints the table of docs/why/index.md.
#[test]
fn an_index_is_mostly_full_before_it_evicts_a_record() {
    let mut rng = Rng::of("load");
    let largest = if cfg!(debug_assertions) { 14 } else { 20 };
    println!("| buckets | first evicted at | least | evicted at 0.9 | evicted at 1.0 |");
    println!("|---|---|---|---|---|");
    for log2 in [6, 10, 14, 17, 20].into_iter().filter(|log2| *log2 <= largest) {
        let bucket_count = 1_usize << log2;
        let word_count = bucket_count * BUCKET_WORDS;
        let runs = (1 << largest >> log2).clamp(3, 20);
        let fills: Vec<[usize; 3]> =
            (0..runs).map(|_| fill(bucket_count, rng.below(usize::MAX) as u64)).collect();
        let mean = |column: usize| {
            let sum: usize = fills.iter().map(|fill| fill[column]).sum();
            sum as f64 / (runs * word_count) as f64
        };
        let least = fills.iter().map(|fill| fill[0]).min().expect("runs");
        let least = least as f64 / word_count as f64;
        let (first, nine_tenths, all) = (mean(0), mean(1), mean(2));
        println!("| 2^{log2} | {first:.3} | {least:.3} | {nine_tenths:.5} | {all:.4} |");
        assert!(least > 0.6, "{bucket_count} buckets: {least}");
        assert!(all < 0.06, "{bucket_count} buckets: {all}");
    }
}
