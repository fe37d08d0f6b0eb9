//! Tests a mutex and a reader-writer lock that several threads use while the observer is switched
//! on and off: the locks exclude other threads, and the sums of the reported events are right.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use forebay_sync::observe::{self, LockMode, LockSite, LockState, LockUse, Observer};
use forebay_sync::{LockClass, Mutex, RwLock};
use forebay_testkit::StopFlag;

const THREADS: u64 = 4;
const ROUNDS: u64 = 10_000;

/// The largest number of times that the observer is switched. A run that reaches it counts as
/// hanging.
const STEPS_MAX: u64 = 1_000_000_000;

/// Sums of the reported events, and the number of reported exclusive holds of each of the two
/// locks.
struct Sums {
    waiting: AtomicU64,
    found_held: AtomicU64,
    acquired: AtomicU64,
    released: AtomicU64,
    try_failed: AtomicU64,
    /// The number of times that a writer held the same lock as another thread: must stay 0.
    broken: AtomicU64,
    writers: [AtomicU64; 2],
}

static SUMS: Sums = Sums {
    waiting: AtomicU64::new(0),
    found_held: AtomicU64::new(0),
    acquired: AtomicU64::new(0),
    released: AtomicU64::new(0),
    try_failed: AtomicU64::new(0),
    broken: AtomicU64::new(0),
    writers: [AtomicU64::new(0), AtomicU64::new(0)],
};

/// The number of threads that hold the lock of `hold` exclusively. In this test the mutex has the
/// class of flights, and the reader-writer lock has the class of shards.
fn writers(hold: &LockUse) -> &AtomicU64 {
    &SUMS.writers[usize::from(hold.class == LockClass::Shard)]
}

impl Observer for Sums {
    fn waiting(&self, _: &LockUse, _: Option<LockSite>) {
        self.waiting.fetch_add(1, Relaxed);
    }

    fn acquired(&self, hold: &LockUse, found: LockState) {
        self.acquired.fetch_add(1, Relaxed);
        self.found_held.fetch_add(u64::from(found != LockState::Free), Relaxed);
        let step = u64::from(hold.mode == LockMode::Exclusive);
        let others = writers(hold).fetch_add(step, Relaxed);
        self.broken.fetch_add(others, Relaxed);
    }

    fn released(&self, hold: &LockUse, _: bool) {
        self.released.fetch_add(1, Relaxed);
        writers(hold).fetch_sub(u64::from(hold.mode == LockMode::Exclusive), Relaxed);
    }

    fn try_failed(&self, _: &LockUse, _: Option<LockSite>) {
        self.try_failed.fetch_add(1, Relaxed);
    }
}

/// The work of one thread; returns the number of its failed try-locks.
fn work(thread: u64, mutex: &Mutex<u64>, lock: &RwLock<[u64; 2]>) -> u64 {
    let mut failed = 0;
    for round in 0..ROUNDS {
        *mutex.lock() += 1;
        match (round + thread) % 4 {
            0 => lock.write().iter_mut().for_each(|word| *word += 1),
            1 => match lock.try_write() {
                Some(mut words) => words.iter_mut().for_each(|word| *word += 1),
                None => failed += 1,
            },
            _ => {
                let words = lock.read();
                assert_eq!(words[0], words[1], "a reader beside a writer");
            }
        }
    }
    failed
}

/// Runs all threads; returns the number of failed try-locks.
fn run(is_turned: bool) -> u64 {
    let mutex = Mutex::new(LockClass::Flight, 0);
    let lock = RwLock::new(LockClass::Shard, [0; 2]);
    let stop = StopFlag::default();
    let failed = thread::scope(|scope| {
        let (mutex, lock, stop) = (&mutex, &lock, &stop);
        let _guard = stop.guard();
        let workers = (0..THREADS).map(|thread| scope.spawn(move || work(thread, mutex, lock)));
        let workers: Vec<_> = workers.collect();
        scope.spawn(move || {
            for _ in stop.steps(STEPS_MAX).take_while(|_| is_turned) {
                observe::off();
                thread::yield_now();
                observe::on();
                thread::yield_now();
            }
        });
        workers.into_iter().map(|worker| worker.join().expect("no assertion failed")).sum()
    });
    assert_eq!(mutex.into_inner(), THREADS * ROUNDS);
    assert_eq!(lock.into_inner(), [THREADS * ROUNDS / 2 - failed; 2]);
    failed
}

#[test]
fn sums_come_out_whether_the_observer_stays_on_or_comes_and_goes() {
    observe::set(&SUMS).unwrap();
    let silent = run(false);
    assert_eq!(SUMS.acquired.load(Relaxed), 0, "an event was reported while the observer is off");
    observe::on();
    let failed = run(false);
    let taken = 2 * THREADS * ROUNDS - failed;
    assert_eq!(SUMS.acquired.load(Relaxed), taken, "not every hold was reported");
    assert_eq!(SUMS.try_failed.load(Relaxed), failed, "not every failed try-lock was reported");
    let turned = run(true);
    observe::off();
    println!("tries that failed: {silent} off, {failed} on, {turned} turned");
    assert_eq!(
        SUMS.acquired.load(Relaxed),
        SUMS.released.load(Relaxed),
        "not every reported hold has a reported end"
    );
    assert_eq!(
        SUMS.waiting.load(Relaxed),
        SUMS.found_held.load(Relaxed),
        "not every wait ended in a hold"
    );
    assert_eq!(SUMS.broken.load(Relaxed), 0, "a writer held a lock together with another thread");
}
