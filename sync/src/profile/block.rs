//! The block of one thread, with its rows and pairs. Only that thread writes to the block, so a
//! load and a store suffice to add to a count.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::clear::clear;
use super::hash::hash_words;
use super::holds::Holds;
use super::plan::{KEYS_START, ProfilePlan, block, bucket_of, pair, row, sample};
use super::shared::{Profile, word_of};

/// The number of rows or pairs that a probe visits before the table counts as full for a key.
const PROBES_MAX: usize = 16;

/// The index of the shared row, for all keys that find no row of their own.
const OTHERS: usize = 0;

/// The identity of a thread, for tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadIdentity {
    /// The thread id. In the owner word of a block, where 0 means free, a thread id of 0 becomes 1.
    pub tid: u32,
    /// The name, padded with zeros.
    pub name: [u8; 16],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadBlock {
    /// The index of the block.
    pub(super) index: usize,
    head: &'static BlockHead,
    keys: &'static [AtomicU64],
    rows: &'static [BlockRow],
    pairs: &'static [BlockPair],
    pub(super) holds: Holds,
    pub(super) samples: &'static [AtomicU64],
}

type BlockHead = [AtomicU64; block::HEAD_WORDS];
type BlockRow = [AtomicU64; row::WORDS];
type BlockPair = [AtomicU64; pair::WORDS];

/// The result of a probe for a key.
pub(super) enum KeySlot {
    Old(usize),
    New(usize),
    Nowhere,
}

impl ThreadBlock {
    pub(super) fn of(profile: &Profile, index: usize) -> ThreadBlock {
        let plan: &ProfilePlan = profile.plan();
        let all = profile.block(index);
        let (head, _) = all.split_first_chunk().expect("a block is longer than its head");
        let (rows, _) = all[plan.rows_start()..plan.pairs_start()].as_chunks();
        let (pairs, _) = all[plan.pairs_start()..].as_chunks();
        ThreadBlock {
            index,
            head,
            keys: &all[KEYS_START..][..plan.rows as usize],
            rows: &rows[..plan.rows as usize + 1],
            pairs: &pairs[..plan.pairs as usize],
            holds: Holds::of(all),
            samples: &all[plan.samples_start()..][..plan.stacks.samples as usize * sample::WORDS],
        }
    }

    /// Prepares the block for a new owner: writes the owner's identity and clears the holds.
    pub(super) fn enter(&self, thread: &ThreadIdentity) {
        let (first, second) = thread.name.split_at(8);
        self.head[block::TID].store(thread.tid.into(), Relaxed);
        self.head[block::NAME].store(word_of(first), Relaxed);
        self.head[block::NAME + 1].store(word_of(second), Relaxed);
        add(&self.head[block::OWNERS], 1);
        self.holds.clear();
    }

    pub(super) fn generation(&self) -> u64 {
        self.head[block::GENERATION].load(Relaxed)
    }

    /// Clears the counts and begins a generation. Holds stay, since they have not ended.
    #[cold]
    pub(super) fn clear(&self, generation: u64) {
        self.head[block::OWNERS].store(1, Relaxed);
        let counts = self.head[block::ROWS_USED..block::HOLDS_USED].iter().chain(self.keys);
        let counts = counts.chain(self.rows.as_flattened()).chain(self.pairs.as_flattened());
        let counts = counts.chain(self.samples);
        clear(&self.head[block::GENERATION], generation, counts);
    }

    #[inline]
    pub(super) fn count(&self, index: usize) {
        add(&self.head[index], 1);
    }

    /// The index of a key's row, or of the shared row if the table is full for this key. Calls
    /// `is_new` if the key gets its row now.
    #[inline]
    pub(super) fn row_of(&self, key: u64, is_new: impl FnOnce()) -> usize {
        let first = key as usize & (self.keys.len() - 1);
        if self.keys[first].load(Relaxed) == key {
            return first + 1;
        }
        self.probe_row(key, is_new)
    }

    #[inline(never)]
    fn probe_row(&self, key: u64, is_new: impl FnOnce()) -> usize {
        let found = self.probe(key, self.keys.len(), block::ROW_COLLISIONS, |index| {
            self.keys[index].load(Relaxed)
        });
        match found {
            KeySlot::Old(index) => index + 1,
            KeySlot::New(index) => {
                self.keys[index].store(key, Relaxed);
                self.count(block::ROWS_USED);
                is_new();
                index + 1
            }
            KeySlot::Nowhere => {
                self.count(block::ROWS_REJECTED);
                OTHERS
            }
        }
    }

    /// Whether the key has a row. Unlike [`row_of`](ThreadBlock::row_of), this changes no count.
    #[cold]
    pub(super) fn has(&self, key: u64) -> bool {
        let mask = self.keys.len() - 1;
        let places = (0..self.keys.len().min(PROBES_MAX))
            .map(|probe| (key as usize).wrapping_add(probe) & mask);
        let mut found = places.map(|index| self.keys[index].load(Relaxed));
        found.find(|found| *found == key || *found == 0) == Some(key)
    }

    /// Whether this row belongs to this key, or is the shared row.
    pub(super) fn is_row_of(&self, row: usize, key: u64) -> bool {
        row == OTHERS || self.keys.get(row - 1).is_some_and(|found| found.load(Relaxed) == key)
    }

    /// The index of the pair of a holder's site (0 if unknown) and a waiter's site; `None` if the
    /// table is full for this pair.
    #[cold]
    pub(super) fn pair_of(&self, holder: u64, waiter: u64) -> Option<usize> {
        let key = hash_words(&[holder, waiter]);
        let word = |index: usize, word: usize| self.pairs[index][word].load(Relaxed);
        let found = self.probe(key, self.pairs.len(), block::PAIR_COLLISIONS, |index| {
            match (word(index, pair::HOLDER), word(index, pair::WAITER)) {
                (_, 0) => 0,
                found if found == (holder, waiter) => key,
                // Any value that is neither 0 nor `key`.
                _ => !key | 1 << 63,
            }
        });
        match found {
            KeySlot::Old(index) => Some(index),
            KeySlot::New(index) => {
                self.pairs[index][pair::HOLDER].store(holder, Relaxed);
                self.pairs[index][pair::WAITER].store(waiter, Relaxed);
                self.count(block::PAIRS_USED);
                Some(index)
            }
            KeySlot::Nowhere => {
                self.count(block::PAIRS_REJECTED);
                None
            }
        }
    }

    /// Searches a table of `rows` rows for a key, from the index in the key's low bits on. `at`
    /// returns the key at an index, or 0 if the row is free. The word `counter` counts the visited
    /// rows of other keys.
    pub(super) fn probe(
        &self,
        key: u64,
        rows: usize,
        counter: usize,
        at: impl Fn(usize) -> u64,
    ) -> KeySlot {
        for probe in 0..rows.min(PROBES_MAX) {
            let index = (key as usize).wrapping_add(probe) & (rows - 1);
            match at(index) {
                0 => return KeySlot::New(index),
                found if found == key => return KeySlot::Old(index),
                _ => self.count(counter),
            }
        }
        KeySlot::Nowhere
    }

    /// The row at an index, or the shared row if the index is too large: it may come from the file,
    /// which other programs may write.
    #[inline(always)]
    pub(super) fn row(&self, index: usize) -> &'static BlockRow {
        self.rows.get(index).unwrap_or(&self.rows[OTHERS])
    }

    pub(super) fn pair(&self, index: usize) -> &'static BlockPair {
        &self.pairs[index]
    }
}

/// Adds a time to a sum and to a histogram, and raises the maximum in the word after the sum.
#[inline(always)]
pub(super) fn add_time(row: &BlockRow, word: usize, buckets: usize, ns: u64) {
    add_max(row, word, ns);
    add(&row[buckets + bucket_of(ns)], 1);
}

/// Adds to a sum, and raises the maximum in the word after it.
#[inline(always)]
pub(super) fn add_max(row: &BlockRow, word: usize, ns: u64) {
    add(&row[word], ns);
    raise(&row[word + 1], ns);
}

#[inline(always)]
pub(super) fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}

#[inline(always)]
pub(super) fn raise(word: &AtomicU64, ns: u64) {
    if word.load(Relaxed) < ns {
        word.store(ns, Relaxed);
    }
}
