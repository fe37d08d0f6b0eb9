//! Several participants of one process and one lock, with real threads; also run under
//! ThreadSanitizer, which checks that the protected data is handed over correctly.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::UnsafeCell;
use std::sync::Arc;

use forebay_shm::{AreaSpec, BarrierWish, JoinError, Liveness, Region, RegionSpec, RobustLock};
use forebay_sync::LockClass;

const SPEC: RegionSpec = RegionSpec {
    bytes: 64 << 10,
    participants_max: 8,
    barrier: BarrierWish::Best,
    areas: &[AreaSpec { kind: 16, version: 1, bytes: 8 }],
};
const THREADS: u64 = 4;
const ROUNDS: u64 = 2_000;
const DEATHS: u64 = 50;

/// The protected data. It is not atomic: only the lock excludes the threads from each other.
struct Protected(UnsafeCell<[u64; 2]>);

// SAFETY: only touched by the holder of the lock.
unsafe impl Sync for Protected {}

impl Protected {
    /// Adds one to both numbers. The caller holds the lock.
    fn add(&self) {
        // SAFETY: the caller holds the lock, so no other thread has a reference.
        let [left, right] = unsafe { &mut *self.0.get() };
        assert_eq!(left, right, "the data is half-changed, but no repair is announced");
        *left += 1;
        *right += 1;
    }

    /// Returns both numbers. All threads have ended.
    fn values(&self) -> [u64; 2] {
        // SAFETY: no other thread is left that could have a reference.
        unsafe { *self.0.get() }
    }
}

/// Threads that are joined one by one: ThreadSanitizer does not see into the standard library's
/// scopes.
fn in_threads<R: Send + 'static>(run: impl Fn() -> R + Send + Sync + 'static) -> Vec<R> {
    let run = Arc::new(run);
    let spawn = |_| {
        let run = Arc::clone(&run);
        std::thread::spawn(move || run())
    };
    let threads: Vec<_> = (0..THREADS).map(spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn exclude_each_other(region: &Region, protected: &Protected) {
    let participant = region.join().unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    for _ in 0..ROUNDS {
        let guard = lock.lock(&participant).unwrap();
        assert!(!guard.must_repair());
        protected.add();
    }
    drop(lock);
    participant.leave();
}

/// Locks and dies repeatedly. Returns the number of times that it was told to repair.
fn die_inside(region: &Region, protected: &Protected) -> u64 {
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let mut told_count = 0;
    for _ in 0..DEATHS {
        let participant = match region.join() {
            Ok(participant) => participant,
            Err(JoinError::Full { .. }) => {
                let clean_up = |dead: &forebay_shm::Dead| _ = lock.abandon(dead);
                region.sweep(clean_up).unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut guard = lock.lock(&participant).unwrap();
        told_count += u64::from(guard.must_repair());
        guard.repaired();
        protected.add();
        std::mem::forget(guard);
    }
    told_count
}

#[test]
fn threads_exclude_each_other() {
    let region = Region::anonymous(&SPEC).unwrap();
    let protected = Arc::new(Protected(UnsafeCell::new([0; 2])));
    let (shared, too) = (region.clone(), Arc::clone(&protected));
    in_threads(move || exclude_each_other(&shared, &too));
    assert_eq!(protected.values(), [THREADS * ROUNDS; 2]);
    assert_eq!(region.list(), []);
}

/// A thread that drops its participant without leaving, with the lock held, is dead for the others.
#[test]
fn threads_that_die_inside_are_succeeded() {
    // The kernel's lock of its byte hands over the stores of a dead owner. ThreadSanitizer does not
    // know that lock; the models do.
    if cfg!(tsan) {
        return;
    }
    let region = Region::anonymous(&SPEC).unwrap();
    let protected = Arc::new(Protected(UnsafeCell::new([0; 2])));
    let (shared, too) = (region.clone(), Arc::clone(&protected));
    let told_counts = in_threads(move || die_inside(&shared, &too));
    // The next owner was told of each death, except the last.
    assert_eq!(told_counts.iter().sum::<u64>() + 1, protected.values()[0]);
    region.sweep(|_| {}).unwrap();
    assert_eq!(region.list(), []);
    let participant = region.join().unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    assert!(lock.lock(&participant).unwrap().must_repair());
    assert!(participant.is_alive(participant.id()));
}
