//! Who has which lock, as far as others may want to know: a table by the lock's address.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `lock` | who has just taken that lock; who destroys it | who looks for a lock |
//! | `holder` | who has the lock | who waits for it |
//!
//! No ordering is needed: what is read is a key that is counted, and may be that of the holder
//! before. Two rows for one lock, which readers may make, are as good.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Rows that are looked at before there is no room for a lock.
const PROBES_MAX: usize = 8;

/// In the place of a lock that is no more.
const GONE: u64 = 1;

/// Which row is a lock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row(u32);

/// As large as what locks are apart at least: locks that have a line of memory for themselves, or
/// share it, have rows that do so too.
#[derive(Debug)]
#[repr(align(16))]
pub(crate) struct Slot {
    lock: AtomicU64,
    /// The key of the site where it was taken; 0 if nobody has it, or nobody knows.
    holder: AtomicU64,
}

/// The table. The number of rows is a power of two.
#[derive(Debug)]
pub(crate) struct Holders(pub(crate) &'static [Slot]);

impl Holders {
    /// The holder of a lock, or 0.
    pub(crate) fn of(&self, lock: usize) -> u64 {
        let row = self.probe(lock).find(|slot| slot.lock.load(Relaxed) == lock as u64);
        row.map_or(0, |slot| slot.holder.load(Relaxed))
    }

    /// Notes who has just taken a lock; `None` without room.
    #[inline]
    pub(crate) fn note(&self, lock: usize, holder: u64) -> Option<Row> {
        let first = self.first(lock);
        let slot = self.0.get(first)?;
        if slot.lock.load(Relaxed) == lock as u64 {
            slot.holder.store(holder, Relaxed);
            return Some(Row(first as u32));
        }
        self.note_elsewhere(lock, holder)
    }

    #[inline(never)]
    fn note_elsewhere(&self, lock: usize, holder: u64) -> Option<Row> {
        let row = self.row_of(lock).or_else(|| self.claim(lock))?;
        self.0[row.0 as usize].holder.store(holder, Relaxed);
        Some(row)
    }

    /// The lock is left by who noted this.
    #[inline]
    pub(crate) fn clear(&self, row: Row, lock: usize, holder: u64) {
        let Some(slot) = self.0.get(row.0 as usize) else {
            return;
        };
        // A reader's row may have been written by another reader since.
        if slot.lock.load(Relaxed) == lock as u64 && slot.holder.load(Relaxed) == holder {
            slot.holder.store(0, Relaxed);
        }
    }

    /// The lock is no more.
    pub(crate) fn forget(&self, lock: usize) {
        if let Some(Row(index)) = self.row_of(lock) {
            self.0[index as usize].holder.store(0, Relaxed);
            self.0[index as usize].lock.store(GONE, Relaxed);
        }
    }

    fn row_of(&self, lock: usize) -> Option<Row> {
        let probe = self.probe(lock).position(|slot| slot.lock.load(Relaxed) == lock as u64)?;
        Some(self.row_at(lock, probe))
    }

    fn claim(&self, lock: usize) -> Option<Row> {
        let probe = self.probe(lock).position(|slot| {
            let found = slot.lock.load(Relaxed);
            found <= GONE
                && slot.lock.compare_exchange(found, lock as u64, Relaxed, Relaxed).is_ok()
        })?;
        Some(self.row_at(lock, probe))
    }

    fn row_at(&self, lock: usize, probe: usize) -> Row {
        Row((self.first(lock).wrapping_add(probe) & (self.0.len() - 1)) as u32)
    }

    fn probe(&self, lock: usize) -> impl Iterator<Item = &'static Slot> {
        let (slots, first) = (self.0, self.first(lock));
        (0..PROBES_MAX.min(slots.len()))
            .map(move |probe| &slots[(first + probe) & (slots.len() - 1)])
    }

    /// Where a lock's row would be best.
    #[inline]
    fn first(&self, lock: usize) -> usize {
        // Locks that lie near each other have rows that do, which caches thank us for. Those as far
        // apart as the table is long are moved against each other.
        let near = lock / size_of::<Slot>();
        let far = (near / self.0.len()).wrapping_mul(0x9e37_79b9) & !3;
        near.wrapping_add(far) & (self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(rows: usize) -> Holders {
        let slot = || Slot { lock: AtomicU64::new(0), holder: AtomicU64::new(0) };
        Holders(Box::leak((0..rows).map(|_| slot()).collect::<Box<[_]>>()))
    }

    #[test]
    fn a_holder_is_known_from_taking_to_leaving() {
        let holders = holders(64);
        let row = holders.note(0x1000, 7).unwrap();
        assert_eq!((holders.of(0x1000), holders.of(0x1040)), (7, 0));
        holders.clear(row, 0x1000, 9);
        assert_eq!(holders.of(0x1000), 7, "another reader noted itself");
        holders.clear(row, 0x1000, 7);
        assert_eq!(holders.of(0x1000), 0);
        assert_eq!(holders.note(0x1000, 8), Some(row), "a lock keeps its row");
    }

    #[test]
    fn what_finds_no_room_is_said_and_the_room_of_what_is_gone_is_used_again() {
        let holders = holders(8);
        for lock in 1..=8 {
            assert!(holders.note(lock * 64, lock as u64).is_some(), "{lock}");
        }
        assert_eq!(holders.note(9 * 64, 9), None);
        assert_eq!((holders.of(9 * 64), holders.of(8 * 64)), (0, 8));
        holders.forget(3 * 64);
        assert!(holders.note(9 * 64, 9).is_some());
        assert_eq!((holders.of(9 * 64), holders.of(3 * 64)), (9, 0));
    }
}
