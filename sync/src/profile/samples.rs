//! Samples: the call stacks of some waits and failed try-locks, and the time that was lost there.
//!
//! Samples have counts of their own, so the counts of a site do not depend on sampling. An attempt
//! that finds its lock free runs no code of this file.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::attempt::ProfiledSite;
use super::block::{KeySlot, ThreadBlock, add, raise};
use super::hash::hash_words;
use super::plan::{StackPlan, block, header, sample, stack};
use super::shared::{KeyRow, Profile, close_row};

/// The countdown to a thread's next sample.
#[derive(Debug)]
pub(super) struct Sampler {
    left: u64,
}

impl Sampler {
    pub(super) const fn new() -> Sampler {
        Sampler { left: 0 }
    }

    /// Counts a finished wait in a sample, if it is this wait's turn. Returns the index of the
    /// sample, for a delay that begins with this wait.
    #[cold]
    pub(super) fn waited(
        &mut self,
        (profile, block): (&Profile, &ThreadBlock),
        site: &impl ProfiledSite,
        holder: u64,
        ns: u64,
    ) -> Option<usize> {
        let index = self.sample((profile, block), site, holder)?;
        block.add_to_sample(index, sample::WAIT_COUNT, 1);
        block.add_to_sample(index, sample::WAIT_NS, ns);
        raise(block.word_of_sample(index, sample::WAIT_NS_MAX), ns);
        Some(index)
    }

    /// Counts a failed try-lock in a sample, if it is this try-lock's turn. Returns the index of
    /// the sample, for the delay that begins now.
    #[cold]
    pub(super) fn try_failed(
        &mut self,
        (profile, block): (&Profile, &ThreadBlock),
        site: &impl ProfiledSite,
        holder: u64,
    ) -> Option<usize> {
        let index = self.sample((profile, block), site, holder)?;
        block.add_to_sample(index, sample::TRY_FAILED_COUNT, 1);
        Some(index)
    }

    /// Records the call stack, if it is this event's turn, and returns the index of its sample.
    /// Returns `None` if it is not, or if the thread's table of samples is full.
    #[inline(never)]
    fn sample(
        &mut self,
        (profile, block): (&Profile, &ThreadBlock),
        site: &impl ProfiledSite,
        holder: u64,
    ) -> Option<usize> {
        let every = profile.stack_sample();
        if every == 0 || block.samples.is_empty() {
            return None;
        }
        // The rate may have changed after `left` was set.
        self.left = self.left.min(every - 1);
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.left = every - 1;
        let mut frames = [0; StackPlan::MAX.frames as usize];
        let frames = frames.get_mut(..profile.plan().stacks.frames as usize)?;
        let count = site.callers(frames);
        let frames = frames.get(..count)?;
        let waiter = site.key();
        let key = frames.iter().fold(hash_words(&[waiter]), |key, at| hash_words(&[key, *at]));
        block.sample_of(key, (holder, waiter), || profile.describe_stack(key, waiter, frames))
    }
}

impl ThreadBlock {
    /// The index of the sample of a stack and a holder (0 if unknown); `None` if the table is full
    /// for this sample. Calls `is_new` if the sample is new.
    fn sample_of(
        &self,
        stack: u64,
        (holder, waiter): (u64, u64),
        is_new: impl FnOnce(),
    ) -> Option<usize> {
        let key = hash_words(&[holder, stack]);
        let word = |index: usize, word: usize| self.word_of_sample(index, word).load(Relaxed);
        let count = self.samples.len() / sample::WORDS;
        let found = self.probe(key, count, block::SAMPLE_COLLISIONS, |index| {
            match (word(index, sample::HOLDER), word(index, sample::STACK)) {
                (_, 0) => 0,
                found if found == (holder, stack) => key,
                // Any value that is neither 0 nor `key`.
                _ => !key | 1 << 63,
            }
        });
        match found {
            KeySlot::Old(index) => Some(index),
            KeySlot::New(index) => {
                for (at, value) in
                    [(sample::HOLDER, holder), (sample::WAITER, waiter), (sample::STACK, stack)]
                {
                    self.word_of_sample(index, at).store(value, Relaxed);
                }
                self.count(block::SAMPLES_USED);
                is_new();
                Some(index)
            }
            KeySlot::Nowhere => {
                self.count(block::SAMPLES_REJECTED);
                None
            }
        }
    }

    pub(super) fn add_to_sample(&self, index: usize, word: usize, n: u64) {
        add(self.word_of_sample(index, word), n);
    }

    fn word_of_sample(&self, index: usize, word: usize) -> &AtomicU64 {
        &self.samples[index * sample::WORDS + word]
    }
}

impl Profile {
    /// Sets the sampling rate: each thread records the call stack of one in `every` of its waits
    /// and failed try-locks; 0 means none.
    pub fn set_stack_sample(&self, every: u64) {
        self.part(header::STACK_SAMPLE, 1)[0].store(every, Relaxed);
    }

    /// The rate set by [`set_stack_sample`](Profile::set_stack_sample).
    #[must_use]
    pub fn stack_sample(&self) -> u64 {
        self.part(header::STACK_SAMPLE, 1)[0].load(Relaxed)
    }

    /// Writes the call stack of a key into the stack table, for tools. Does nothing if the table
    /// has this key.
    fn describe_stack(&self, key: u64, site: u64, frames: &[u64]) {
        let plan = self.plan();
        let table = (plan.stacks_start(), plan.stacks.stacks as usize, plan.stack_words());
        match self.row_for(key, table, header::STACK_COLLISIONS) {
            KeyRow::Known => {}
            KeyRow::None => self.count(header::STACKS_REJECTED, 1),
            KeyRow::New(row) => {
                self.count(header::STACKS_USED, 1);
                row[stack::SITE].store(site, Relaxed);
                row[stack::FRAME_COUNT].store(frames.len() as u64, Relaxed);
                for (word, frame) in row[stack::FIXED_WORDS..].iter().zip(frames) {
                    word.store(*frame, Relaxed);
                }
                close_row(key, row);
            }
        }
    }
}
