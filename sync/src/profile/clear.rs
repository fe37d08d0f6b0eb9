//! When a block begins a generation: tools look at it only if its generation is the profile's.
//!
//! Invariant: who finds the generation finds nothing that was counted before it.

use crate::atomic::{AtomicU64, Relaxed, release};

/// Makes all counts zero, then says for which generation they are.
pub(super) fn clear<'a>(
    current: &AtomicU64,
    generation: u64,
    counts: impl Iterator<Item = &'a AtomicU64>,
) {
    for count in counts {
        // What is zero stays untouched: most of a block is.
        if count.load(Relaxed) != 0 {
            count.store(0, Relaxed);
        }
    }
    // ORDER: pairs with whoever reads the generation before the counts: tools, which read the file.
    current.store(generation, release("profile.clear"));
}
