//! The words of the slots of a counter file, for writers and readers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::definition::{CounterDef, CounterKind};
use crate::layout::Header;
use crate::map::{WORD_BYTES, Words};
use crate::value::{Bucket, CounterValue, HistogramValue};

/// A mapped file and the layout of its slots.
pub(crate) struct Slots {
    pub(crate) words: Words,
    pub(crate) header: Header,
    /// The number of words in use in each slot.
    pub(crate) word_count: usize,
}

impl Slots {
    /// The index of the first word of a slot.
    pub(crate) fn first_word(&self, slot: usize) -> usize {
        let slot_count = self.header.slot_count;
        assert!(slot < slot_count, "the file has {slot_count} slots, so there is no slot {slot}");
        (self.header.slots_offset + slot * self.header.slot_stride_bytes) / WORD_BYTES
    }

    /// One word of one slot.
    pub(crate) fn value(&self, slot: usize, word: usize) -> u64 {
        let word_count = self.word_count;
        assert!(
            word < word_count,
            "slot {slot} of the counters has {word_count} words, so there is no word {word}"
        );
        load(&self.words.all()[self.first_word(slot) + word])
    }

    /// One word, summed over all slots.
    pub(crate) fn sum(&self, word: usize) -> u64 {
        let slots = 0..self.header.slot_count;
        slots.fold(0, |sum, slot| sum.wrapping_add(self.value(slot, word)))
    }

    /// The values of the counters, in the order of `defs`, which must be the definitions of this
    /// file.
    pub(crate) fn values<'a, S, B: AsRef<[u64]>>(
        &'a self,
        defs: &'a [CounterDef<S, B>],
    ) -> impl Iterator<Item = (&'a CounterDef<S, B>, CounterValue)> {
        let mut next = 0;
        defs.iter().map(move |def| {
            let first = next;
            next += def.kind.word_count();
            let value = match &def.kind {
                CounterKind::Histogram(bounds) => {
                    CounterValue::Histogram(self.histogram(first, bounds.as_ref()))
                }
                CounterKind::Counter | CounterKind::Gauge => CounterValue::Number(self.sum(first)),
            };
            (def, value)
        })
    }

    fn histogram(&self, first: usize, bounds: &[u64]) -> HistogramValue {
        let all = bounds.iter().copied().map(Some).chain([None]);
        let bucket = |(index, bound)| Bucket { bound, count: self.sum(first + index) };
        let buckets: Vec<_> = all.enumerate().map(bucket).collect();
        HistogramValue { sum: self.sum(first + buckets.len()), buckets }
    }
}

/// Loads a word. Words are little-endian on any machine, because the mapping is also a file.
pub(crate) fn load(word: &AtomicU64) -> u64 {
    u64::from_le(word.load(Ordering::Relaxed))
}

pub(crate) fn store(word: &AtomicU64, value: u64) {
    word.store(value.to_le(), Ordering::Relaxed);
}
