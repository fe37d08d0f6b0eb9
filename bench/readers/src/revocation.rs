//! What a writer of a biased lock loses by taking the bias away again and again.
//!
//! One thread writes back to back, another one reads all the time and so switches the bias on as
//! soon as it may. After a revocation the bias stays off `factor` times as long as that took, so
//! that at most one part in `factor + 1` of the writer's time is lost.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_sync::bravo::{Bravo, ByStore, BySwap, Claim, Shared, SlotTable};
use lock_api::{RawRwLock, RwLock};

use crate::clock::now;
use crate::row::Row;

/// How long the writer writes.
const RUN: Duration = Duration::from_millis(50);

/// With this factor the bias never comes back.
const NEVER: u32 = u32::MAX;

/// The forms of the lock, each with how to measure the share of time that its writer loses.
pub(crate) const FORMS: &[(&str, fn(u32) -> f64)] =
    &[("Bravo", share_lost::<BySwap>), ("Bravo, membarrier", share_lost::<ByStore>)];

/// Percent of a writer's time that goes into revocations.
fn share_lost<C: Claim + Sync>(factor: u32) -> f64 {
    let mut unbiased = run::<C>(NEVER).gaps_ns;
    unbiased.sort_by(f64::total_cmp);
    let floor_ns = unbiased[unbiased.len() / 2];
    let writer = run::<C>(factor);
    // A gap without a revocation is the reading of the clock, and little more.
    let revocations = writer.gaps_ns.iter().filter(|gap| **gap > 2.0 * floor_ns);
    100.0 * revocations.map(|gap| gap - floor_ns).sum::<f64>() / writer.total_ns
}

/// What a writer saw.
struct Writer {
    /// Of each write, the time from having the underlying lock to having the whole lock.
    gaps_ns: Vec<f64>,
    total_ns: f64,
}

fn run<C: Claim + Sync>(factor: u32) -> Writer {
    let raw = Bravo::new(Stamped::INIT, Shared::<C>::INIT).with_inhibit_factor(factor);
    let lock = RwLock::from_raw(raw, Row::default());
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                black_box(lock.read().count());
            }
        });
        let writer = write_all_the_time(&lock);
        is_done.store(true, Ordering::Relaxed);
        reader.join().expect("no thread of the benchmark panics");
        writer
    })
}

fn write_all_the_time<S: SlotTable>(lock: &RwLock<Bravo<Stamped, S>, Row>) -> Writer {
    let begin = now();
    let mut gaps_ns = Vec::with_capacity(1 << 20);
    loop {
        let mut row = lock.write();
        let inside = now();
        row.advance();
        drop(row);
        let gap = inside.duration_since(UNDERLYING_AT.get().unwrap_or(inside));
        gaps_ns.push(gap.as_secs_f64() * 1e9);
        let total = inside.duration_since(begin);
        if total > RUN {
            return Writer { gaps_ns, total_ns: total.as_secs_f64() * 1e9 };
        }
    }
}

thread_local! {
    /// When this thread last got the underlying lock for writing.
    static UNDERLYING_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// An underlying lock that notes when a writer got it.
struct Stamped(Underlying);

type Underlying = parking_lot::RawRwLock;

// SAFETY: every call goes to the lock inside.
unsafe impl RawRwLock for Stamped {
    const INIT: Self = Stamped(Underlying::INIT);
    type SharedGuard = <Underlying as RawRwLock>::SharedGuard;
    type ExclusiveGuard = <Underlying as RawRwLock>::ExclusiveGuard;

    fn lock_shared(&self) -> Self::SharedGuard {
        self.0.lock_shared()
    }

    fn try_lock_shared(&self) -> Option<Self::SharedGuard> {
        self.0.try_lock_shared()
    }

    unsafe fn unlock_shared(&self, guard: Self::SharedGuard) {
        // SAFETY: the caller's.
        unsafe { self.0.unlock_shared(guard) };
    }

    fn lock_exclusive(&self) -> Self::ExclusiveGuard {
        let guard = self.0.lock_exclusive();
        UNDERLYING_AT.set(Some(now()));
        guard
    }

    fn try_lock_exclusive(&self) -> Option<Self::ExclusiveGuard> {
        self.0.try_lock_exclusive()
    }

    unsafe fn unlock_exclusive(&self, guard: Self::ExclusiveGuard) {
        // SAFETY: the caller's.
        unsafe { self.0.unlock_exclusive(guard) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}
