//! Counts of things in progress that all threads share: a table of fixed size, without a lock.
//!
//! A key selects one word, which has two entries of 32 bits:
//!
//! | bits of an entry | content |
//! |---|---|
//! | 16–31 | a part of the key: the entry's *tag* |
//! | 0–15 | the number of things in progress; 0: the entry is free |
//!
//! A key uses the entry with its tag, else a free one, else the one with the smaller number, which
//! it then shares with that entry's key: it counts too much rather than too little. If it shares an
//! entry and the other entry of the word then becomes free, the key may have both, and so more than
//! its limit. That takes three keys in progress that select one word.
//!
//! Each change is one change of one word, and a word says nothing about other memory, so all
//! accesses are relaxed, and there is no interleaving to model.

use std::num::NonZeroU32;

use crate::atomic::{AtomicU64, Relaxed};
use crate::words::{LineWords, Words};

const TAG_SHIFT: u32 = 16;
const COUNT_MASK: u32 = (1 << TAG_SHIFT) - 1;

/// The bits of an entry.
const ENTRY_BITS: u32 = 32;

/// Attempts to change a word. Each failed attempt means that another thread has changed it.
const ATTEMPTS_MAX: usize = 128;

/// The numbers of things in progress.
#[derive(Debug)]
pub struct ConcurrencyTable {
    words: LineWords,
}

/// An entry in which a thing in progress is counted, until it is passed to
/// [`ConcurrencyTable::give_back`].
#[derive(Debug)]
#[must_use = "the thing stays in progress until its entry is given back"]
pub struct ConcurrencyEntry(NonZeroU32);

impl ConcurrencyTable {
    /// Makes a table for `entry_count` keys, in four bytes each. The number is rounded up.
    #[must_use]
    pub fn new(entry_count: u32) -> ConcurrencyTable {
        ConcurrencyTable { words: LineWords::new(entry_count.div_ceil(2).max(1) as usize) }
    }

    /// Counts one more thing in progress for `key`; returns `None` if there are `count_max` of
    /// them. `key` must be a hash under a key that no client knows.
    pub fn take(&self, key: u64, count_max: u16) -> Option<ConcurrencyEntry> {
        let (index, tag) = self.locate(key);
        let word = self.words.word(index as usize);
        let mut value = word.load(Relaxed);
        for _ in 0..ATTEMPTS_MAX {
            let half = select(value, tag);
            let entry = entry_of(value, half);
            if count_of(entry) >= u32::from(count_max) {
                return None;
            }
            let new = match count_of(entry) {
                0 => tag << TAG_SHIFT | 1,
                _ => entry + 1,
            };
            let others = value & !(u64::from(u32::MAX) << (half * ENTRY_BITS));
            let changed = others | u64::from(new) << (half * ENTRY_BITS);
            match word.compare_exchange(value, changed, Relaxed, Relaxed) {
                Ok(_) => return number_of(index, half).map(ConcurrencyEntry),
                Err(found) => value = found,
            }
        }
        None
    }

    /// Ends a thing in progress.
    pub fn give_back(&self, entry: ConcurrencyEntry) {
        let number = entry.0.get() - 1;
        let half = number % 2;
        let before = self.word(number).fetch_sub(1 << (half * ENTRY_BITS), Relaxed);
        debug_assert!(count_of(entry_of(before, half)) > 0, "an entry is given back once");
    }

    fn word(&self, number: u32) -> &AtomicU64 {
        self.words.word((number / 2) as usize)
    }

    /// Returns the index of the word of a key, and its tag.
    fn locate(&self, key: u64) -> (u32, u32) {
        let index = ((key >> 32) * self.words.word_count() as u64) >> 32;
        (index as u32, key as u32 & COUNT_MASK)
    }
}

/// Returns the number of an entry, from 1; `None` if the table is larger than its maker permits.
fn number_of(index: u32, half: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(index * 2 + half + 1)
}

/// Returns the half of a word that a tag uses.
const fn select(value: u64, tag: u32) -> u32 {
    let (first, second) = (entry_of(value, 0), entry_of(value, 1));
    let (count, other) = (count_of(first), count_of(second));
    let is_own = count > 0 && first >> TAG_SHIFT == tag;
    let is_others = other > 0 && second >> TAG_SHIFT == tag;
    // A free entry is the one with the smaller number.
    match (is_own, is_others) {
        (true, _) => 0,
        (_, true) => 1,
        _ => (other < count) as u32,
    }
}

const fn entry_of(value: u64, half: u32) -> u32 {
    (value >> (half * ENTRY_BITS)) as u32
}

const fn count_of(entry: u32) -> u32 {
    entry & COUNT_MASK
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn taken(table: &ConcurrencyTable, key: u64, count_max: u16) -> Vec<ConcurrencyEntry> {
        std::iter::from_fn(|| table.take(key, count_max)).collect()
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
            held.into_iter().for_each(|entry| table.give_back(entry));
        }
        assert!(table.words.all().iter().all(|word| word.load(Relaxed) & 0xffff_0000_ffff == 0));
    }

    #[test]
    fn a_lower_limit_admits_none_until_enough_are_given_back() {
        let table = ConcurrencyTable::new(2);
        let mut held = taken(&table, 5, 4);
        assert!(table.take(5, 2).is_none());
        held.drain(..2).for_each(|entry| table.give_back(entry));
        assert!(table.take(5, 2).is_none());
        table.give_back(held.pop().expect("two are left"));
        assert!(table.take(5, 2).is_some());
    }

    #[test]
    fn two_keys_of_one_word_count_apart_and_a_third_counts_with_the_smaller() {
        let table = ConcurrencyTable::new(1);
        let (one, two) = (taken(&table, 1, 3), taken(&table, 2, 5));
        assert_eq!((one.len(), two.len()), (3, 5));
        assert!(table.take(3, 3).is_none(), "the third key shares the entry of the first");
        let shared = table.take(3, 4).expect("the shared entry has three");
        assert!(table.take(1, 4).is_none());
        one.into_iter().for_each(|entry| table.give_back(entry));
        table.give_back(shared);
        // The entry is free again, and belongs to the key that takes it.
        assert_eq!(taken(&table, 3, 2).len(), 2);
        assert!(table.take(2, 5).is_none());
    }

    #[test]
    fn threads_never_have_more_than_the_limit_and_give_all_back() {
        const LIMIT: u16 = 3;
        let (table, in_progress) =
            (Arc::new(ConcurrencyTable::new(2)), Arc::new(AtomicUsize::new(0)));
        let run = || {
            let (table, in_progress) = (Arc::clone(&table), Arc::clone(&in_progress));
            std::thread::spawn(move || {
                let mut admitted = 0;
                for turn in 0..20_000 {
                    let Some(entry) = table.take(7, LIMIT) else {
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
}
