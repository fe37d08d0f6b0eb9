//! Measures the time that a writer of a biased lock loses because it revokes the bias repeatedly.
//!
//! One thread writes without a pause, and another reads all the time. The writer also reads after
//! each write, so that the bias returns as soon as it may. This is the worst case, whichever thread
//! runs more often. After a revocation the bias stays off `factor` times as long as the revocation
//! took. At most one part in `factor + 1` of the writer's time is therefore lost.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_sync::bravo::{Bravo, ByStore, BySwap, Claim, SharedTable, SlotTable};
use lock_api::{RawRwLock, RwLock};

use crate::clock::now;
use crate::row::Row;

/// The least time for which the writer writes.
const RUN: Duration = Duration::from_millis(50);

/// The number of writes from which the time of a write without a revocation is taken.
const FLOOR_WRITES: usize = 10_000;

/// With this factor the bias never comes back.
const NEVER: u32 = u32::MAX;

/// Measures, for an inhibit factor, the share of time that a writer loses.
pub(crate) type Measure = fn(u32) -> f64;

/// The forms of the lock.
pub(crate) const FORMS: &[(&str, Measure)] =
    &[("Bravo", share_lost::<BySwap>), ("Bravo, membarrier", share_lost::<ByStore>)];

/// The percentage of a writer's time that it spends in revocations.
fn share_lost<C: Claim + Sync>(factor: u32) -> f64 {
    let floor = beside_a_reader::<C, _>(NEVER, floor);
    let (lost, total) = beside_a_reader::<C, _>(factor, |lock| lost_of_total(lock, floor));
    100.0 * lost.as_secs_f64() / total.as_secs_f64()
}

type Lock<C> = RwLock<Bravo<Stamped, SharedTable<C>>, Row>;

/// Runs `writer` while another thread reads. Returns the writer's result.
fn beside_a_reader<C: Claim + Sync, T>(factor: u32, writer: impl FnOnce(&Lock<C>) -> T) -> T {
    let raw = Bravo::new(Stamped::INIT, SharedTable::INIT).with_inhibit_factor(factor);
    let lock = RwLock::from_raw(raw, Row::default());
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                black_box(lock.read().count());
            }
        });
        let found = writer(&lock);
        is_done.store(true, Ordering::Relaxed);
        found
    })
}

/// The usual gap of a write that revokes nothing, which is mainly the time to read the clock.
fn floor<C: Claim>(lock: &Lock<C>) -> Duration {
    let mut gaps: Vec<Duration> = (0..FLOOR_WRITES).map(|_| write(lock).gap).collect();
    gaps.sort_unstable();
    gaps[gaps.len() / 2]
}

/// Returns the time spent in revocations, and the total time. The total ends where a revocation
/// begins, so that each counted revocation is followed by its whole inhibition.
fn lost_of_total<C: Claim>(lock: &Lock<C>, floor: Duration) -> (Duration, Duration) {
    let begin = now();
    let mut lost = Duration::ZERO;
    loop {
        let Write { is_revoking, underlying, gap } = write(lock);
        if !is_revoking {
            continue;
        }
        let total = underlying.duration_since(begin);
        if total > RUN {
            return (lost, total);
        }
        lost += gap.saturating_sub(floor);
    }
}

/// The measurements of one write.
struct Write {
    /// Whether there was a bias to revoke. A reader may have restored the bias just afterwards.
    is_revoking: bool,
    /// The time at which this thread got the underlying lock.
    underlying: Instant,
    /// The time from `underlying` until this thread had the whole lock.
    gap: Duration,
}

/// Writes once, then reads once.
fn write<C: Claim>(lock: &Lock<C>) -> Write {
    // SAFETY: no lock is released through the raw lock.
    let is_revoking = unsafe { lock.raw() }.is_biased();
    let mut row = lock.write();
    let inside = now();
    row.advance();
    drop(row);
    black_box(lock.read().count());
    let underlying = UNDERLYING_AT.get().unwrap_or(inside);
    Write { is_revoking, underlying, gap: inside.duration_since(underlying) }
}

thread_local! {
    /// The time at which this thread last got the underlying lock for writing.
    static UNDERLYING_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// An underlying lock that records when a writer got it.
struct Stamped(Underlying);

type Underlying = parking_lot::RawRwLock;

// SAFETY: every call goes to the inner lock.
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
        // SAFETY: the caller meets the same contract.
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
        // SAFETY: the caller meets the same contract.
        unsafe { self.0.unlock_exclusive(guard) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}
