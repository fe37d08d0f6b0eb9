//! Tests of sampled call stacks, with threads whose callers are known.

#[macro_use]
mod recorded;

use std::thread;

use forebay_sync::profile::{PairTotals, ProfileSnapshot, SampleRead, with_known_stack};
use forebay_sync::{LockClass, Mutex};
use recorded::{at, line_of, rwlock, turn};

/// Fails to take the mutex, and returns the line of the attempt. `first` and `second` call this
/// function.
#[inline(never)]
fn tried(mutex: &Mutex<u64>) -> u32 {
    let (taken, line) = at!(mutex.try_lock());
    assert!(std::hint::black_box(taken).is_none());
    line
}

#[inline(never)]
fn first(mutex: &Mutex<u64>) -> u32 {
    std::hint::black_box(tried(mutex))
}

#[inline(never)]
fn second(mutex: &Mutex<u64>) -> u32 {
    // The code differs, since the compiler would merge equal functions.
    std::hint::black_box((tried(mutex), 2)).0
}

/// All samples at a line of this file.
fn samples(reading: &ProfileSnapshot, line: u32) -> Vec<&SampleRead> {
    let samples = reading.threads.iter().flat_map(|thread| &thread.samples);
    samples.filter(|sample| line_of(reading, sample.waiter) == Some(line)).collect()
}

#[test]
fn a_sample_names_the_callers_of_the_locking_function() {
    let turn = turn();
    turn.profile.set_stack_sample(1);
    let mutex = Mutex::new(LockClass::Test, 0);
    let held = mutex.lock();
    let calls = || {
        let (mut line, mut number) = (0, 0);
        // `black_box` keeps the compiler from unrolling the loop into several calls.
        while std::hint::black_box(number) < 8 {
            let caller = if number < 3 { first } else { second };
            line = std::hint::black_box(caller)(&mutex);
            number += 1;
        }
        line
    };
    let run = |calls: &(dyn Fn() -> u32 + Sync)| {
        thread::scope(|scope| scope.spawn(calls).join().unwrap())
    };
    let line = run(&|| with_known_stack(calls));
    let reading = turn.read();
    let samples = samples(&reading, line);
    let mut stacks: Vec<_> = samples
        .iter()
        .map(|sample| (sample.totals.try_failed_count, &reading.stacks[&sample.stack].frames))
        .collect();
    stacks.sort_unstable();
    let [(3, of_first), (5, of_second)] = stacks[..] else { panic!("{stacks:x?}") };
    let differs = of_first.iter().zip(of_second).position(|(one, other)| one != other).unwrap();
    for (function, frames) in [(first as fn(&_) -> _, of_first), (second, of_second)] {
        let start = function as *const () as u64;
        assert!((start..start + 256).contains(&frames[differs]), "{differs}: {frames:x?}");
    }
    // One function calls both, on one line, so the call stacks soon become equal.
    assert_eq!(of_first[differs + 1..], of_second[differs + 1..]);
    assert!((1..8).contains(&(of_first.len() - differs)), "{of_first:x?}");
    assert_eq!(at(&reading, line).try_failed_count, 8);

    // Outside of `with_known_stack` a thread's samples have no frames.
    turn.profile.reset(0);
    let line = run(&|| {
        with_known_stack(|| ());
        calls()
    });
    drop(held);
    let reading = turn.read();
    let [sample] = self::samples(&reading, line)[..] else { panic!("{:?}", reading.threads) };
    assert_eq!((sample.totals.try_failed_count, at(&reading, line).try_failed_count), (8, 8));
    assert!(reading.stacks[&sample.stack].frames.is_empty());
}

#[test]
fn samples_of_every_wait_add_up_to_the_waits_of_the_site() {
    let turn = turn();
    turn.profile.set_stack_sample(1);
    let lock = rwlock();
    let mut line = 0;
    thread::scope(|scope| {
        let work = || {
            with_known_stack(|| {
                let mut line = 0;
                for round in 0..400 {
                    let (mut guard, here) = at!(lock.write());
                    (*guard, line) = (*guard + 1, here);
                    // Lets other threads run in between.
                    if round % 4 == 0 {
                        thread::yield_now();
                    }
                }
                line
            })
        };
        let workers: Vec<_> = (0..6).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            line = worker.join().unwrap();
        }
    });
    let reading = turn.read();
    let (place, samples) = (at(&reading, line), samples(&reading, line));
    let sum = |of: fn(&PairTotals) -> u64| samples.iter().map(|sample| of(&sample.totals)).sum();
    let (waits, wait_ns): (u64, u64) =
        (sum(|totals| totals.wait_count), sum(|totals| totals.wait_ns));
    assert!(place.contended_count > 0, "no thread waited: {place:?}");
    assert_eq!((waits, wait_ns), (place.contended_count, place.wait_ns));
    assert_eq!(place.count, 6 * 400);
    assert!(samples.iter().all(|sample| reading.stacks[&sample.stack].frames.len() > 2));
    let rejected = reading.threads.iter().map(|thread| thread.counts.samples_rejected);
    assert_eq!((rejected.sum::<u64>(), reading.counts.stacks_rejected), (0, 0));
}

#[test]
fn no_stack_is_taken_unless_it_is_asked_for() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0);
    let held = mutex.lock();
    let line =
        thread::scope(|scope| scope.spawn(|| with_known_stack(|| first(&mutex))).join().unwrap());
    drop(held);
    let reading = turn.read();
    assert_eq!(at(&reading, line).try_failed_count, 1);
    assert!(reading.threads.iter().all(|thread| thread.samples.is_empty()), "{reading:?}");
}
