//! Clearing a block for a new generation. Tools read the counts of a block only if the block's
//! generation is the profile's.
//!
//! Invariant: a reader that sees the new generation sees no count of an earlier one.

use crate::atomic::{AtomicU64, Relaxed, release};

/// Sets all counts to zero, then stores the generation.
pub(super) fn clear<'a>(
    current: &AtomicU64,
    generation: u64,
    counts: impl Iterator<Item = &'a AtomicU64>,
) {
    for count in counts {
        // Most of a block is zero already, and is not written again.
        if count.load(Relaxed) != 0 {
            count.store(0, Relaxed);
        }
    }
    // ORDER: pairs with tools, which read the generation from the file before the counts.
    current.store(generation, release("profile.clear"));
}
