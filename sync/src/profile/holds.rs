//! The locks that a thread has, and the one that it waits for: in its block, where who finds a lock
//! taken can look for the holder, and where tools see it, also when the program is stuck or gone.
//!
//! | words | written by | read by |
//! |---|---|---|
//! | which rows are in use | the thread that has the block | it; who waits for a lock; tools |
//! | the rows | the same | the same |
//!
//! No ordering is needed: who waits takes what it finds, and counts it. A row that is being written
//! may be another's for a moment: a wait is then laid at the door of who had the lock just before,
//! or of nobody.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::attempt::{Acquisition, HoldRecord};
use super::clock::Stamp;
use super::plan::{HOLDS_MAX, block, hold};
use super::shared::Profile;

type HoldRow = [AtomicU64; hold::WORDS];

const _: () = assert!(HOLDS_MAX < 64, "a word has a bit for each");

/// The part of a block that is about now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// Bit *n* is set while row *n* is in use.
    used: &'static AtomicU64,
    rows: &'static [HoldRow; HOLDS_MAX],
    awaited: &'static HoldRow,
}

/// A lock that a thread has [acquired](super::Recorder::acquired), until it has
/// [released](super::Recorder::released) it.
#[derive(Clone, Copy, Debug)]
pub struct ProfiledHold {
    pub(super) held: HoldRecord,
    row: u32,
}

impl ProfiledHold {
    /// Which of the thread's holds it is.
    #[must_use]
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.row
    }
}

impl Holds {
    /// Those of a block.
    pub(super) fn of(block: &'static [AtomicU64]) -> Holds {
        let (rows, _) = block[block::HEAD_WORDS..].as_chunks();
        let (rows, rest) = rows.split_first_chunk().expect("a block has rows for holds");
        Holds { used: &block[block::HOLDS_USED], rows, awaited: &rest[0] }
    }

    /// Nothing is held, nor waited for.
    pub(super) fn clear(&self) {
        self.used.store(0, Relaxed);
        self.awaited[hold::LOCK].store(0, Relaxed);
    }

    /// Which rows are in use: others may have written more than there are.
    #[inline(always)]
    fn used(&self) -> u64 {
        self.used.load(Relaxed) & ((1 << HOLDS_MAX) - 1)
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.used().trailing_ones() < HOLDS_MAX as u32
    }

    /// Adds a hold. Without room it takes the place of the oldest.
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

    /// The latest hold of a lock, and whether others may have it too.
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

    /// The hold that was added there.
    #[inline(always)]
    pub(super) fn at(&self, index: u32) -> Option<ProfiledHold> {
        let row = self.rows.get(index as usize)?;
        let is_used = self.used() >> index & 1 != 0;
        is_used.then(|| ProfiledHold { held: held_in(row), row: index })
    }

    /// Takes out a hold that was found.
    #[inline(always)]
    pub(super) fn remove(&self, hold: &ProfiledHold) {
        self.used.store(self.used() & !(1 << hold.row), Relaxed);
    }

    /// The thread waits for a lock from now on.
    pub(super) fn wait_for(&self, lock: usize, key: u64, since: Stamp) {
        self.awaited[hold::KEY].store(key, Relaxed);
        self.awaited[hold::SINCE].store(since.ticks(), Relaxed);
        self.awaited[hold::LOCK].store(lock as u64, Relaxed);
    }

    /// It waits no more.
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

/// Blocks that are searched for a holder: with more threads than these, it may not be found. Each
/// of them costs a line of memory that another thread writes.
const SEARCHED_MAX: usize = 256;

/// Looks for who has a lock, so many times: who has just taken it may not have said so yet. The key
/// of the site where it was taken; 0 if nobody is known to have it.
#[cold]
pub(super) fn holder_of(profile: &Profile, lock: usize, looks: usize) -> u64 {
    let held = (0..looks).find_map(|_| look_for_holder(profile, lock));
    held.map_or(0, |held| held.key)
}

/// Of those who seem to have the lock, the one who came last: the others have just left it, or
/// left it to another thread to leave. A reader is any of them.
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
