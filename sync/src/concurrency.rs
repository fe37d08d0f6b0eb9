//! Counts of things in progress that all threads share: a table of fixed size, without a lock.
//!
//! A key selects one cache line, which has 16 entries of 32 bits, two in each word:
//!
//! | bits of an entry | content |
//! |---|---|
//! | 16–31 | a part of the key: the entry's *tag* |
//! | 0–15 | the number of things in progress; 0: the entry is free |
//!
//! A key uses the entry with its tag, else the first free one, else the one with the smallest
//! number, which it then shares with that entry's key: it counts too much rather than too little.
//! If it shares an entry and another entry of the line then becomes free, the key may have both,
//! and so more than its limit. That takes 17 keys in progress that select one line.
//!
//! Each change is one change of one word. Two threads could still give one key two entries, because
//! each finds another entry free. So a thread that has counted reads the line again, and takes its
//! count back if the key has another entry: of two such threads, at least one sees the other. Only
//! if both see each other, or if others count at that moment, a thing may be refused although there
//! are fewer than its limit.

use std::num::NonZeroU32;

use crate::atomic::{AtomicU64, Relaxed, fence};
use crate::words::{LINE_WORDS, LineWords, Words};

const TAG_SHIFT: u32 = 16;
const COUNT_MASK: u32 = (1 << TAG_SHIFT) - 1;

/// The bits of an entry.
const ENTRY_BITS: u32 = 32;

/// The words that a key can use: a cache line. In a model, two words show each race.
const SET_WORDS: usize = if cfg!(loom) { 2 } else { 8 };

/// The entries that a key can use.
const SET_ENTRIES: u32 = 2 * SET_WORDS as u32;

/// Attempts to count. Each failed attempt means that another thread has changed the line.
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

/// The decision of [`ConcurrencyTable::take`].
#[derive(Debug)]
pub struct ConcurrencyDecision {
    /// The entry in which the thing is counted; `None` if the limit is reached.
    pub entry: Option<ConcurrencyEntry>,
    /// Whether the key was counted together with another key, because all its entries belong to
    /// others.
    pub shares: bool,
}

/// An entry that a key can use, and the word that has it.
#[derive(Clone, Copy)]
struct Place {
    number: u32,
    value: u64,
    /// Whether the entry belongs to another key.
    is_others: bool,
}

impl ConcurrencyTable {
    /// Makes a table for `entry_count` keys, in four bytes each. The number is rounded up.
    #[must_use]
    pub fn new(entry_count: u32) -> ConcurrencyTable {
        let word_count = (entry_count.div_ceil(2).max(1) as usize).next_multiple_of(SET_WORDS);
        ConcurrencyTable { words: LineWords::new(word_count) }
    }

    /// Counts one more thing in progress for `key`, unless there are `count_max` of them. `key`
    /// must be a hash under a key that no client knows.
    pub fn take(&self, key: u64, count_max: u16) -> ConcurrencyDecision {
        let (first, tag) = self.locate(key);
        let mut shares = false;
        for _ in 0..ATTEMPTS_MAX {
            let place = self.choose(first, tag);
            shares = place.is_others;
            let (half, count) = (place.number % 2, count_of(place.entry()));
            if count >= u32::from(count_max) {
                break;
            }
            let new = match count {
                0 => tag << TAG_SHIFT | 1,
                _ => place.entry() + 1,
            };
            let others = place.value & !(u64::from(u32::MAX) << (half * ENTRY_BITS));
            let changed = others | u64::from(new) << (half * ENTRY_BITS);
            let word = self.word(place.number);
            if word.compare_exchange(place.value, changed, Relaxed, Relaxed).is_err() {
                continue;
            }
            // ORDER: pairs with itself in another thread. Each has counted the key in its entry,
            // then reads the other entries. One of them sees the other.
            fence("concurrency.take");
            // A key that shares an entry may have one of its own.
            let is_counted = shares || !self.has_other(first, tag, place.number);
            let Some(entry) = NonZeroU32::new(place.number + 1).map(ConcurrencyEntry) else {
                break;
            };
            if is_counted {
                return ConcurrencyDecision { entry: Some(entry), shares };
            }
            self.give_back(entry);
        }
        ConcurrencyDecision { entry: None, shares }
    }

    /// Ends a thing in progress.
    pub fn give_back(&self, entry: ConcurrencyEntry) {
        let number = entry.0.get() - 1;
        let half = number % 2;
        let before = self.word(number).fetch_sub(1 << (half * ENTRY_BITS), Relaxed);
        debug_assert!(count_of(entry_of(before, half)) > 0, "an entry is given back once");
    }

    /// Returns the number of things in progress, which other threads may be changing.
    #[must_use]
    pub fn count(&self) -> u64 {
        let entries = 0..2 * self.words.word_count() as u32;
        let counts =
            entries.map(|number| count_of(entry_of(self.word(number).load(Relaxed), number % 2)));
        counts.map(u64::from).sum()
    }

    /// Returns the entry of the line from `first` on that a tag uses.
    fn choose(&self, first: u32, tag: u32) -> Place {
        let mut smallest: Option<Place> = None;
        for place in self.places(first) {
            if place.is_of(tag) {
                return Place { is_others: false, ..place };
            }
            // A free entry is the one with the smallest number.
            if smallest.is_none_or(|other| count_of(place.entry()) < count_of(other.entry())) {
                smallest = Some(place);
            }
        }
        smallest.expect("a line has entries")
    }

    /// Whether an entry other than the one with this number has a tag.
    fn has_other(&self, first: u32, tag: u32, number: u32) -> bool {
        self.places(first).any(|place| place.number != number && place.is_of(tag))
    }

    fn places(&self, first: u32) -> impl Iterator<Item = Place> {
        (first..first + SET_ENTRIES).step_by(2).flat_map(|number| {
            let value = self.word(number).load(Relaxed);
            [0, 1].map(|half| Place {
                number: number + half,
                value,
                is_others: count_of(entry_of(value, half)) > 0,
            })
        })
    }

    fn word(&self, number: u32) -> &AtomicU64 {
        self.words.word((number / 2) as usize)
    }

    /// Returns the number of the first entry of the line of a key, and the key's tag.
    fn locate(&self, key: u64) -> (u32, u32) {
        let set_count = (self.words.word_count() / SET_WORDS) as u64;
        let index = ((key >> 32) * set_count) >> 32;
        (index as u32 * SET_ENTRIES, key as u32 & COUNT_MASK)
    }
}

impl Place {
    const fn entry(self) -> u32 {
        entry_of(self.value, self.number % 2)
    }

    const fn is_of(self, tag: u32) -> bool {
        count_of(self.entry()) > 0 && self.entry() >> TAG_SHIFT == tag
    }
}

const fn entry_of(value: u64, half: u32) -> u32 {
    (value >> (half * ENTRY_BITS)) as u32
}

const fn count_of(entry: u32) -> u32 {
    entry & COUNT_MASK
}

const _: () = assert!(cfg!(loom) || LINE_WORDS.is_multiple_of(SET_WORDS), "no set crosses a line");

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
