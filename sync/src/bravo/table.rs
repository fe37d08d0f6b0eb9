//! The slots in which readers show themselves: one row for each thread, or for a few threads.
//!
//! A slot is zero, or the word of the lock that the thread reads ([`super::state`]).
//!
//! Readers of the row and all writers read a slot. It is written by:
//!
//! | form | threads that write a slot |
//! |---|---|
//! | [`BySwap`] | while it is empty, all threads of the row; then the thread that claimed it |
//! | [`ByStore`] | the thread of the row, or a former one that still has a guard |

use std::marker::PhantomData;

use crate::atomic::{AtomicU64, Ordering, Relaxed, acquire, release};
use crate::barrier::Barrier;
use crate::thread_index::{high_water, thread_index};

/// The number of slots of a row, which fill one cache line. A thread seldom reads more than two
/// locks at a time. A thread whose row is full takes the underlying lock.
pub const SLOT_COUNT: usize = if cfg!(loom) { 2 } else { 8 };

/// The number of rows of a table that all locks share, which has 32 KiB like the paper's table.
/// Writers scan only rows that threads have used, so more rows would cost only address space. With
/// fewer rows, many threads of a large machine would have to take the underlying lock.
pub const SHARED_ROW_COUNT: usize = 256;

/// The slots of one thread, or of the few threads that share the row.
///
/// Processors fetch cache lines in pairs, so a row occupies two cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct SlotRow([AtomicU64; SLOT_COUNT]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<SlotRow>() == 128);

impl SlotRow {
    /// A row of empty slots.
    #[cfg(not(loom))]
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is a row of its own")]
    const EMPTY: SlotRow = SlotRow([const { AtomicU64::new(0) }; SLOT_COUNT]);
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// The way in which a reader claims a slot: [`BySwap`] or [`ByStore`].
pub trait Claim: sealed::Sealed + 'static {
    /// The barrier between claim and check. Called when a lock's bias is first switched on.
    #[doc(hidden)]
    fn barrier() -> Barrier;

    /// The index of the row for the thread with this index; `None` if the thread has no row.
    #[doc(hidden)]
    fn row(thread_index: Option<u32>, row_count: usize) -> Option<usize>;

    /// Writes the word into the slot if the slot is empty.
    #[doc(hidden)]
    fn claim(slot: &AtomicU64, word: u64) -> bool;

    /// The shared table of all locks whose readers claim slots in this way.
    #[doc(hidden)]
    #[cfg(not(loom))]
    fn shared() -> &'static [SlotRow];
}

/// Readers claim a slot with a compare-and-swap and execute a fence, so any number of threads may
/// share a row.
#[derive(Clone, Copy, Debug)]
pub struct BySwap;

/// The ordering of the swap that claims a slot. `Relaxed` is enough for two reasons. The swap
/// continues the release sequence of the slot's previous reader, so a writer that reads our word
/// also synchronises with that reader. And `BySwap` always has the fence in `enter`, which orders
/// our `leave` after that reader.
// ORDER: under ThreadSanitizer, which does not model fences, an acquire replaces the fence's part.
const SWAP: Ordering = if cfg!(tsan) { Ordering::Acquire } else { Relaxed };

impl sealed::Sealed for BySwap {}

impl Claim for BySwap {
    fn barrier() -> Barrier {
        Barrier::fence()
    }

    #[inline(always)]
    fn row(thread_index: Option<u32>, row_count: usize) -> Option<usize> {
        Some(thread_index.unwrap_or(0) as usize % row_count)
    }

    #[inline(always)]
    fn claim(slot: &AtomicU64, word: u64) -> bool {
        // The load comes first because a failed swap, too, would take the cache line away from the
        // other threads of the row.
        slot.load(Relaxed) == 0 && slot.compare_exchange(0, word, SWAP, Relaxed).is_ok()
    }

    #[cfg(not(loom))]
    fn shared() -> &'static [SlotRow] {
        static TABLE: [SlotRow; SHARED_ROW_COUNT] = [const { SlotRow::EMPTY }; SHARED_ROW_COUNT];
        &TABLE
    }
}

/// Each thread has a row of its own and claims a slot with a plain store. Where the kernel offers
/// `membarrier`, readers execute no fence. A thread without a row takes the underlying lock.
#[derive(Clone, Copy, Debug)]
pub struct ByStore;

impl sealed::Sealed for ByStore {}

impl Claim for ByStore {
    fn barrier() -> Barrier {
        Barrier::process().unwrap_or(Barrier::fence())
    }

    #[inline(always)]
    fn row(thread_index: Option<u32>, row_count: usize) -> Option<usize> {
        thread_index.map(|index| index as usize).filter(|index| *index < row_count)
    }

    #[inline(always)]
    fn claim(slot: &AtomicU64, word: u64) -> bool {
        // ORDER: pairs with the release in `leave` of a thread that had this row before us and
        // dropped its guard only after it had given its thread number back.
        if slot.load(acquire("bravo.empty")) != 0 {
            return false;
        }
        // ORDER: pairs with the acquire in `drain`: a writer that waits for the slot's previous
        // reader may see only this word, which is of another lock. The writer must still come after
        // that reader's reads.
        slot.store(word, release("bravo.claim"));
        true
    }

    #[cfg(not(loom))]
    fn shared() -> &'static [SlotRow] {
        static TABLE: [SlotRow; SHARED_ROW_COUNT] = [const { SlotRow::EMPTY }; SHARED_ROW_COUNT];
        &TABLE
    }
}

/// The slots of a lock: [`SharedTable`] or [`OwnTable`].
pub trait SlotTable: sealed::Sealed {
    /// An empty table.
    const INIT: Self;

    /// The way in which readers claim slots of this table.
    type Claim: Claim;

    /// All rows.
    #[doc(hidden)]
    fn rows(&self) -> &[SlotRow];
}

/// The table that all locks of a process share, so that a lock itself needs only a few words.
#[derive(Clone, Copy, Debug)]
pub struct SharedTable<C = ByStore>(PhantomData<C>);

impl<C> sealed::Sealed for SharedTable<C> {}

#[cfg(not(loom))]
impl<C: Claim> SlotTable for SharedTable<C> {
    const INIT: Self = SharedTable(PhantomData);
    type Claim = C;

    #[inline(always)]
    fn rows(&self) -> &[SlotRow] {
        C::shared()
    }
}

/// A table inside the lock, 128 bytes a row. Its writers do not scan the readers of other locks,
/// and nested reads of other locks leave its slots free.
#[derive(Debug)]
pub struct OwnTable<C = ByStore, const ROW_COUNT: usize = 16> {
    rows: [SlotRow; ROW_COUNT],
    claim: PhantomData<C>,
}

impl<C, const ROW_COUNT: usize> sealed::Sealed for OwnTable<C, ROW_COUNT> {}

impl<C: Claim, const ROW_COUNT: usize> SlotTable for OwnTable<C, ROW_COUNT> {
    #[cfg(not(loom))]
    const INIT: Self = {
        assert!(ROW_COUNT > 0, "a table of slots needs at least one row");
        OwnTable { rows: [const { SlotRow::EMPTY }; ROW_COUNT], claim: PhantomData }
    };
    #[cfg(loom)]
    const INIT: Self = panic!("loom's atomics have no constant form");
    type Claim = C;

    #[inline(always)]
    fn rows(&self) -> &[SlotRow] {
        &self.rows
    }
}

#[cfg(loom)]
impl<C: Claim, const ROW_COUNT: usize> OwnTable<C, ROW_COUNT> {
    /// An empty table.
    pub(super) fn new() -> Self {
        let row = |_| SlotRow(std::array::from_fn(|_| AtomicU64::new(0)));
        OwnTable { rows: std::array::from_fn(row), claim: PhantomData }
    }
}

/// Writes the word into a free slot of the calling thread; returns the slot's index, or `None` if
/// no slot is free.
#[inline(always)]
pub(super) fn claim<S: SlotTable>(table: &S, word: u64) -> Option<u32> {
    let rows = table.rows();
    let row = S::Claim::row(thread_index(), rows.len())?;
    let slot = rows[row].0.iter().position(|slot| S::Claim::claim(slot, word))?;
    Some((row * SLOT_COUNT + slot) as u32)
}

/// The slot with this index.
#[inline(always)]
pub(super) fn slot<S: SlotTable>(table: &S, index: u32) -> &AtomicU64 {
    let index = index as usize;
    &table.rows()[index / SLOT_COUNT].0[index % SLOT_COUNT]
}

/// Every slot that a thread can have claimed. A writer calls this after its barrier.
pub(super) fn slots<S: SlotTable>(table: &S) -> impl Iterator<Item = &AtomicU64> {
    let rows = table.rows();
    // Threads without a thread number share the first row.
    let count = high_water().clamp(1, rows.len());
    rows[..count].iter().flat_map(|row| &row.0)
}
