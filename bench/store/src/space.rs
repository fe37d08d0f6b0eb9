//! Measures the memory of a record in addition to key, head and body, and the cost of storing a
//! record.

use forebay_cache::Store;

use crate::caches::{BODY, config, put};
use crate::lookup::keys;
use crate::time::Spent;

/// The length of a record's header.
const HEADER_BYTES: f64 = 40.0;

/// Prints the statistics of a store with all keys.
pub(crate) fn print(key_count: usize) {
    let keys = keys(key_count);
    let store = Store::open(config(key_count)).expect("the budget suffices");
    let worker = store.join().expect("the first");
    let spent = Spent::by(|| keys.iter().for_each(|key| put(&worker, key)));
    let stats = store.stats();
    let payload = (keys[0].len() + 1 + BODY.len()) as f64;
    let count = key_count as f64;
    let index = 8.0 * stats.index_word_count as f64 / count;
    let rounding = stats.live_bytes as f64 / count - payload - HEADER_BYTES;
    println!("| {key_count} records of {payload} bytes | |\n|---|--:|");
    println!("| header | {HEADER_BYTES} B |");
    println!("| index, if only its words in use are counted | 8 B |");
    println!("| index, all of its words | {index:.1} B |");
    println!("| rounding up to units of 64 bytes | {rounding:.1} B |");
    println!("| storing one, processor time | {:.0} ns |", spent.cpu_ns / count);
}
