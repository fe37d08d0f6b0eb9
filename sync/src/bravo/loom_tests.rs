//! Models of the lock: readers and writers over a small underlying lock and a small table.

use loom::sync::Arc;
use loom::thread;

use lock_api::{GuardNoSend, RawRwLock};

use super::table::sealed::Sealed;
use super::{Bravo, ByStore, BySwap, Claim, OwnTable, SlotRow, SlotTable};
use crate::atomic::{AtomicU64, Ordering, Relaxed, UnsafeCell, spin_loop};
use crate::model::{breaks_within, holds_within};
use crate::thread_index::{IndexPool, become_thread};

/// The largest number of preemptions: enough to show each failure that a weakening causes.
const BOUND: Option<usize> = Some(4);

const WRITER: u64 = 1 << 32;

/// The smallest reader-writer lock: a count of readers, or a writer.
struct Tiny(AtomicU64);

impl Tiny {
    fn try_change(&self, old: impl Fn(u64) -> bool, new: impl Fn(u64) -> u64) -> bool {
        let word = self.0.load(Relaxed);
        // ORDER: pairs with the releases of the unlocks.
        old(word) && self.0.compare_exchange(word, new(word), Ordering::Acquire, Relaxed).is_ok()
    }
}

// SAFETY: a writer takes the lock only if the word is zero, a reader only if the word shows no
// writer.
unsafe impl RawRwLock for Tiny {
    const INIT: Self = panic!("loom's atomics have no constant form");
    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    fn lock_shared(&self) -> GuardNoSend {
        loop {
            if let Some(guard) = self.try_lock_shared() {
                return guard;
            }
            spin_loop();
        }
    }

    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.try_change(|word| word < WRITER, |word| word + 1).then(GuardNoSend::new)
    }

    unsafe fn unlock_shared(&self, _: GuardNoSend) {
        // ORDER: pairs with the acquire in `try_change`.
        self.0.fetch_sub(1, Ordering::Release);
    }

    fn lock_exclusive(&self) -> GuardNoSend {
        loop {
            if let Some(guard) = self.try_lock_exclusive() {
                return guard;
            }
            spin_loop();
        }
    }

    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.try_change(|word| word == 0, |_| WRITER).then(GuardNoSend::new)
    }

    unsafe fn unlock_exclusive(&self, _: GuardNoSend) {
        // ORDER: pairs with the acquire in `try_change`.
        self.0.fetch_sub(WRITER, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.load(Relaxed) >= WRITER
    }
}

/// A table that the locks of a model share.
type Table<C, const ROW_COUNT: usize> = Arc<OwnTable<C, ROW_COUNT>>;

impl<C, const ROW_COUNT: usize> Sealed for Table<C, ROW_COUNT> {}

impl<C: Claim, const ROW_COUNT: usize> SlotTable for Table<C, ROW_COUNT> {
    const INIT: Self = panic!("loom's atomics have no constant form");
    type Claim = C;

    fn rows(&self) -> &[SlotRow] {
        (**self).rows()
    }
}

/// A lock and its value.
struct Guarded<S> {
    lock: Bravo<Tiny, S>,
    data: UnsafeCell<u64>,
}

// SAFETY: the data is read and written under the lock only; loom checks whether that is enough.
unsafe impl<S: Sync> Sync for Guarded<S> {}
// SAFETY: as above.
unsafe impl<S: Send> Send for Guarded<S> {}

impl<S: SlotTable> Guarded<S> {
    fn new(table: S) -> Arc<Guarded<S>> {
        let lock = Bravo::new(Tiny(AtomicU64::new(0)), table);
        Arc::new(Guarded { lock, data: UnsafeCell::new(0) })
    }

    /// A lock whose next reader uses a slot.
    fn biased(table: S) -> Arc<Guarded<S>> {
        let guarded = Guarded::new(table);
        let hold = guarded.lock.lock_shared();
        guarded.unlock_shared(hold);
        guarded
    }

    fn read(&self) -> u64 {
        // SAFETY: the caller holds the lock.
        self.data.with(|data| unsafe { *data })
    }

    fn write(&self) {
        // SAFETY: the caller holds the lock for writing.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn unlock_shared(&self, hold: super::SharedHold<GuardNoSend>) {
        // SAFETY: the caller has the guard of this lock.
        unsafe { self.lock.unlock_shared(hold) };
    }

    fn unlock_exclusive(&self, hold: GuardNoSend) {
        // SAFETY: the caller has the guard of this lock.
        unsafe { self.lock.unlock_exclusive(hold) };
    }

    /// Reads, if the lock can be taken without waiting. Only the underlying lock makes readers
    /// wait.
    fn try_read(&self) {
        if let Some(hold) = self.lock.try_lock_shared() {
            self.read();
            self.unlock_shared(hold);
        }
    }

    fn lock_and_write(&self) {
        let hold = self.lock.lock_exclusive();
        self.write();
        self.unlock_exclusive(hold);
    }
}

/// Models a reader beside a writer. After the write, the writer reads too, and so switches the bias
/// on again.
fn reader_and_writer<C: Claim + Send + Sync>() {
    let shared = Guarded::biased(OwnTable::<C, 2>::new());
    become_thread(0);
    let other = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        become_thread(1);
        other.try_read();
    });
    shared.lock_and_write();
    shared.try_read();
    reader.join().unwrap();
}

#[test]
fn a_writer_and_a_reader_by_slot_keep_apart() {
    const NAME: &str = "bravo: reader and writer";
    holds_within(BOUND, &format!("{NAME}, by swap"), reader_and_writer::<BySwap>);
    holds_within(BOUND, &format!("{NAME}, by store"), reader_and_writer::<ByStore>);
    let names = [
        "bravo.enter",
        "bravo.revoke",
        "bravo.leave",
        "bravo.drain",
        "bravo.check",
        "bravo.rebias",
    ];
    for name in names {
        breaks_within(BOUND, name, &format!("{NAME}, by swap"), reader_and_writer::<BySwap>);
        breaks_within(BOUND, name, &format!("{NAME}, by store"), reader_and_writer::<ByStore>);
    }
}

/// Models a thread that reads one lock and then, in the same slot, another lock, beside a writer of
/// the first lock.
fn one_slot_two_locks<C: Claim + Send + Sync>() {
    let table = Arc::new(OwnTable::<C, 1>::new());
    let [first, second] = [Guarded::biased(Arc::clone(&table)), Guarded::biased(table)];
    let other = Arc::clone(&first);
    let reader = thread::spawn(move || {
        become_thread(0);
        other.try_read();
        second.try_read();
    });
    first.lock_and_write();
    reader.join().unwrap();
}

#[test]
fn a_writer_that_sees_another_locks_word_comes_after_its_own_reader() {
    const NAME: &str = "bravo: one slot, two locks";
    holds_within(BOUND, &format!("{NAME}, by swap"), one_slot_two_locks::<BySwap>);
    holds_within(BOUND, &format!("{NAME}, by store"), one_slot_two_locks::<ByStore>);
    breaks_within(
        BOUND,
        "bravo.claim",
        &format!("{NAME}, by store"),
        one_slot_two_locks::<ByStore>,
    );
}

/// Models two threads of one row that read two different locks, beside a writer of the first lock.
fn shared_row() {
    let table = Arc::new(OwnTable::<BySwap, 1>::new());
    let [first, second] = [Guarded::biased(Arc::clone(&table)), Guarded::biased(table)];
    let other = Arc::clone(&first);
    let reader = thread::spawn(move || {
        become_thread(0);
        other.try_read();
    });
    let neighbour = thread::spawn(move || {
        become_thread(1);
        second.try_read();
    });
    first.lock_and_write();
    reader.join().unwrap();
    neighbour.join().unwrap();
}

#[test]
fn threads_that_share_a_row_keep_apart() {
    holds_within(Some(3), "bravo: two threads, one row", shared_row);
}

/// Models a thread that gives its thread number back while it still reads. Another thread takes
/// this number and reads another lock, beside a writer of the first lock.
fn number_with_a_late_guard() {
    let numbers = Arc::new(IndexPool::new());
    let table = Arc::new(OwnTable::<ByStore, 1>::new());
    let [first, second] = [Guarded::biased(Arc::clone(&table)), Guarded::biased(table)];
    let others = Arc::clone(&numbers);
    let heir = thread::spawn(move || {
        if others.take() == Some(0) {
            become_thread(0);
            second.try_read();
        }
    });
    let other = Arc::clone(&first);
    let leaver = thread::spawn(move || {
        let Some(number @ 0) = numbers.take() else { return };
        become_thread(number);
        let hold = other.lock.try_lock_shared();
        numbers.give_back(number);
        if let Some(hold) = hold {
            other.read();
            other.unlock_shared(hold);
        }
    });
    first.lock_and_write();
    heir.join().unwrap();
    leaver.join().unwrap();
}

#[test]
fn a_number_given_back_while_its_slot_is_held_does_no_harm() {
    const NAME: &str = "bravo: number with a late guard";
    holds_within(Some(3), NAME, number_with_a_late_guard);
    breaks_within(Some(2), "bravo.empty", NAME, number_with_a_late_guard);
}

/// Models a thread that writes, takes the lock twice for reading and fails to take it for writing,
/// beside a reader.
fn failed_try() {
    let shared = Guarded::biased(OwnTable::<ByStore, 2>::new());
    become_thread(0);
    let other = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        become_thread(1);
        other.try_read();
    });
    shared.lock_and_write();
    let first = shared.lock.lock_shared();
    let second = shared.lock.lock_shared();
    shared.unlock_shared(first);
    assert!(shared.lock.try_lock_exclusive().is_none(), "wrote beside a reader");
    shared.unlock_shared(second);
    reader.join().unwrap();
}

/// Models a thread that tries twice to write, beside a reader.
fn two_tries() {
    let shared = Guarded::biased(OwnTable::<BySwap, 2>::new());
    become_thread(0);
    let other = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        become_thread(1);
        other.try_read();
    });
    for _ in 0..2 {
        if let Some(hold) = shared.lock.try_lock_exclusive() {
            shared.write();
            shared.unlock_exclusive(hold);
        }
    }
    reader.join().unwrap();
}

#[test]
fn a_failed_try_write_changes_nothing() {
    holds_within(BOUND, "bravo: two tries to write", two_tries);
    holds_within(BOUND, "bravo: a failed try to write", failed_try);
}
