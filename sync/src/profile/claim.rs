//! The owners of the blocks: each block has one word, which is 0 while the block is free.
//!
//! Invariants:
//! - A block has one owner at a time, and only the owner writes to it.
//! - A thread that takes a block sees everything that its former owners wrote.

use crate::atomic::{AtomicU64, Relaxed, acquire, release};

/// Takes the first free block for the thread `tid`, which is not 0. Returns the block's index, or
/// `None` if no block is free.
pub(super) fn take(owners: &[AtomicU64], tid: u64) -> Option<usize> {
    owners.iter().position(|owner| {
        // ORDER: pairs with the release in `give_back`: we continue the counts of the former owner.
        let order = acquire("profile.take");
        owner.load(Relaxed) == 0 && owner.compare_exchange(0, tid, order, Relaxed).is_ok()
    })
}

/// Gives a block back. Its contents stay.
pub(super) fn give_back(owner: &AtomicU64) {
    // ORDER: pairs with the acquire in `take`: the next owner finds what we wrote.
    owner.store(0, release("profile.give_back"));
}
