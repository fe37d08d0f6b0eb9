//! The locks that a thread holds, and the one that it waits for. They lie in the thread's block,
//! where a waiter looks for the holder, and where tools see them even when the program hangs or has
//! ended.
//!
//! | words | written by | read by |
//! |---|---|---|
//! | the word of used rows | the thread that has the block | that thread; waiters; tools |
//! | the rows | the thread that has the block | that thread; waiters; tools |
//!
//! No ordering is needed, since a wrong answer only assigns a wait to a wrong holder. A waiter that
//! reads a row while it is being written may see a mixture of old and new words: then the wait
//! counts for the previous holder, or for none.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::attempt::{Acquisition, HoldRecord};
use super::clock::Stamp;
use super::plan::{HOLDS_MAX, block, hold};
use super::shared::Profile;

type HoldRow = [AtomicU64; hold::WORDS];

const _: () = assert!(HOLDS_MAX < 64, "the word of used rows needs a bit for each row");

/// The part of a block that contains the thread's current holds and its current wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// Bit *n* is set while row *n* is in use.
    used: &'static AtomicU64,
    rows: &'static [HoldRow; HOLDS_MAX],
    awaited: &'static HoldRow,
}

/// A recorded hold of a lock, from [acquired](super::Recorder::acquired) to
/// [released](super::Recorder::released).
#[derive(Clone, Copy, Debug)]
pub struct ProfiledHold {
    pub(super) held: HoldRecord,
    row: u32,
}

impl ProfiledHold {
    /// The index of this hold among the thread's holds.
    #[must_use]
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.row
    }
}

impl Holds {
    /// The holds in the words of a block.
    pub(super) fn of(block: &'static [AtomicU64]) -> Holds {
        let (rows, _) = block[block::HEAD_WORDS..].as_chunks();
        let (rows, rest) =
            rows.split_first_chunk().expect("a block has `HOLDS_MAX` rows for holds");
        Holds { used: &block[block::HOLDS_USED], rows, awaited: &rest[0] }
    }

    /// Forgets all holds and the wait.
    pub(super) fn clear(&self) {
        self.used.store(0, Relaxed);
        self.awaited[hold::LOCK].store(0, Relaxed);
    }

    /// The bits of the rows in use. They are masked, since other programs may write this word.
    #[inline(always)]
    fn used(&self) -> u64 {
        self.used.load(Relaxed) & ((1 << HOLDS_MAX) - 1)
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.used().trailing_ones() < HOLDS_MAX as u32
    }

    /// Adds a hold. If all rows are in use, it replaces the oldest hold.
    #[inline(always)]
    pub(super) fn add(&self, taken: &Acquisition, held: HoldRecord) -> ProfiledHold {
        let used = self.used();
        let free = used.trailing_ones() as usize;
        let index = if free < HOLDS_MAX { free } else { self.oldest() };
        let row = &self.rows[index];
        let shared = if taken.is_shared { hold::SHARED } else { 0 };
        row[hold::LOCK].store(taken.lock as u64, Relaxed);
        row[hold::KEY].store(held.key, Relaxed);
        row[hold::SINCE].store(held.since.ticks(), Relaxed);
        row[hold::ROW]
            .store(u64::from(held.row) | shared | u64::from(held.generation) << 32, Relaxed);
        self.used.store(used | 1 << index, Relaxed);
        ProfiledHold { held, row: index as u32 }
    }

    #[cold]
    fn oldest(&self) -> usize {
        let since = |index: &usize| self.rows[*index][hold::SINCE].load(Relaxed);
        (0..HOLDS_MAX).min_by_key(since).unwrap_or(0)
    }

    /// The latest hold of a lock, and whether it is shared.
    #[inline(always)]
    pub(super) fn find(&self, lock: usize) -> Option<(ProfiledHold, bool)> {
        let mut latest: Option<(ProfiledHold, bool)> = None;
        let mut left = self.used();
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let row = &self.rows[index as usize];
            if row[hold::LOCK].load(Relaxed) == lock as u64 {
                let held = held_in(row);
                if latest.is_none_or(|(latest, _)| latest.held.since <= held.since) {
                    let is_shared = row[hold::ROW].load(Relaxed) & hold::SHARED != 0;
                    latest = Some((ProfiledHold { held, row: index }, is_shared));
                }
            }
        }
        latest
    }

    /// The hold at an index, if that row is in use.
    #[inline(always)]
    pub(super) fn at(&self, index: u32) -> Option<ProfiledHold> {
        let row = self.rows.get(index as usize)?;
        let is_used = self.used() >> index & 1 != 0;
        is_used.then(|| ProfiledHold { held: held_in(row), row: index })
    }

    /// Removes a hold.
    #[inline(always)]
    pub(super) fn remove(&self, hold: &ProfiledHold) {
        self.used.store(self.used() & !(1 << hold.row), Relaxed);
    }

    /// Begins the thread's wait for a lock.
    pub(super) fn wait_for(&self, lock: usize, key: u64, since: Stamp) {
        self.awaited[hold::KEY].store(key, Relaxed);
        self.awaited[hold::SINCE].store(since.ticks(), Relaxed);
        self.awaited[hold::LOCK].store(lock as u64, Relaxed);
    }

    /// Ends the thread's wait.
    pub(super) fn stop_waiting(&self) {
        self.awaited[hold::LOCK].store(0, Relaxed);
    }
}

#[inline(always)]
fn held_in(row: &HoldRow) -> HoldRecord {
    let row_and_generation = row[hold::ROW].load(Relaxed);
    HoldRecord {
        key: row[hold::KEY].load(Relaxed),
        since: Stamp::of_ticks(row[hold::SINCE].load(Relaxed)),
        generation: (row_and_generation >> 32) as u32,
        row: (row_and_generation & !hold::SHARED) as u32,
    }
}

/// The number of blocks that are searched for a holder. If more threads have blocks, the holder may
/// not be found. There is a limit because each search of a block reads a cache line that another
/// thread writes.
const SEARCHED_MAX: usize = 256;

/// The key of the call site of a lock's holder; 0 if no holder is found. Searches up to `looks`
/// times, since a holder that has just acquired the lock may not have recorded that yet.
#[cold]
pub(super) fn holder_of(profile: &Profile, lock: usize, looks: usize) -> u64 {
    let held = (0..looks).find_map(|_| look_for_holder(profile, lock));
    held.map_or(0, |held| held.key)
}

/// The hold of a lock, among the holds of all threads. If there are several exclusive holds, this
/// is the latest: the other threads have just released the lock, or handed the release over to
/// another thread. If readers hold the lock, this is the hold of any of them.
fn look_for_holder(profile: &Profile, lock: usize) -> Option<HoldRecord> {
    let mut latest: Option<HoldRecord> = None;
    for (index, owner) in profile.owners().iter().take(SEARCHED_MAX).enumerate() {
        if owner.load(Relaxed) == 0 {
            continue;
        }
        let found = Holds::of(profile.block(index)).find(lock);
        if let Some((hold, _)) = found.filter(|(_, is_shared)| *is_shared) {
            return Some(hold.held);
        }
        let found = found.map(|(hold, _)| hold.held);
        latest = latest.into_iter().chain(found).max_by_key(|held| held.since);
    }
    latest
}
