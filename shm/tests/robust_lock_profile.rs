//! Tests of the profile of a lock between processes, as one process records it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use forebay_shm::{
    AreaSpec, BarrierWish, ProfileFile, Region, RegionSpec, RobustLock, UnnamedProfile,
};
use forebay_sync::LockClass;
use forebay_sync::profile::{ProfilePlan, ProfileSnapshot, SiteTotals, StackPlan, install};

const SPEC: RegionSpec = RegionSpec {
    bytes: 64 << 10,
    participants_max: 8,
    barrier: BarrierWish::Best,
    areas: &[AreaSpec { kind: 16, version: 1, bytes: 8 }],
};

const PLAN: ProfilePlan = ProfilePlan {
    sites: 16,
    frames: 0,
    modules: 0,
    text_bytes: 4096,
    threads: 4,
    rows: 16,
    pairs: 16,
    stacks: StackPlan::NONE,
};

fn at(reading: &ProfileSnapshot, line: u32) -> SiteTotals {
    let mut sum = SiteTotals::default();
    for (key, totals) in reading.threads.iter().flat_map(|thread| &thread.rows) {
        let site = &reading.sites[key];
        assert_eq!((&*site.name, &*site.place), ("test", file!()));
        if site.line == line {
            sum.add(totals);
        }
    }
    sum
}

#[test]
fn waits_tries_and_deaths_are_recorded_with_who_was_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/1.locks");
    let unnamed = UnnamedProfile::prepare(&path, PLAN, "test", 0).unwrap();
    install(unnamed.profile()).unwrap();
    unnamed.profile().turn(true);
    unnamed.name().unwrap();

    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let first = region.join().unwrap();
    let (sender, tried) = channel();
    let (held, holder) = (lock.lock(&first).unwrap(), line!());
    let lines = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let second = region.join().unwrap();
            let (failed, try_line) = (lock.try_lock(&second).unwrap().is_none(), line!());
            let short = Duration::from_millis(15);
            let (late, late_line) = (lock.lock_within(&second, short).is_err(), line!());
            assert!(failed && late);
            sender.send(()).unwrap();
            let (guard, wait_line) = (lock.lock(&second).unwrap(), line!());
            drop(guard);
            [try_line, late_line, wait_line]
        });
        tried.recv().unwrap();
        // No event tells when the other thread has begun to wait, so this thread lets time pass.
        let (_sender, never) = channel::<()>();
        let _ = never.recv_timeout(Duration::from_millis(40));
        drop(held);
        other.join().unwrap()
    });
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.lock(&first).unwrap();
        panic!("panics while it holds the lock");
    }));
    assert!(broken.is_err());
    let (after, after_line) = (lock.lock(&first).unwrap(), line!());
    assert!(after.must_repair());
    drop(after);

    // Simulates the hold of another process: the hold is by a second lock in the same word, which
    // reports nothing here.
    let elsewhere = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let third = region.join().unwrap();
    let held_elsewhere = elsewhere.lock(&third).unwrap();
    let (blind, blind_line) = (lock.try_lock(&first).unwrap().is_none(), line!());
    assert!(blind);
    drop(held_elsewhere);

    let reading = ProfileFile::open(&path).unwrap().read().unwrap();
    let [tried, late, waited] = lines.map(|line| at(&reading, line));
    assert_eq!((tried.count, tried.try_failed_count, tried.try_delay_count), (0, 1, 1));
    assert_eq!((late.count, late.timed_out_count, late.contended_count), (0, 1, 1));
    assert!(late.wait_ns >= 15_000_000, "{late:?}");
    assert_eq!((waited.count, waited.contended_count), (1, 1));
    assert!((10_000_000..10_000_000_000).contains(&waited.wait_ns), "{waited:?}");
    assert!(tried.try_delay_ns >= waited.wait_ns, "{tried:?} {waited:?}");
    let held = at(&reading, holder);
    assert_eq!((held.count, held.contended_count, held.owner_died_count), (1, 0, 0));
    assert!(held.hold_ns >= 40_000_000, "{held:?}");
    assert_eq!(at(&reading, after_line).owner_died_count, 1);
    let mut pairs = reading.threads.iter().flat_map(|thread| &thread.pairs);
    let blind = pairs.find(|pair| reading.sites[&pair.waiter].line == blind_line).unwrap();
    assert_eq!(blind.holder, 0, "named a thread that has released the lock as the holder");
    for line in lines {
        let pairs = reading.threads.iter().flat_map(|thread| &thread.pairs);
        let mut pairs = pairs.filter(|pair| reading.sites[&pair.waiter].line == line);
        let pair = pairs.next().unwrap();
        assert_eq!((reading.sites[&pair.holder].line, pairs.next()), (holder, None), "line {line}");
    }
}
