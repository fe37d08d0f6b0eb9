//! Models of joining, dying and sweeping, in every interleaving.

use std::io;

use forebay_sync::atomic::{AtomicU64, Ordering, Relaxed};
use forebay_sync::boxed_words;
use forebay_sync::model::{breaks, holds, holds_within};
use loom::sync::Arc;
use loom::thread;

use super::*;

/// A table in a model's memory. A byte is locked while its word is 1. Clearing the word models the
/// kernel, which releases the lock of any participant that dies.
pub(crate) struct ModelTable {
    pub(crate) rows: Box<[AtomicU64]>,
    bytes: Arc<ModelLocks>,
    row_count: u32,
}

pub(crate) struct ModelLocks(Box<[AtomicU64]>);

pub(crate) struct ModelHeld {
    locks: Arc<ModelLocks>,
    row: u32,
}

impl ByteLocks for Arc<ModelLocks> {
    type Held = ModelHeld;

    fn try_lock(&self, row: u32) -> io::Result<Option<ModelHeld>> {
        // The kernel's own lock orders all operations on byte locks.
        let was = self.0[row as usize].swap(1, Ordering::AcqRel);
        Ok((was == 0).then(|| ModelHeld { locks: Arc::clone(self), row }))
    }

    fn is_locked(&self, row: u32) -> bool {
        self.0[row as usize].load(Ordering::Acquire) == 1
    }
}

impl Drop for ModelHeld {
    fn drop(&mut self) {
        self.locks.0[self.row as usize].swap(0, Ordering::AcqRel);
    }
}

impl ModelTable {
    pub(crate) fn new(row_count: u32) -> ModelTable {
        let locks = Arc::new(ModelLocks(boxed_words(row_count as usize)));
        ModelTable { rows: boxed_words(row_count as usize * ROW_WORDS), bytes: locks, row_count }
    }

    pub(crate) fn table(&self) -> Table<'_, Box<[AtomicU64]>, Arc<ModelLocks>> {
        Table { words: &self.rows, bytes: &self.bytes, row_count: self.row_count }
    }

    pub(crate) fn join(&self) -> Option<(ParticipantId, ModelHeld)> {
        self.table().join(Facts { pid: 7, start_ticks: 8, joined_ns: 9 }).unwrap()
    }
}

fn two_join_at_once() {
    let table = Arc::new(ModelTable::new(2));
    let other = Arc::clone(&table);
    let second = thread::spawn(move || other.join());
    let first = table.join();
    let second = second.join().unwrap();
    // A thread skips a byte that another thread holds, so each of the two threads finds a row.
    let (first, second) = (first.unwrap().0, second.unwrap().0);
    assert_ne!(first.row, second.row, "two participants in one row");
}

/// Models a thread that joins and immediately dies, while another one joins: the row of a dead
/// participant is not free.
fn one_joins_and_dies_while_one_joins() {
    let table = Arc::new(ModelTable::new(1));
    let other = Arc::clone(&table);
    let dying = thread::spawn(move || other.join().is_some());
    let joined = table.join().is_some();
    let died = dying.join().unwrap();
    assert!(!(joined && died), "two participants got a row that was not swept in between");
}

/// Models a participant that leaves, and the next one that joins in its row. A list must not show
/// the facts of one participant under the id of the other.
fn a_list_mixes_nobody() {
    let table = Arc::new(ModelTable::new(1));
    let (first, held) = table.join().unwrap();
    let other = Arc::clone(&table);
    let changing = thread::spawn(move || {
        other.table().leave(first, held);
        other.table().join(Facts { pid: 17, start_ticks: 18, joined_ns: 19 }).unwrap()
    });
    for row in table.table().list() {
        let pid = if row.id == first { 7 } else { 17 };
        let facts = Facts { pid, start_ticks: pid + 1, joined_ns: pid + 2 };
        assert_eq!(row.facts, facts, "facts of another participant");
    }
    drop(changing.join().unwrap());
}

fn a_list_shows_whole_rows() {
    let table = Arc::new(ModelTable::new(1));
    let other = Arc::clone(&table);
    let joiner = thread::spawn(move || other.join());
    for row in table.table().list() {
        let facts = Facts { pid: 7, start_ticks: 8, joined_ns: 9 };
        assert_eq!(row.facts, facts, "a taken row without its facts");
    }
    drop(joiner.join().unwrap());
}

/// A participant that owns something and then dies.
struct Dying {
    table: ModelTable,
    id: ParticipantId,
    owned: AtomicU64,
    cleaned_count: AtomicU64,
}

impl Dying {
    fn sweep(&self) -> u32 {
        let clean_up = |dead| {
            assert_eq!(dead, self.id, "swept a living participant");
            assert_eq!(self.owned.load(Relaxed), 5, "cleans up before the dead one's last store");
            self.cleaned_count.fetch_add(1, Relaxed);
        };
        self.table.table().sweep(clean_up).unwrap()
    }

    fn look(&self) {
        if !self.table.table().is_alive(self.id) {
            assert_eq!(self.owned.load(Relaxed), 5, "found dead before its last store");
        }
    }

    /// Models a later participant in the row of a dead one: neither is mistaken for the other.
    fn succeed(&self) {
        let (next, held) = self.table.join().unwrap();
        assert_eq!((next.row, next.generation), (self.id.row, self.id.generation + 1));
        assert!(self.table.table().is_alive(next));
        assert!(!self.table.table().is_alive(self.id), "the dead live again");
        self.table.table().leave(next, held);
    }
}

fn dies_beside(others: &[fn(&Dying)]) {
    let table = ModelTable::new(1);
    let (id, held) = table.join().unwrap();
    let (owned, cleaned_count) = (AtomicU64::new(0), AtomicU64::new(0));
    let dying = Arc::new(Dying { table, id, owned, cleaned_count });
    let beside = |run: fn(&Dying)| {
        let dying = Arc::clone(&dying);
        thread::spawn(move || run(&dying))
    };
    let threads: Vec<_> = others.iter().map(|run| beside(*run)).collect();
    dying.owned.store(5, Relaxed);
    drop(held);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    dying.sweep();
    assert_eq!(dying.cleaned_count.load(Relaxed), 1, "each death is cleaned up once");
    assert!(dying.table.table().list().is_empty(), "a row is left over");
}

fn sweep_and_look() {
    dies_beside(&[|dying| drop(dying.sweep()), Dying::look]);
}

fn sweep_and_succeed() {
    dies_beside(&[|dying| {
        if dying.sweep() == 1 {
            dying.succeed();
        }
    }]);
}

fn sweep_twice() {
    dies_beside(&[|dying| drop(dying.sweep()), |dying| drop(dying.sweep())]);
}

#[test]
fn participants_join_and_are_swept_in_every_order() {
    holds("participants: two join at once", two_join_at_once);
    holds("participants: one joins and dies, one joins", one_joins_and_dies_while_one_joins);
    holds("participants: a list while one leaves and one joins", a_list_mixes_nobody);
    holds("participants: a list while one joins", a_list_shows_whole_rows);
    holds("participants: dies while one sweeps and one looks", sweep_and_look);
    holds("participants: dies, is swept, another one joins", sweep_and_succeed);
    holds_within(Some(3), "participants: dies while two sweep", sweep_twice);
}

#[test]
fn orderings_of_participants_are_needed() {
    let model = "participants: a list while one joins";
    breaks("participants.state", model, a_list_shows_whole_rows);
    breaks("participants.look", model, a_list_shows_whole_rows);
    let model = "participants: a list while one leaves and one joins";
    breaks("participants.claim", model, a_list_mixes_nobody);
    breaks("participants.facts", model, a_list_mixes_nobody);
    let model = "participants: dies while one sweeps and one looks";
    breaks("participants.state", model, sweep_and_look);
    breaks("participants.look", model, sweep_and_look);
}
