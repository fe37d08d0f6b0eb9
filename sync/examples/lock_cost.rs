//! Measures the cost of the profiler: the nanoseconds of an uncontended lock and unlock without a
//! profile, and with a profile that is off, on, or records one in 100 attempts.
//!
//! `cargo run --release -p forebay-sync --example lock_cost`
#![allow(clippy::print_stdout, reason = "the program prints its measurements")]

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use forebay_sync::profile::{
    Clock, ProcessIdentity, Profile, ProfilePlan, SiteKind, StackPlan, install,
};
use forebay_sync::{LockClass, Mutex, boxed_words};

const PLAN: ProfilePlan = ProfilePlan {
    sites: 64,
    frames: 0,
    modules: 0,
    text_bytes: 4096,
    threads: 2,
    rows: 64,
    pairs: 64,
    stacks: StackPlan::NONE,
};

const ROUNDS: u64 = 10_000;

/// The number of runs. The shortest run counts, since it was disturbed least.
const TRIES: usize = 2_000;

fn main() {
    let clock = Clock::fastest();
    let mutex = Mutex::new(LockClass::Test, 0_u64);
    let bare = lock_api::Mutex::<parking_lot::RawMutex, u64>::new(0);
    let lock = || {
        *black_box(&mutex).lock() += 1;
    };
    let rows = [
        (
            "two reads of the clock",
            measure(clock, || {
                black_box((clock.now(), clock.now()));
            }),
        ),
        ("the raw lock", measure(clock, || *black_box(&bare).lock() += 1)),
        ("ours, no profile", measure(clock, lock)),
    ];
    let words: &'static [AtomicU64] = Box::leak(boxed_words(PLAN.word_count()));
    let us = ProcessIdentity::unknown("lock_cost", SiteKind::Places);
    let Some(profile) = Profile::new(words, PLAN, clock, &us) else {
        return println!("cannot make a profile: its plan is not valid");
    };
    let profile: &'static Profile = Box::leak(Box::new(profile));
    if let Err(error) = install(profile) {
        return println!("{error}");
    }
    let off = measure(clock, lock);
    profile.turn(true);
    let on = measure(clock, lock);
    profile.set_skip(99);
    let sampled = measure(clock, lock);
    let later = [("ours, off", off), ("ours, on", on), ("ours, one recorded in 100", sampled)];
    println!("the clock runs at {} MHz", clock.hz() / 1_000_000);
    for (what, ns) in rows.into_iter().chain(later) {
        println!("{what:<24} {ns:6.1} ns");
    }
}

/// Returns the nanoseconds of one call, in the shortest run.
fn measure(clock: Clock, mut call: impl FnMut()) -> f64 {
    let mut best = u64::MAX;
    for _ in 0..TRIES {
        let begin = clock.now();
        for _ in 0..ROUNDS {
            call();
        }
        best = best.min(clock.ns_between(begin, clock.now()));
    }
    best as f64 / ROUNDS as f64
}
