//! Two models: two threads take one block, one after the other; and a tool reads a block while its
//! owner clears it.

use loom::sync::Arc;
use loom::thread;

use super::claim::{give_back, take};
use super::clear::clear;
use crate::atomic::{AtomicU64, Ordering, Relaxed, UnsafeCell};
use crate::model::{breaks, holds};

/// A block with one count, and the word of its owner.
struct Block {
    owners: [AtomicU64; 1],
    count: UnsafeCell<u32>,
}

// SAFETY: the block is touched by its owner only; loom checks whether that is enough.
unsafe impl Sync for Block {}
// SAFETY: as above.
unsafe impl Send for Block {}

impl Block {
    /// Takes the block, if it is free, adds 1 to its count and gives the block back. Returns the
    /// number of visits that succeeded.
    fn visit(&self, tid: u64) -> u32 {
        let Some(index) = take(&self.owners, tid) else {
            return 0;
        };
        // SAFETY: the block is ours.
        self.count.with_mut(|count| unsafe { *count += 1 });
        give_back(&self.owners[index]);
        1
    }
}

fn two_owners() {
    let shared = Arc::new(Block { owners: [AtomicU64::new(0)], count: UnsafeCell::new(0) });
    let other = Arc::clone(&shared);
    let visitor = thread::spawn(move || other.visit(1));
    let visits = shared.visit(2) + visitor.join().unwrap();
    assert_eq!(shared.visit(3), 1, "both threads gave the block back, but it cannot be taken");
    // SAFETY: no other thread is left.
    let count = shared.count.with(|count| unsafe { *count });
    assert_eq!(count, visits + 1);
}

#[test]
fn a_block_has_one_owner_at_a_time_and_the_next_continues_its_counts() {
    const NAME: &str = "profile: two owners of a block, one after the other";
    holds(NAME, two_owners);
    breaks("profile.give_back", NAME, two_owners);
    breaks("profile.take", NAME, two_owners);
}

/// Models a tool that looks while a block of the first generation is cleared for the second.
fn look_while_cleared() {
    let shared = Arc::new([AtomicU64::new(1), AtomicU64::new(7), AtomicU64::new(8)]);
    let other = Arc::clone(&shared);
    let writer = thread::spawn(move || clear(&other[0], 2, other[1..].iter()));
    // ORDER: pairs with the release in `clear`; tools read the file, the generation first.
    if shared[0].load(Ordering::Acquire) == 2 {
        let counts = [shared[1].load(Relaxed), shared[2].load(Relaxed)];
        assert_eq!(counts, [0, 0], "the tool saw counts of the earlier generation");
    }
    writer.join().unwrap();
    assert_eq!(shared[0].load(Relaxed), 2);
}

#[test]
fn a_reader_of_a_generation_sees_no_count_of_the_one_before() {
    const NAME: &str = "profile: a block is cleared while a tool looks";
    holds(NAME, look_while_cleared);
    breaks("profile.clear", NAME, look_while_cleared);
}
