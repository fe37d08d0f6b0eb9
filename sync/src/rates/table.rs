//! The table of a server's rate limits.
//!
//! A key selects a set of [`SET_WORDS`] words, which lie in one cache line, and has at most one
//! word of them:
//!
//! | bits | content |
//! |---|---|
//! | 22–63 | theoretical arrival time, in microseconds, modulo 2⁴² (50 days) |
//! | 5–21 | a part of the key, never 0 |
//! | 0–4 | the logarithm of the rate's interval to the base 4, rounded down |
//!
//! The last two are the word's *tag*. A word whose time has passed is free, and so is a word of
//! zeros. Any thread may change a word, by compare-exchange only.
//!
//! # One word for each key
//!
//! A thread that does not find its key's tag replaces the earliest free word of the set, and of
//! equal words the first. As long as each change of a word moves its time forward, two threads can
//! never give one key two words: let one thread replace `a`, which it saw in word 1, and have seen
//! `d` in word 2; let the other replace `c` in word 2, and have seen `b` in word 1. Neither saw the
//! other's new word, and each replaced the value that it saw, so `b` is not later than `a`, and `d`
//! is not later than `c`. The choices say that `a` is not later than `d`, and `c` not later than
//! `b`: `a` and `c` were free, and a word in use is later than a free one. So all four are equal,
//! and both threads choose the first of the two words: one of them fails. This argument compares
//! only values of the same word, in the order of its own changes, so all accesses may be relaxed.
//!
//! # When a set is full
//!
//! If every word of a set is in use by another key, the new key replaces the word with the smallest
//! *debt*: the requests that its key has used up, as the word's time and interval tell within a
//! factor of four. That key starts again with no debt; a key that has used up its burst stays,
//! unless the others have used up more than a quarter as many requests. The alternatives are worse:
//! to refuse the new key would turn clients away that did nothing, and to admit it without a word
//! would free an attacker who fills the sets from every limit. Only here may a word's time move
//! backward, so that a key may get a second word; [`RateDecision::Admitted`] tells the caller.

use super::cell_rate::{AHEAD_US_MAX, CellRate};
use crate::atomic::{AtomicU64, Relaxed};
use crate::words::{LineWords, Words};

/// The words of a set: a cache line. In a model it has two.
pub(super) const SET_WORDS: usize = if cfg!(loom) { 2 } else { 8 };

/// Attempts to change a word. Each failed attempt means that another thread has changed a word of
/// the set, so the limit is enforced even if the request is refused after all of them.
const ATTEMPTS_MAX: usize = 128;

const CLASS_BITS: u32 = 5;
const TAG_BITS: u32 = 22;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const TIME_MASK: u64 = u64::MAX >> TAG_BITS;

/// A word is in use if its time is at most this far ahead. This is more than a rate permits,
/// because the thread that wrote the word may have read the clock later.
const USED_US_MAX: u64 = AHEAD_US_MAX + 3_600_000_000;

/// How much later than this thread another one may have read the clock before it wrote a word.
const CLOCK_US_MAX: u64 = 60_000_000;

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
        let found = self.find(key, rate, now_us);
        rate.admit(found.own_ahead_us(rate, now_us)).err().unwrap_or(0)
    }

    /// Decides about a request of `key`, and counts it if it is admitted. `key` must be a hash
    /// under a key that no client knows.
    pub fn take(&self, key: u64, rate: CellRate, now_us: u64) -> RateDecision {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.find(key, rate, now_us);
            let new_ahead_us = match rate.admit(found.own_ahead_us(rate, now_us)) {
                Ok(ahead_us) => ahead_us,
                Err(wait_us) => return RateDecision::Refused { wait_us },
            };
            let new = ((now_us + new_ahead_us) & TIME_MASK) << TAG_BITS | tag_of(key, rate);
            // Relaxed: a word says nothing about other memory; see the top of this file.
            if found.word.compare_exchange(found.value, new, Relaxed, Relaxed).is_ok() {
                let replaces = !found.is_own && ahead_us(found.value, now_us) > 0;
                return RateDecision::Admitted { replaces };
            }
        }
        RateDecision::Refused { wait_us: rate.interval_us() }
    }

    /// Returns the key's word; if it has none, the word of its set that it should replace.
    fn find(&self, key: u64, rate: CellRate, now_us: u64) -> FoundWord<'_> {
        // The upper half of the key selects the set, the lower half has the tag.
        let set = ((key >> 32) * self.set_count as u64) >> 32;
        let first = set as usize * SET_WORDS;
        let read = |index| {
            let word = self.words.word(index);
            let value = word.load(Relaxed);
            FoundWord { word, value, is_own: value & TAG_MASK == tag_of(key, rate) }
        };
        let mut best = read(first);
        for index in first + 1..first + SET_WORDS {
            if best.is_own {
                break;
            }
            let other = read(index);
            if other.is_own || rank(other.value, now_us) < rank(best.value, now_us) {
                best = other;
            }
        }
        best
    }
}

impl FoundWord<'_> {
    /// Returns how far the time of the key is ahead of now; 0 if it has passed, or if the key has
    /// no word.
    const fn own_ahead_us(&self, rate: CellRate, now_us: u64) -> u64 {
        let ahead_us = ahead_us(self.value, now_us);
        // No request moves the time further ahead, so the word is 49 days old.
        let is_past = ahead_us > rate.ahead_us_max() + CLOCK_US_MAX;
        if !self.is_own || is_past { 0 } else { ahead_us }
    }
}

/// Returns the tag of the words of a key.
const fn tag_of(key: u64, rate: CellRate) -> u64 {
    let key = key & (TAG_MASK >> CLASS_BITS);
    let key = if key == 0 { 1 } else { key };
    key << CLASS_BITS | rate.interval_us().ilog(4) as u64
}

/// Returns the rank in which words are replaced, the lowest first: free words by their time, then
/// words in use by their debt, then by their time.
const fn rank(value: u64, now_us: u64) -> (u64, u64) {
    let class = (value & ((1 << CLASS_BITS) - 1)) as u32;
    let debt = match ahead_us(value, now_us) {
        0 => 0,
        ahead_us => 1 + (ahead_us >> (2 * class)),
    };
    (debt, order_of(value, now_us))
}

/// Returns the position of a word's time in the 50 days that end [`USED_US_MAX`] from now. Threads
/// with different clocks get the same order.
///
/// A word that does not change for 49 days seems to be in use for the next day, and then free
/// again. On that day, other keys replace other words first, and a limit with an interval of hours
/// may refuse a request of the word's key.
const fn order_of(value: u64, now_us: u64) -> u64 {
    match value {
        0 => 0,
        _ => (value >> TAG_BITS).wrapping_sub(now_us + USED_US_MAX + 1) & TIME_MASK,
    }
}

/// Returns how far the time of a word is ahead of now; 0 if it has passed.
const fn ahead_us(value: u64, now_us: u64) -> u64 {
    order_of(value, now_us).saturating_sub(TIME_MASK - USED_US_MAX)
}
