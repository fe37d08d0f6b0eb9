//! A model of the pool of numbers: two threads take numbers and give them back.

use loom::sync::Arc;
use loom::thread;

use super::IndexPool;
use crate::atomic::UnsafeCell;
use crate::model::{breaks, holds};

/// The numbers, and a row for number 0 that only its owner touches.
struct Row {
    numbers: IndexPool,
    row: UnsafeCell<u32>,
}

// SAFETY: the row is touched by the owner of number 0 only; loom checks whether that is enough.
unsafe impl Sync for Row {}
// SAFETY: as above.
unsafe impl Send for Row {}

impl Row {
    /// Takes a number, writes into the row if the number is 0, and gives the number back. Returns
    /// the number.
    fn visit(&self) -> u32 {
        let number = self.numbers.take().expect("there are more numbers than threads");
        if number == 0 {
            // SAFETY: the row belongs to the owner of number 0, which is this thread.
            self.row.with_mut(|row| unsafe { *row += 1 });
        }
        self.numbers.give_back(number);
        number
    }
}

fn two_owners() {
    let shared = Arc::new(Row { numbers: IndexPool::new(), row: UnsafeCell::new(0) });
    let other = Arc::clone(&shared);
    let visitor = thread::spawn(move || other.visit());
    let numbers = [shared.visit(), visitor.join().unwrap()];
    assert!(numbers.contains(&0) && numbers.iter().all(|number| *number < 2), "{numbers:?}");
    assert_eq!(shared.visit(), 0, "number 0 was given back, but is not taken next");
}

#[test]
fn a_number_has_one_owner_at_a_time() {
    const NAME: &str = "thread_index: two owners, one after the other";
    holds(NAME, two_owners);
    breaks("thread_index.give_back", NAME, two_owners);
    breaks("thread_index.take", NAME, two_owners);
}
