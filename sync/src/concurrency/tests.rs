//! Tests of the table of counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn taken(table: &ConcurrencyTable, key: u64, count_max: u16) -> Vec<ConcurrencyEntry> {
    std::iter::from_fn(|| table.take(key, count_max).entry).collect()
}

#[test]
fn a_key_has_as_many_as_its_limit_and_those_that_are_given_back() {
    let table = ConcurrencyTable::new(1024);
    for count_max in [1, 2, 7, u16::MAX] {
        let mut held = taken(&table, 5, count_max);
        assert_eq!(held.len(), usize::from(count_max));
        table.give_back(held.pop().expect("at least one"));
        held.extend(taken(&table, 5, count_max));
        assert_eq!(held.len(), usize::from(count_max));
        assert_eq!(table.count(), u64::from(count_max));
        held.into_iter().for_each(|entry| table.give_back(entry));
    }
    assert!(table.words.all().iter().all(|word| word.load(Relaxed) & 0xffff_0000_ffff == 0));
}

#[test]
fn a_lower_limit_admits_none_until_enough_are_given_back() {
    let table = ConcurrencyTable::new(2);
    let mut held = taken(&table, 5, 4);
    assert!(table.take(5, 2).entry.is_none());
    held.drain(..2).for_each(|entry| table.give_back(entry));
    assert!(table.take(5, 2).entry.is_none());
    table.give_back(held.pop().expect("two are left"));
    assert!(table.take(5, 2).entry.is_some());
}

#[test]
fn the_keys_of_one_line_count_apart_and_one_more_counts_with_the_smallest() {
    let table = ConcurrencyTable::new(1);
    let held: Vec<_> = (1..=16).map(|key| taken(&table, key, key as u16 + 2)).collect();
    let counts: Vec<_> = held.iter().map(Vec::len).collect();
    assert_eq!(counts, (3..=18).collect::<Vec<_>>());
    let refused = table.take(17, 3);
    assert!(refused.entry.is_none() && refused.shares, "it shares the entry of the first key");
    let shared = table.take(17, 4);
    assert!(shared.entry.is_some() && shared.shares);
    assert!(table.take(1, 4).entry.is_none());
    let mut held = held.into_iter();
    held.next().into_iter().flatten().for_each(|entry| table.give_back(entry));
    table.give_back(shared.entry.expect("it was counted"));
    // The entry is free again, and belongs to the key that takes it.
    let own = table.take(17, 2);
    assert!(own.entry.is_some() && !own.shares);
    assert_eq!(taken(&table, 17, 2).len(), 1);
    assert!(table.take(2, 4).entry.is_none());
}

#[test]
fn most_keys_of_a_full_server_have_an_entry_of_their_own() {
    // A quarter of a million entries, and keys like hashes.
    let table = ConcurrencyTable::new(1 << 18);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut held = Vec::new();
    for number in 1..=100_000 {
        held.push(table.take(key(number), 1));
    }
    let sharing = held.iter().filter(|decision| decision.shares).count();
    assert!(sharing < 100, "{sharing} of 100,000 keys share an entry");
    assert!(held.iter().all(|decision| decision.entry.is_some() || decision.shares));
}

#[test]
fn threads_never_have_more_than_the_limit_and_give_all_back() {
    const LIMIT: u16 = 3;
    let (table, in_progress) = (Arc::new(ConcurrencyTable::new(2)), Arc::new(AtomicUsize::new(0)));
    let run = || {
        let (table, in_progress) = (Arc::clone(&table), Arc::clone(&in_progress));
        std::thread::spawn(move || {
            let mut admitted = 0;
            for turn in 0..20_000 {
                let Some(entry) = table.take(7, LIMIT).entry else {
                    std::thread::yield_now();
                    continue;
                };
                admitted += 1;
                let count = in_progress.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(count <= usize::from(LIMIT), "{count} in turn {turn}");
                in_progress.fetch_sub(1, Ordering::SeqCst);
                table.give_back(entry);
            }
            admitted
        })
    };
    let threads: Vec<_> = (0..6).map(|_| run()).collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(admitted > 0);
    assert_eq!(taken(&table, 7, LIMIT).len(), usize::from(LIMIT));
}

#[test]
fn threads_never_have_two_entries_for_one_key_while_others_come_and_go() {
    let (table, in_progress) = (ConcurrencyTable::new(2), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for other in 100..103 {
            let table = &table;
            scope.spawn(move || {
                for turn in 0..20_000_u64 {
                    let key = other * 8 + turn % 8;
                    if let Some(entry) = table.take(key, 1).entry {
                        table.give_back(entry);
                    }
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for turn in 0..20_000 {
                    let Some(entry) = table.take(7, 1).entry else { continue };
                    let count = in_progress.fetch_add(1, Ordering::SeqCst) + 1;
                    assert_eq!(count, 1, "in turn {turn}");
                    in_progress.fetch_sub(1, Ordering::SeqCst);
                    table.give_back(entry);
                }
            });
        }
    });
    assert!(table.words.all().iter().all(|word| word.load(Relaxed) & 0xffff_0000_ffff == 0));
}
