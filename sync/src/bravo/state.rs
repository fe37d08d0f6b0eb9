//! The state word of a lock. The lock's readers write the same word into their slots.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `BIAS` | readers may skip the underlying lock |
//! | 1 | `PROCESS` | the writer's barrier is a `membarrier`, the readers execute no fence |
//! | 2–63 | number | the number of this lock; no two locks of a process ever have the same number |
//!
//! Legal states: zero (never biased; no number yet), a number without `BIAS`, a number with `BIAS`.
//! Bits 1–63 never change once they are set. A slot holds zero or the word of a lock with `BIAS`.
//! The number, not the address, names the lock: a guard that was forgotten keeps its slot for ever,
//! and another lock at the same address must not wait for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::barrier::Barrier;

/// Readers may skip the underlying lock.
pub(super) const BIAS: u64 = 1;

/// The writer's barrier is a `membarrier`.
const PROCESS: u64 = 1 << 1;

const NUMBER_ONE: u64 = 1 << 2;

/// Gives a lock its number, and returns its state word, without `BIAS`.
pub(super) fn first_word(barrier: Barrier) -> u64 {
    // 2^62 locks are more than a process can make.
    static NEXT: AtomicU64 = AtomicU64::new(NUMBER_ONE);
    let process = if barrier.is_process() { PROCESS } else { 0 };
    NEXT.fetch_add(NUMBER_ONE, Relaxed) | process
}

/// The barrier that readers and writers of this lock use.
#[inline(always)]
pub(super) fn barrier(word: u64) -> Barrier {
    // If the bit is set, `first_word` was given a barrier of `Barrier::process`.
    Barrier::remembered(word & PROCESS != 0)
}
