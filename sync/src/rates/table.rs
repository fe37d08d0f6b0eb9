//! The table of a server's rate limits.
//!
//! A key selects a set of [`SET_WORDS`] words, which lie in one cache line, and has at most one
//! word of them:
//!
//! | bits | content |
//! |---|---|
//! | 20–63 | theoretical arrival time, in microseconds, modulo 2⁴⁴ (203 days) |
//! | 0–19 | tag: a part of the key, never 0 |
//!
//! A word whose time has passed is free, and so is a word of zeros. Any thread may change a word,
//! by compare-exchange only.
//!
//! # One word for each key
//!
//! A thread that does not find its key's tag replaces the earliest word of the set, and of equal
//! words the first. As long as each change of a word moves its time forward, two threads can never
//! give one key two words: let one thread replace `a`, which it saw in word 1, and have seen `d` in
//! word 2; let the other replace `c` in word 2, and have seen `b` in word 1. Neither saw the
//! other's new word, and each replaced the value that it saw, so `b` is not later than `a`, and `d`
//! is not later than `c`. The choices say that `a` is not later than `d`, and `c` not later than
//! `b`. So all four are equal, and both threads choose the first of the two words: one of them
//! fails. This argument compares only values of the same word, in the order of its own changes, so
//! all accesses may be relaxed.
//!
//! # When a set is full
//!
//! If every word of a set is in use by another key, the new key replaces the word that would be
//! free first. Its key has the least debt, and starts again with none; a key that has used up its
//! limit stays. The alternatives are worse: to refuse the new key would turn clients away that did
//! nothing, and to admit it without a word would free an attacker who fills the sets from every
//! limit. Only here may a word's time move backward, so that a key may get a second word;
//! [`RateDecision::Admitted`] tells the caller.

use super::cell_rate::{AHEAD_US_MAX, CellRate};
use crate::atomic::{AtomicU64, Relaxed};
use crate::words::{LineWords, Words};

/// The words of a set: a cache line. In a model it has two.
pub(super) const SET_WORDS: usize = if cfg!(loom) { 2 } else { 8 };

/// Attempts to change a word. Each failed attempt means that another thread has changed a word of
/// the set, so the limit is enforced even if the request is refused after all of them.
const ATTEMPTS_MAX: usize = 128;

const TAG_BITS: u32 = 20;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const TIME_MASK: u64 = u64::MAX >> TAG_BITS;

/// A word is in use if its time is at most this far ahead. This is more than a rate permits,
/// because the thread that wrote the word may have read the clock later.
const USED_US_MAX: u64 = AHEAD_US_MAX + 3_600_000_000;

/// The theoretical arrival times of keys.
#[derive(Debug)]
pub struct RateTable {
    words: LineWords,
    set_count: usize,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// The request is admitted, and counted.
    Admitted {
        /// Whether another key lost its state, because its set of words was full.
        replaces: bool,
    },
    /// The request is refused. The same request would be admitted after this time.
    Refused {
        /// The time in microseconds; at least 1.
        wait_us: u64,
    },
}

/// A word of a set as it was read.
#[derive(Clone, Copy)]
struct FoundWord<'a> {
    word: &'a AtomicU64,
    value: u64,
    /// Whether the word belongs to the key.
    is_own: bool,
}

impl RateTable {
    /// Makes a table for `entry_count` keys, rounded up to whole lines, in eight bytes each.
    #[must_use]
    pub fn new(entry_count: usize) -> RateTable {
        let words = LineWords::new(entry_count.max(SET_WORDS));
        RateTable { set_count: words.word_count() / SET_WORDS, words }
    }

    /// Returns the microseconds after which a request of `key` would be admitted; 0: it would be
    /// admitted now. Counts nothing.
    #[must_use]
    pub fn wait_us(&self, key: u64, rate: CellRate, now_us: u64) -> u64 {
        let found = self.find(key, now_us);
        let ahead_us = if found.is_own { ahead_us(found.value, now_us) } else { 0 };
        rate.admit(ahead_us).err().unwrap_or(0)
    }

    /// Decides about a request of `key`, and counts it if it is admitted. `key` must be a hash
    /// under a key that no client knows.
    pub fn take(&self, key: u64, rate: CellRate, now_us: u64) -> RateDecision {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.find(key, now_us);
            let used_us = ahead_us(found.value, now_us);
            let new_ahead_us = match rate.admit(if found.is_own { used_us } else { 0 }) {
                Ok(ahead_us) => ahead_us,
                Err(wait_us) => return RateDecision::Refused { wait_us },
            };
            let new = ((now_us + new_ahead_us) & TIME_MASK) << TAG_BITS | tag_of(key);
            // Relaxed: a word says nothing about other memory; see the top of this file.
            if found.word.compare_exchange(found.value, new, Relaxed, Relaxed).is_ok() {
                return RateDecision::Admitted { replaces: !found.is_own && used_us > 0 };
            }
        }
        RateDecision::Refused { wait_us: rate.interval_us() }
    }

    /// Returns the key's word; if it has none, the earliest word of its set.
    fn find(&self, key: u64, now_us: u64) -> FoundWord<'_> {
        // The upper half of the key selects the set, the lower half has the tag.
        let set = ((key >> 32) * self.set_count as u64) >> 32;
        let first = set as usize * SET_WORDS;
        let read = |index| {
            let word = self.words.word(index);
            let value = word.load(Relaxed);
            FoundWord { word, value, is_own: value & TAG_MASK == tag_of(key) }
        };
        let mut earliest = read(first);
        for index in first + 1..first + SET_WORDS {
            if earliest.is_own {
                break;
            }
            let other = read(index);
            if other.is_own || order_of(other.value, now_us) < order_of(earliest.value, now_us) {
                earliest = other;
            }
        }
        earliest
    }
}

const fn tag_of(key: u64) -> u64 {
    let tag = key & TAG_MASK;
    if tag == 0 { 1 } else { tag }
}

/// Returns the position of a word's time in the 203 days that end [`USED_US_MAX`] from now. Threads
/// with different clocks get the same order.
///
/// A word that does not change for 202 days seems to be in use for the next day, and then free
/// again. A request of its key may be refused on that day.
const fn order_of(value: u64, now_us: u64) -> u64 {
    (value >> TAG_BITS).wrapping_sub(now_us + USED_US_MAX + 1) & TIME_MASK
}

/// Returns how far the time of a word is ahead of now; 0 if it has passed.
const fn ahead_us(value: u64, now_us: u64) -> u64 {
    order_of(value, now_us).saturating_sub(TIME_MASK - USED_US_MAX)
}
