//! Models of the lock in every interleaving, with owners that die while they hold the lock.

use std::time::Duration;

use forebay_sync::atomic::{AtomicU64, Relaxed, UnsafeCell};
use forebay_sync::boxed_words;
use forebay_sync::model::{breaks, holds, holds_within};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;
use crate::participant::{ByteLocks, Dead, ParticipantId, RegionId};

/// The futex of a model. There is no time; `ends` is the number of sleeps that end early.
struct ModelFutex {
    ends: Mutex<u32>,
    woken: Condvar,
    /// The clock: it advances by one with each sleep that ends. It is hidden from loom, since no
    /// model needs its interleavings.
    sleeps: std::sync::atomic::AtomicU64,
}

impl ModelFutex {
    /// Lets this many current or later sleeps time out.
    fn let_time_pass(&self, sleeps: u32) {
        *self.ends.lock().unwrap() += sleeps;
        self.woken.notify_all();
    }
}

impl Futex for Arc<ModelFutex> {
    fn wait(&self, word: &AtomicU64, expected: u32, _at_most: Duration) {
        let mut ends = self.ends.lock().unwrap();
        if word.load(Relaxed) as u32 != expected {
            return;
        }
        self.sleeps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if *ends == 0 {
            ends = self.woken.wait(ends).unwrap();
        }
        *ends = ends.saturating_sub(1);
    }

    fn wake_one(&self, _word: &AtomicU64) {
        drop(self.ends.lock().unwrap());
        self.woken.notify_one();
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.sleeps.load(std::sync::atomic::Ordering::Relaxed))
    }
}

const HERE: RegionId = RegionId::of_seed([7; 16]);

type ModelLock = RobustLock<Box<[AtomicU64]>, Arc<ModelFutex>>;

/// The lock and the protected data. loom detects threads that hold the lock at the same time, and
/// conflicting accesses.
struct Shared {
    lock: ModelLock,
    futex: Arc<ModelFutex>,
    lives: Box<[AtomicU64]>,
    value: UnsafeCell<u64>,
    told_count: AtomicU64,
}

// SAFETY: `value` is only touched by the holder of the lock; that this excludes others is what the
// models show.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

/// Participants that are simply alive or dead.
struct Member<'a> {
    row: u32,
    shared: &'a Shared,
}

impl Liveness for Member<'_> {
    fn id(&self) -> ParticipantId {
        ParticipantId { row: self.row, generation: 1 }
    }

    fn region_id(&self) -> RegionId {
        HERE
    }

    fn is_alive(&self, id: ParticipantId) -> bool {
        // As the trait demands: a thread that learns of a death sees everything stored before it.
        self.shared.lives[id.row as usize].load(forebay_sync::atomic::Ordering::Acquire) == 0
    }
}

impl Shared {
    fn new() -> Arc<Shared> {
        let futex =
            Arc::new(ModelFutex { ends: Mutex::new(0), woken: Condvar::new(), sleeps: 0.into() });
        Arc::new(Shared {
            lock: RobustLock::with_futex(boxed_words(1), 0, futex.clone(), HERE),
            futex,
            lives: boxed_words(3),
            value: UnsafeCell::new(0),
            told_count: AtomicU64::new(0),
        })
    }

    /// Holds the lock for a moment, in two steps, so that a death between them is visible.
    fn change(&self, row: u32) {
        let member = Member { row, shared: self };
        let mut guard = self.lock.lock(&member).unwrap();
        if guard.must_repair() {
            self.told_count.fetch_add(1, Relaxed);
            self.store(self.value() & !1);
            guard.repaired();
        }
        assert_eq!(self.value() & 1, 0, "in the middle of a change");
        self.store(self.value() + 1);
        self.store(self.value() + 1);
    }

    /// Takes the lock and dies in the middle of a change, or of a repair.
    fn die_inside(&self, row: u32) {
        let member = Member { row, shared: self };
        let guard = self.lock.lock(&member).unwrap();
        if guard.must_repair() {
            self.told_count.fetch_add(1, Relaxed);
        } else {
            self.store(self.value() + 1);
        }
        std::mem::forget(guard);
        self.lives[row as usize].store(1, forebay_sync::atomic::Ordering::Release);
        self.futex.let_time_pass(2);
    }

    #[allow(unsafe_code)]
    fn value(&self) -> u64 {
        self.value.with(|value| {
            // SAFETY: the caller holds the lock.
            unsafe { *value }
        })
    }

    #[allow(unsafe_code)]
    fn store(&self, new: u64) {
        self.value.with_mut(|value| {
            // SAFETY: the caller holds the lock.
            unsafe { *value = new }
        });
    }
}

fn run_beside(shared: &Arc<Shared>, run: impl FnOnce(&Shared) + 'static) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

/// Models threads that exclude each other. Also shows that no wake-up is lost: a sleeper without a
/// wake-up would be a deadlock.
fn exclusion(thread_count: u32) {
    let shared = Shared::new();
    let others: Vec<_> = (1..thread_count)
        .map(|row| run_beside(&shared, move |shared| shared.change(row)))
        .collect();
    shared.change(0);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(shared.lock.owner(), None);
    assert_eq!(shared.told_count.load(Relaxed), 0);
    let member = Member { row: 0, shared: &shared };
    let _guard = shared.lock.try_lock(&member).unwrap();
    assert_eq!(shared.value(), 2 * u64::from(thread_count));
}

fn owner_dies() {
    let shared = Shared::new();
    let dying = run_beside(&shared, |shared| shared.die_inside(1));
    let other = run_beside(&shared, |shared| shared.change(2));
    shared.change(0);
    other.join().unwrap();
    dying.join().unwrap();
    shared.change(0);
    assert_eq!(shared.told_count.load(Relaxed), 1, "each death is repaired once");
}

fn repairer_dies() {
    let shared = Shared::new();
    shared.die_inside(1);
    let dying = run_beside(&shared, |shared| shared.die_inside(2));
    shared.change(0);
    dying.join().unwrap();
    shared.change(0);
    assert_eq!(shared.told_count.load(Relaxed), 2, "the next one is told too");
}

/// Models a sweeper that knows of the death and frees the lock, and a next owner that does not know
/// of the death.
fn sweeper_frees() {
    let shared = Shared::new();
    let dead = Dead::new(ParticipantId { row: 1, generation: 1 }, HERE);
    let sweeper = run_beside(&shared, move |shared| {
        shared.die_inside(1);
        // The other thread may have detected the death itself.
        shared.lock.abandon(&dead);
        assert!(!shared.lock.abandon(&dead), "freed for a participant that does not own the lock");
    });
    let member = Member { row: 0, shared: &shared };
    // The thread locks only a free lock: if it found an owner, it would learn of the death by
    // asking whether the owner is alive.
    if shared.lock.owner().is_none()
        && let Some(mut guard) = shared.lock.try_lock(&member).unwrap()
        && guard.must_repair()
    {
        assert_eq!(shared.value(), 1);
        guard.repaired();
    }
    sweeper.join().unwrap();
}

/// Takes the lock, and returns a closure that marks its owner as dead. The closure does not end any
/// sleep.
fn die_holding(shared: &Shared, row: u32) -> impl FnOnce() {
    std::mem::forget(shared.lock.lock(&Member { row, shared }).unwrap());
    move || shared.lives[row as usize].store(1, forebay_sync::atomic::Ordering::Release)
}

/// Models a thread that sleeps behind an owner that dies, while a third thread takes over the lock:
/// the third thread wakes the sleeper.
fn taken_over_before_a_sleeper() {
    let shared = Shared::new();
    let die = die_holding(&shared, 1);
    let sleeper = run_beside(&shared, |shared| lock_for_a_moment(shared, 0));
    die();
    lock_for_a_moment(&shared, 2);
    sleeper.join().unwrap();
}

/// Models a thread that sleeps behind an owner that dies. A sweep frees the lock, and no other
/// thread takes it.
fn abandoned_before_a_sleeper() {
    let shared = Shared::new();
    let die = die_holding(&shared, 1);
    let sleeper = run_beside(&shared, |shared| lock_for_a_moment(shared, 0));
    die();
    shared.lock.abandon(&Dead::new(ParticipantId { row: 1, generation: 1 }, HERE));
    sleeper.join().unwrap();
}

/// Models two sleepers, of which the woken one gives up, since the owner has the lock again.
fn gives_up_before_a_sleeper() {
    let shared = Shared::new();
    let member = Member { row: 2, shared: &shared };
    let guard = shared.lock.lock(&member).unwrap();
    let leaving = run_beside(&shared, |shared| {
        let member = Member { row: 0, shared };
        drop(shared.lock.lock_within(&member, Duration::from_secs(1)));
    });
    let sleeper = run_beside(&shared, |shared| lock_for_a_moment(shared, 1));
    drop(guard);
    drop(shared.lock.try_lock(&member));
    leaving.join().unwrap();
    sleeper.join().unwrap();
}

fn lock_for_a_moment(shared: &Shared, row: u32) {
    drop(shared.lock.lock(&Member { row, shared }).unwrap());
}

/// Participants of a real table. One that joins and immediately locks must not be mistaken
/// for a dead one by a thread that has read its row before it joined.
struct Joined {
    id: ParticipantId,
    table: Arc<crate::participant::loom_tests::ModelTable>,
}

impl Liveness for Joined {
    fn id(&self) -> ParticipantId {
        self.id
    }

    fn region_id(&self) -> RegionId {
        HERE
    }

    fn is_alive(&self, id: ParticipantId) -> bool {
        self.table.table().is_alive(id)
    }
}

fn joins_and_locks() {
    let table = Arc::new(crate::participant::loom_tests::ModelTable::new(2));
    let shared = Shared::new();
    let (id, _held) = table.join().unwrap();
    let first = Joined { id, table: table.clone() };
    let other = Arc::clone(&shared);
    let joiner = thread::spawn(move || {
        let (id, held) = table.join().unwrap();
        let second = Joined { id, table: table.clone() };
        let guard = other.lock.try_lock(&second).unwrap();
        if guard.is_some() {
            other.store(1);
        }
        drop(guard);
        table.table().leave(id, held);
    });
    if let Some(guard) = shared.lock.try_lock(&first).unwrap() {
        assert!(!guard.must_repair(), "took a living owner for dead");
        shared.store(2);
    }
    joiner.join().unwrap();
}

#[test]
fn two_exclude_each_other() {
    holds("robust lock: two threads", || exclusion(2));
    holds_within(Some(2), "robust lock: three threads", || exclusion(3));
}

#[test]
fn a_dead_owner_is_succeeded_once() {
    holds_within(Some(3), "robust lock: the owner dies", owner_dies);
    holds_within(Some(3), "robust lock: the repairer dies too", repairer_dies);
    holds("robust lock: a sweeper frees it", sweeper_frees);
    holds("robust lock: a new participant is alive", joins_and_locks);
}

#[test]
fn nobody_sleeps_on_whoever_goes() {
    holds("robust lock: taken over before a sleeper", taken_over_before_a_sleeper);
    holds("robust lock: freed by a sweep before a sleeper", abandoned_before_a_sleeper);
    let model = "robust lock: one gives up before a sleeper";
    holds_within(Some(2), model, gives_up_before_a_sleeper);
}

#[test]
fn orderings_of_the_robust_lock_are_needed() {
    breaks("robust.unlock", "robust lock: two threads", || exclusion(2));
    breaks("robust.enter", "robust lock: two threads", || exclusion(2));
    breaks("robust.own", "robust lock: a new participant is alive", joins_and_locks);
    breaks("robust.look", "robust lock: a new participant is alive", joins_and_locks);
    breaks("robust.abandon", "robust lock: a sweeper frees it", sweeper_frees);
}
