//! Tests of the index: one thread against a map, many threads, and filling until records are
//! evicted.
//!
//! Random tests print their seed. The records are in plain memory, so ThreadSanitizer sees a reader
//! that overlaps a writer.

use std::sync::Arc;

use forebay_cache::index::{Index, KeyHash, Records, words_needed};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords};

// `load` and `oracle` use one thread each, so ThreadSanitizer would find nothing.
#[cfg(not(tsan))]
mod load;
#[cfg(not(tsan))]
mod oracle;
mod threads;

type Row = PinRow<Arc<LineWords>>;

/// An empty index.
fn index<R: Records>(bucket_count: usize, records: R) -> Index<Arc<LineWords>, R> {
    let words = LineWords::new(words_needed(bucket_count).expect("small"));
    // SAFETY: each test has one table of pins, and reuses a location only when no pin protects it.
    unsafe { Index::new(Arc::new(words), bucket_count, records) }.expect("its words")
}

fn pins(rows: usize, segments: usize, barrier: Barrier) -> Pins<Arc<LineWords>> {
    let needed = Pins::<LineWords>::words_needed(rows, segments).expect("small");
    Pins::new(Arc::new(LineWords::new(needed)), rows, segments, barrier).expect("its words")
}

fn row(pins: &Pins<Arc<LineWords>>, number: usize) -> Row {
    // SAFETY: each test takes a row once.
    unsafe { pins.row(number) }.expect("a row")
}

/// 64 well mixed bits.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A hash whose fingerprint, the low 22 bits, has few values, so that many keys share a
/// fingerprint.
fn poor_hash(key: u64, fingerprints: u64) -> KeyHash {
    KeyHash::new(mixed(key + 1) >> 22 << 22 | poor_fingerprint(key, fingerprints))
}

fn poor_fingerprint(key: u64, fingerprints: u64) -> u64 {
    1 + key % fingerprints
}
