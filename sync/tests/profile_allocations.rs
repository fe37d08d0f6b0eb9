//! Tests that recording allocates nothing, since an allocator's own locks may be recorded.
//!
//! The allocations of the whole process are counted, so this file has only one test.

use std::alloc::System;
use std::sync::atomic::AtomicU64;

use forebay_sync::profile::{
    Acquisition, Clock, LockWait, ProcessIdentity, Profile, ProfilePlan, ProfiledSite, Recorder,
    SiteDescription, SiteKind, StackPlan, ThreadIdentity, install, with_known_stack,
};
use forebay_sync::{LockClass, Mutex, RwLock, boxed_words};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const STACKS: StackPlan = StackPlan { stacks: 4, frames: 8, samples: 2 };

/// A plan that is too small for the recorded events, so that its tables get full.
const PLAN: ProfilePlan = ProfilePlan {
    sites: 8,
    frames: 4,
    modules: 1,
    text_bytes: 64,
    threads: 2,
    rows: 8,
    pairs: 8,
    stacks: STACKS,
};

struct Stack([u64; 2]);

impl ProfiledSite for Stack {
    fn key(&self) -> u64 {
        forebay_sync::profile::hash_words(&self.0)
    }

    fn describe(&self) -> SiteDescription<'_> {
        SiteDescription { name: "a lock", frames: &self.0, ..SiteDescription::default() }
    }

    fn callers(&self, out: &mut [u64]) -> usize {
        out[..2].copy_from_slice(&self.0);
        2
    }
}

fn profile() -> &'static Profile {
    let words: &'static [AtomicU64] = Box::leak(boxed_words(PLAN.word_count()));
    let us = ProcessIdentity::unknown("test", SiteKind::Stacks);
    let profile = Profile::new(words, PLAN, Clock::fastest(), &us).expect("the plan is sound");
    profile.set_stack_sample(1);
    profile.turn(true);
    Box::leak(Box::new(profile))
}

/// Records failed try-locks, waits, holds and modules at this many sites, then resets the profile
/// and gives the block back.
fn record(profile: &Profile, recorder: &mut Recorder, sites: u64) {
    let thread = || Some(ThreadIdentity { tid: 1, name: [0; 16] });
    for number in 0..sites {
        let site = Stack([number, 7]);
        assert!(recorder.begin(profile, thread));
        recorder.try_failed(profile, &site, 64 + number as usize, number);
        let wait = LockWait { since: profile.clock().now(), holder: number };
        recorder.timed_out(profile, &site, 64, wait);
        let taken =
            Acquisition { lock: 64, wait: Some(wait), is_shared: true, has_owner_died: true };
        let held = recorder.acquired(profile, &site, &taken).expect("a block");
        recorder.released(profile, &held);
        recorder.destroyed(64 + number as usize);
        profile.add_module(number, number + 1, 0, "/a/module");
    }
    profile.reset(1);
    assert!(recorder.begin(profile, thread));
    recorder.leave(profile);
    assert!(!recorder.begin(profile, thread));
}

#[test]
fn neither_recording_nor_running_out_of_room_allocates() {
    let (ours, foreign) = (profile(), profile());
    install(ours).expect("there is no other observer");
    let (mutex, lock) = (Mutex::new(LockClass::Test, 0), RwLock::new(LockClass::Test, 0));
    let lock: RwLock<i32> = lock;
    // At its first lock a thread asks the system for its name.
    drop(mutex.lock());
    let mut recorder = Recorder::new();
    let (before, after) = with_known_stack(|| {
        let before = HEAP.stats();
        record(foreign, &mut recorder, 40);
        for _ in 0..100 {
            let held = mutex.lock();
            assert!(mutex.try_lock().is_none());
            drop(held);
            drop((lock.read(), lock.try_read()));
            drop(lock.write());
        }
        (before, HEAP.stats())
    });
    assert_eq!(after.allocations - before.allocations, 0);
    assert_eq!(after.reallocations - before.reallocations, 0);
}
