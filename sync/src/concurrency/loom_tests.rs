//! Models of the table: a key that finds other entries free in each thread.

use std::sync::Arc;

use loom::thread;

use super::{ConcurrencyEntry, ConcurrencyTable};
use crate::model::{breaks, holds};

fn take(table: &ConcurrencyTable, key: u64, count_max: u16) -> Option<ConcurrencyEntry> {
    table.take(key, count_max).entry
}

/// A key that has none is taken in two threads while both entries of the first word become free.
fn taken(count_max: u16) -> usize {
    let table = Arc::new(ConcurrencyTable::new(4));
    let others: Vec<_> = [7, 8].map(|key| take(&table, key, 1)).into_iter().flatten().collect();
    let other = {
        let table = Arc::clone(&table);
        thread::spawn(move || take(&table, 1, count_max))
    };
    others.into_iter().for_each(|entry| table.give_back(entry));
    let own = take(&table, 1, count_max);
    let other = other.join().unwrap();
    let held: Vec<_> = own.into_iter().chain(other).collect();
    let count = held.len();
    held.into_iter().for_each(|entry| table.give_back(entry));
    assert!(take(&table, 1, 1).is_some(), "all is given back");
    count
}

#[test]
fn two_threads_have_no_more_than_the_limit_in_two_entries() {
    holds("concurrency: one place, two threads", || assert!(taken(1) <= 1));
    breaks("concurrency.take", "concurrency: one place, two threads", || assert!(taken(1) <= 1));
}
