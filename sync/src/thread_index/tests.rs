use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use super::{IndexPool, THREAD_INDEX_COUNT, high_water, thread_index};
use crate::{LockClass, Mutex};

#[test]
fn living_threads_have_numbers_of_their_own_and_keep_them() {
    const COUNT: usize = 20;
    let all_live = Barrier::new(COUNT);
    let numbers = Mutex::new(LockClass::Test, BTreeSet::new());
    thread::scope(|scope| {
        for _ in 0..COUNT {
            scope.spawn(|| {
                let index = thread_index().unwrap();
                numbers.lock().insert(index);
                all_live.wait();
                assert_eq!(thread_index(), Some(index), "the number changed");
                assert!(high_water() > index as usize, "rows up to {index} are not walked over");
            });
        }
    });
    assert_eq!(numbers.into_inner().len(), COUNT);
}

#[test]
fn numbers_of_threads_that_ended_are_given_out_again() {
    let numbers: BTreeSet<u32> =
        (0..500).map(|_| thread::spawn(|| thread_index().unwrap()).join().unwrap()).collect();
    assert!(numbers.len() < 100, "500 threads, one after the other, had {} numbers", numbers.len());
}

#[test]
fn the_lowest_free_number_is_taken_and_more_than_all_are_refused() {
    let numbers = IndexPool::new();
    let all: Vec<_> = (0..THREAD_INDEX_COUNT as u32).map(Some).collect();
    let taken: Vec<_> = (0..THREAD_INDEX_COUNT).map(|_| numbers.take()).collect();
    assert_eq!(taken, all);
    assert_eq!(numbers.take(), None, "all numbers are taken, but the pool gave one");
    for number in [64, 3, 700] {
        numbers.give_back(number);
    }
    assert_eq!([(); 4].map(|()| numbers.take()), [Some(3), Some(64), Some(700), None]);
}

thread_local! {
    static OUTLIVES: AsksLate = const { AsksLate(Cell::new(None)) };
}

/// A value whose destructor asks for the number of its thread.
struct AsksLate(Cell<Option<&'static Mutex<Option<u32>>>>);

impl Drop for AsksLate {
    fn drop(&mut self) {
        if let Some(answer) = self.0.get() {
            *answer.lock() = thread_index();
        }
    }
}

#[test]
fn a_thread_that_gave_its_number_back_has_none() {
    static ANSWER: Mutex<Option<u32>> = Mutex::new(LockClass::Test, Some(u32::MAX));
    thread::spawn(|| {
        // Destructors run in reverse order of registration, so the number is given back first.
        OUTLIVES.with(|outlives| outlives.0.set(Some(&ANSWER)));
        thread_index().unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(
        *ANSWER.lock(),
        None,
        "a destructor saw a number that was given back, or did not run"
    );
}
