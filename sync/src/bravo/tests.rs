use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use forebay_testkit::{PATIENCE, StopFlag};
use lock_api::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::state::BIAS;
use super::wait::{WaitStep, step};
use super::{Bravo, ByStore, BySwap, Claim, OwnTable, SLOT_COUNT, SharedTable, SlotTable, clock};

type Lock<S> = RwLock<Bravo<parking_lot::RawRwLock, S>, u32>;

/// Runs a generic test for every kind of table.
macro_rules! for_every_table {
    ($check:ident) => {
        $check::<SharedTable<BySwap>>("shared, by swap");
        $check::<SharedTable<ByStore>>("shared, by store");
        $check::<OwnTable<BySwap, 64>>("own, by swap");
        $check::<OwnTable<ByStore, 64>>("own, by store");
    };
}

/// A lock whose next reader uses a slot.
fn biased<S: SlotTable>() -> Lock<S> {
    let lock = Lock::<S>::new(0);
    drop(lock.read());
    assert!(is_biased(&lock), "a reader did not switch the bias on");
    lock
}

fn raw<S: SlotTable>(lock: &Lock<S>) -> &Bravo<parking_lot::RawRwLock, S> {
    // SAFETY: nothing is unlocked through this.
    unsafe { lock.raw() }
}

fn is_biased<S: SlotTable>(lock: &Lock<S>) -> bool {
    raw(lock).state.load(Relaxed) & BIAS != 0
}

fn by_underlying<S: SlotTable>(lock: &Lock<S>) -> bool {
    raw(lock).underlying.is_locked()
}

/// Whether the calling thread has a row. It has none if the harness runs very many threads.
fn has_row<S: SlotTable>() -> bool {
    S::Claim::row(crate::thread_index(), S::INIT.rows().len()).is_some()
}

/// Waits until a condition holds. This does not park the thread, since parking could use up a
/// wake-up that a test checks. The limit counts yields and not time: on a busy machine a yield
/// takes longer, so the limit grows with the load.
fn until(condition: impl Fn() -> bool) {
    const YIELDS_MAX: u64 = 1_000_000_000;
    for _ in 0..YIELDS_MAX {
        if condition() {
            return;
        }
        thread::yield_now();
    }
    panic!("the condition did not hold within {YIELDS_MAX} yields");
}

/// Runs a check on another thread, where the slots of this thread do not matter.
fn elsewhere<S: SlotTable + Sync>(lock: &Lock<S>, check: impl FnOnce(&Lock<S>) + Send) {
    thread::scope(|scope| {
        scope.spawn(|| check(lock));
    });
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    fn check<S: SlotTable + Sync>(table: &str) {
        let lock = biased::<S>();
        let reader = lock.read();
        let is_by_slot = !by_underlying(&lock);
        assert_eq!(is_by_slot, has_row::<S>(), "{table}: a biased reader and the underlying lock");
        assert!(lock.is_locked() && !lock.is_locked_exclusive(), "{table}: read");
        elsewhere(&lock, |lock| {
            assert!(lock.try_read().is_some(), "{table}: two readers");
            assert!(lock.try_write().is_none(), "{table}: a writer beside a reader");
            assert!(is_biased(lock), "{table}: a failed try left the bias off");
        });
        drop(reader);
        assert!(!lock.is_locked(), "{table}: free");
        *lock.write() += 1;
        let writer = lock.try_write().expect("no thread has the lock");
        assert!(lock.is_locked() && lock.is_locked_exclusive(), "{table}: written");
        elsewhere(&lock, |lock| {
            assert!(lock.try_read().is_none(), "{table}: a reader beside the writer");
            assert!(lock.try_write().is_none(), "{table}: two writers hold the lock");
        });
        assert_eq!(*writer, 1);
    }
    for_every_table!(check);
}

#[test]
fn a_timed_wait_ends_in_time() {
    fn check<S: SlotTable + Sync>(table: &str) {
        const TIME: Duration = Duration::from_millis(5);
        let lock = biased::<S>();
        let reader = lock.read();
        elsewhere(&lock, |lock| {
            let start = clock::now();
            assert!(lock.try_write_for(TIME).is_none(), "{table}: wrote beside a reader");
            assert!(start.elapsed() >= TIME, "{table}: gave up early");
            assert!(is_biased(lock), "{table}: a failed try left the bias off");
            assert!(lock.try_write_until(start).is_none(), "{table}: wrote after the deadline");
            assert!(lock.try_read_for(TIME).is_some(), "{table}: two readers");
        });
        drop(reader);
        assert!(
            lock.try_write_for(Duration::MAX).is_some(),
            "{table}: a writer with the longest limit got no lock"
        );
        let writer = lock.try_write_for(TIME).expect("no thread has the lock");
        elsewhere(&lock, |lock| {
            assert!(lock.try_read_for(TIME).is_none(), "{table}: read beside the writer");
            let deadline = clock::now() + TIME;
            assert!(lock.try_read_until(deadline).is_none(), "{table}: read beside the writer");
        });
        drop(writer);
        assert!(
            lock.try_read_until(clock::now() + TIME).is_some(),
            "{table}: the lock is still held"
        );
    }
    for_every_table!(check);
}

#[test]
fn a_writer_waits_for_the_reader_that_was_in_and_keeps_later_ones_out() {
    fn check<S: SlotTable + Send + Sync>(table: &str) {
        if !has_row::<S>() {
            return;
        }
        let lock = biased::<S>();
        let reader = lock.read();
        thread::scope(|scope| {
            scope.spawn(|| *lock.write() = 7);
            until(|| by_underlying(&lock) && !is_biased(&lock));
            assert!(lock.is_locked_exclusive(), "{table}: the writer lacks the underlying lock");
            assert!(lock.try_read().is_none(), "{table}: read beside a waiting writer");
            assert_eq!(*reader, 0, "{table}: wrote beside a reader");
            drop(reader);
        });
        assert_eq!(*lock.read(), 7, "{table}: the writer did not get in");
    }
    for_every_table!(check);
}

#[test]
fn a_writer_that_waits_uses_up_no_wake_up_of_its_thread() {
    let lock = biased::<SharedTable<ByStore>>();
    let is_reading = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            until(|| is_reading.load(Relaxed));
            drop(lock.write());
            // Returns immediately if the wake-up is still there, and otherwise waits for another
            // one.
            thread::park();
            sender.send(()).expect("the test waits");
        });
        let guard = lock.read();
        is_reading.store(true, Relaxed);
        // The writer is long past its spinning.
        let start = clock::now();
        until(|| by_underlying(&lock) && start.elapsed() > Duration::from_millis(20));
        writer.thread().unpark();
        let told = clock::now();
        until(|| told.elapsed() > Duration::from_millis(5));
        drop(guard);
        let woken = receiver.recv_timeout(PATIENCE);
        // A writer without its wake-up must end too, or the scope would wait for ever.
        writer.thread().unpark();
        woken.expect("the wait used up a wake-up");
    });
}

#[test]
fn more_threads_than_slots_read_and_a_writer_waits_for_all() {
    fn check<S: SlotTable + Send + Sync>(table: &str) {
        const THREADS: u32 = 3 * SLOT_COUNT as u32;
        let lock = biased::<S>();
        let all_in = Barrier::new(THREADS as usize + 1);
        let reading = AtomicU32::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let guard = lock.read();
                    all_in.wait();
                    until(|| lock.try_write().is_none());
                    reading.fetch_sub(1, Relaxed);
                    drop(guard);
                });
            }
            all_in.wait();
            *lock.write() += 1;
            assert_eq!(reading.load(Relaxed), 0, "{table}: wrote beside a reader");
        });
    }
    check::<OwnTable<BySwap, 1>>("one row, by swap");
    check::<OwnTable<ByStore, 1>>("one row, by store");
    check::<OwnTable<BySwap, 2>>("two rows, by swap");
    for_every_table!(check);
}

#[test]
fn nested_reads_take_slot_after_slot_and_then_the_underlying_lock() {
    fn check<S: SlotTable + Sync>(table: &str) {
        let locks: Vec<_> = (0..=SLOT_COUNT).map(|_| biased::<S>()).collect();
        let mut guards: Vec<_> = locks.iter().map(RwLock::read).collect();
        let beyond = locks.iter().filter(|lock| by_underlying(lock)).count();
        // Guards that another test has forgotten may have left this row fewer slots.
        let is_by_slot = beyond <= SLOT_COUNT / 2;
        assert_eq!(
            is_by_slot,
            has_row::<S>(),
            "{table}: {beyond} readers took the underlying lock"
        );
        // The first guard is dropped first, so the slots are not emptied in reverse order.
        while !guards.is_empty() {
            drop(guards.remove(0));
        }
        for lock in &locks {
            assert!(
                !lock.is_locked() && lock.try_write().is_some(),
                "{table}: a slot was not cleared"
            );
        }
        let lock = biased::<S>();
        let [first, second] = [lock.read(), lock.read()];
        drop(first);
        elsewhere(&lock, |lock| {
            assert!(lock.try_write().is_none(), "{table}: wrote beside a reader")
        });
        drop(second);
        assert!(lock.try_write().is_some(), "{table}: the lock is held without a guard");
    }
    for_every_table!(check);
}

#[test]
fn threads_that_come_and_go_leave_no_slot_behind() {
    fn check<S: SlotTable + Send + Sync>(table: &str) {
        let lock = biased::<S>();
        for round in 0..200 {
            thread::scope(|scope| {
                scope.spawn(|| *lock.read());
                scope.spawn(|| *lock.read());
            });
            assert!(!lock.is_locked(), "{table}: round {round}");
        }
        assert!(lock.try_write().is_some(), "{table}: free");
    }
    for_every_table!(check);
}

/// The guard of a thread-local, dropped by its destructor.
struct Late<S: SlotTable + 'static>(
    Option<RwLockReadGuard<'static, Bravo<parking_lot::RawRwLock, S>, u32>>,
    Option<mpsc::Sender<(bool, bool)>>,
    &'static Lock<S>,
);

impl<S: SlotTable> Drop for Late<S> {
    fn drop(&mut self) {
        let had_number = crate::thread_index().is_some();
        let held = self.2.is_locked();
        self.0 = None;
        // A read in a destructor works even after the thread number was given back.
        assert_eq!(*self.2.read(), 0);
        let sender = self.1.take().expect("a destructor runs once");
        sender.send((had_number, held)).expect("the test waits");
    }
}

#[test]
fn a_guard_may_outlive_its_threads_number() {
    macro_rules! check {
        ($table:ty) => {{
            thread_local! {
                static LATE: std::cell::RefCell<Option<Late<$table>>> =
                    const { std::cell::RefCell::new(None) };
            }
            let lock: &'static Lock<$table> = Box::leak(Box::new(biased::<$table>()));
            let (sender, receiver) = mpsc::channel();
            let leaver = thread::spawn(move || {
                // Destructors run in reverse order of registration, so the thread number is given
                // back first.
                LATE.with(|_| ());
                let late = Late(Some(lock.read()), Some(sender), lock);
                LATE.with_borrow_mut(|place| *place = Some(late));
            });
            let (had_number, held) = receiver.recv().unwrap();
            leaver.join().unwrap();
            assert!(held && !had_number, "the guard was not dropped after the number");
            assert!(!lock.is_locked() && lock.try_write().is_some(), "the slot was not cleared");
        }};
    }
    check!(SharedTable<BySwap>);
    check!(SharedTable<ByStore>);
    check!(OwnTable<ByStore>);
}

#[test]
fn a_forgotten_guard_keeps_its_lock_read_and_no_other() {
    fn check<S: SlotTable + Sync>(table: &str) {
        let mut place = biased::<S>();
        std::mem::forget(place.read());
        let moved = std::mem::replace(&mut place, biased::<S>());
        assert!(moved.is_locked() && moved.try_write().is_none(), "{table}: forgotten");
        assert!(
            place.try_write().is_some(),
            "{table}: waits for the guard of an earlier lock at this address"
        );
    }
    for_every_table!(check);
}

#[test]
fn after_a_revocation_the_bias_stays_off_for_factor_times_its_length() {
    let cases = [("factor 0", 0, true), ("a factor without end", u32::MAX, false)];
    for (case, factor, is_biased_after) in cases {
        let raw = Bravo::<_, SharedTable>::new(RawRwLock::INIT, SharedTable::INIT);
        let lock: Lock<SharedTable> = RwLock::from_raw(raw.with_inhibit_factor(factor), 0);
        for _ in 0..2 {
            drop(lock.read());
        }
        assert!(is_biased(&lock), "{case}: before");
        // Long enough for the clock to move.
        let start = clock::now();
        until(|| start.elapsed() > Duration::from_micros(1));
        drop(lock.write());
        assert!(!is_biased(&lock), "{case}: after the writer");
        drop(lock.read());
        assert_eq!(is_biased(&lock), is_biased_after, "{case}: after the next reader");
    }
}

#[test]
fn a_lock_that_is_read_in_step_with_an_inhibited_one_gets_its_bias_back() {
    let lock = |factor| -> Lock<SharedTable> {
        let raw = Bravo::<_, SharedTable>::new(RawRwLock::INIT, SharedTable::INIT)
            .with_inhibit_factor(factor);
        RwLock::from_raw(raw, 0)
    };
    let (short, endless) = (lock(1), lock(u32::MAX));
    for lock in [&short, &endless] {
        drop(lock.read());
        drop(lock.write());
    }
    let reads = (0..1_000_000).position(|_| {
        drop((short.read(), endless.read()));
        is_biased(&short)
    });
    assert!(reads.is_some(), "no reader switched the bias on");
}

#[test]
fn a_writer_that_turns_reader_lets_no_writer_between() {
    fn check<S: SlotTable + Sync>(table: &str) {
        let lock = biased::<S>();
        let mut writer = lock.write();
        *writer = 3;
        let reader = RwLockWriteGuard::downgrade(writer);
        elsewhere(&lock, |lock| {
            assert_eq!(lock.try_read().map(|guard| *guard), Some(3), "{table}: two readers");
            assert!(lock.try_write().is_none(), "{table}: a writer beside a reader");
        });
        drop(reader);
        assert!(lock.try_write().is_some(), "{table}: free");
    }
    for_every_table!(check);
}

#[test]
fn readers_that_never_pause_do_not_keep_a_writer_out() {
    fn check<S: SlotTable + Send + Sync>(table: &str) {
        const WRITES: u32 = 50;
        // The largest number of reads: a hundred times as many as during all writes on a busy
        // machine.
        const READS_MAX: u64 = 100_000_000;
        let lock = biased::<S>();
        let stop = StopFlag::default();
        thread::scope(|scope| {
            let _guard = stop.guard();
            for _ in 0..3 {
                scope.spawn(|| {
                    // The next guard is taken before the last is dropped: there is always a reader.
                    let mut guard = lock.read();
                    for _ in stop.steps(READS_MAX) {
                        let next = lock.try_read();
                        drop(guard);
                        guard = next.unwrap_or_else(|| lock.read());
                    }
                });
            }
            (0..WRITES).for_each(|_| *lock.write() += 1);
        });
        assert_eq!(*lock.read(), WRITES, "{table}");
    }
    for_every_table!(check);
}

#[test]
fn a_writers_waiting_grows_to_a_limit() {
    let us = Duration::from_micros;
    let cases = [
        (0, WaitStep::Spin(1)),
        (6, WaitStep::Spin(64)),
        (7, WaitStep::Yield),
        (16, WaitStep::Yield),
        (17, WaitStep::Nap(us(50))),
        (18, WaitStep::Nap(us(100))),
        (21, WaitStep::Nap(us(800))),
        (22, WaitStep::Nap(us(1000))),
        (31, WaitStep::Nap(us(1000))),
        (u32::MAX, WaitStep::Nap(us(1000))),
    ];
    for (round, expected) in cases {
        assert_eq!(step(round), expected, "round {round}");
    }
}

#[test]
fn guards_stay_on_their_thread_and_may_be_looked_at_from_others() {
    fn is_sync<T: Sync>() {}
    is_sync::<RwLockReadGuard<'_, Bravo<parking_lot::RawRwLock, SharedTable>, u32>>();
    is_sync::<Lock<SharedTable>>();
}
