//! Models of the table of rate limits: threads with different clocks take from one key.
//!
//! All accesses are relaxed, so there is no ordering to weaken.

use std::sync::Arc;

use loom::thread;

use super::{CellRate, RateDecision, RateTable};
use crate::model::holds;

const HOUR_US: u64 = 3_600_000_000;

/// A set of two words that belong to other keys, the first until 20 µs and the second until 15 µs.
/// A thread whose clock shows 17 µs finds one of them free, a thread with a later clock both.
fn table() -> Arc<RateTable> {
    let table = RateTable::new(2);
    for (key, until_us) in [(7, 20), (8, 15)] {
        let rate = CellRate::new(1, until_us, 1).unwrap();
        assert_eq!(table.take(key, rate, 0), RateDecision::Admitted { replaces: false });
    }
    Arc::new(table)
}

/// Takes `count` times from a key in two threads, whose clocks show `now_us`; returns the number of
/// admitted requests.
fn taken(keys: [u64; 2], now_us: [u64; 2], burst: u64, count: usize) -> usize {
    let table = table();
    let rate = CellRate::new(1, HOUR_US, burst).unwrap();
    let take = move |table: &RateTable, index: usize| {
        let decide = |_| table.take(keys[index], rate, now_us[index]);
        let is_admitted = |it: &RateDecision| matches!(it, RateDecision::Admitted { .. });
        (0..count).map(decide).filter(is_admitted).count()
    };
    let other = {
        let table = Arc::clone(&table);
        thread::spawn(move || take(&table, 1))
    };
    let own = take(&table, 0);
    own + other.join().unwrap()
}

#[test]
fn two_threads_admit_no_more_than_the_limit() {
    holds("rates: one request, two threads", || assert_eq!(taken([1, 1], [17, 30], 1, 2), 1));
    holds("rates: one request, clocks swapped", || assert_eq!(taken([1, 1], [30, 17], 1, 2), 1));
    holds("rates: two requests, two threads", || assert_eq!(taken([1, 1], [17, 30], 2, 2), 2));
}

#[test]
fn two_keys_in_one_set_have_a_burst_each() {
    holds("rates: two keys in one set", || {
        assert_eq!(taken([1, 2], [30, 40], 1, 2), 2);
    });
}
