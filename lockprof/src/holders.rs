//! Who has which lock, as far as others may want to know: a table by the lock's address.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `lock` | who has just taken that lock; who destroys it | who looks for a lock |
//! | `holder` | who has just taken the lock | who waits for it |
//! | `on_since` | the same | the same |
//!
//! A holder stays when the lock is left, since whoever takes it next replaces it: two holders at
//! one site cannot be told apart, so none could take out just itself. What was noted before the
//! profile was last turned on does not count: who took locks while it was off noted nothing.
//!
//! No ordering is needed: what is read is a key that is counted, and may be that of the holder
//! before. Two rows for one lock, which readers may make, are as good.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Rows that are looked at before there is no room for a lock.
const PROBES_MAX: usize = 8;

/// In the place of a lock that is no more.
const GONE: u64 = 1;

/// As large as what locks are apart at least: locks that have a line of memory for themselves, or
/// share it, have rows that do so too.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Slot {
    lock: AtomicU64,
    /// The key of the site where it was taken last; 0 if nobody knows.
    holder: AtomicU64,
    /// When the profile was turned on for that.
    on_since: AtomicU64,
}

/// Who has a lock, and [since when](forebay_sync::profile::Profile::on_since) the profile was on
/// when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) key: u64,
    pub(crate) on_since: u64,
}

impl Slot {
    /// Readers of one site write it once.
    #[inline]
    fn set(&self, holder: Holder) {
        for (word, value) in [(&self.holder, holder.key), (&self.on_since, holder.on_since)] {
            if word.load(Relaxed) != value {
                word.store(value, Relaxed);
            }
        }
    }
}

/// The table. The number of rows is a power of two.
#[derive(Debug)]
pub(crate) struct Holders(pub(crate) &'static [Slot]);

impl Holders {
    /// The key of a lock's holder, or 0; the profile is on since then.
    pub(crate) fn of(&self, lock: usize, on_since: u64) -> u64 {
        let slot = self.slot_of(lock).filter(|slot| slot.on_since.load(Relaxed) == on_since);
        slot.map_or(0, |slot| slot.holder.load(Relaxed))
    }

    /// Notes who has just taken a lock; false without room.
    #[inline]
    pub(crate) fn note(&self, lock: usize, holder: Holder) -> bool {
        let Some(slot) = self.0.get(self.first(lock)) else {
            return false;
        };
        if slot.lock.load(Relaxed) == lock as u64 {
            slot.set(holder);
            return true;
        }
        self.note_elsewhere(lock, holder)
    }

    #[inline(never)]
    fn note_elsewhere(&self, lock: usize, holder: Holder) -> bool {
        let slot = self.slot_of(lock).or_else(|| self.claim(lock));
        slot.inspect(|slot| slot.set(holder)).is_some()
    }

    /// The lock was taken by somebody who is not noted.
    #[inline]
    pub(crate) fn clear(&self, lock: usize) {
        let slot = self.slot_of(lock).filter(|slot| slot.holder.load(Relaxed) != 0);
        if let Some(slot) = slot {
            slot.holder.store(0, Relaxed);
        }
    }

    /// The lock is no more.
    pub(crate) fn forget(&self, lock: usize) {
        if let Some(slot) = self.slot_of(lock) {
            slot.holder.store(0, Relaxed);
            slot.lock.store(GONE, Relaxed);
        }
    }

    fn slot_of(&self, lock: usize) -> Option<&'static Slot> {
        self.probe(lock).find(|slot| slot.lock.load(Relaxed) == lock as u64)
    }

    fn claim(&self, lock: usize) -> Option<&'static Slot> {
        self.probe(lock).find(|slot| {
            let found = slot.lock.load(Relaxed);
            found <= GONE
                && slot.lock.compare_exchange(found, lock as u64, Relaxed, Relaxed).is_ok()
        })
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
        let word = || AtomicU64::new(0);
        let slot = || Slot { lock: word(), holder: word(), on_since: word() };
        Holders(Box::leak((0..rows).map(|_| slot()).collect::<Box<[_]>>()))
    }

    fn at(key: u64) -> Holder {
        Holder { key, on_since: 5 }
    }

    #[test]
    fn a_holder_is_known_until_the_lock_is_taken_by_another() {
        let holders = holders(64);
        assert!(holders.note(0x1000, at(7)));
        assert_eq!((holders.of(0x1000, 5), holders.of(0x1040, 5)), (7, 0));
        assert!(holders.note(0x1000, at(8)));
        assert_eq!(holders.of(0x1000, 5), 8);
        holders.clear(0x1000);
        assert_eq!(holders.of(0x1000, 5), 0, "somebody has it who is not noted");
        assert!(holders.note(0x1000, at(8)));
        assert_eq!(holders.of(0x1000, 6), 0, "while off, others may have taken it");
        let used = holders.0.iter().filter(|slot| slot.lock.load(Relaxed) != 0);
        assert_eq!(used.count(), 1, "a lock keeps its row");
    }

    #[test]
    fn what_finds_no_room_is_said_and_the_room_of_what_is_gone_is_used_again() {
        let holders = holders(8);
        for lock in 1..=8 {
            assert!(holders.note(lock * 64, at(lock as u64)), "{lock}");
        }
        assert!(!holders.note(9 * 64, at(9)));
        assert_eq!((holders.of(9 * 64, 5), holders.of(8 * 64, 5)), (0, 8));
        holders.forget(3 * 64);
        assert!(holders.note(9 * 64, at(9)));
        assert_eq!((holders.of(9 * 64, 5), holders.of(3 * 64, 5)), (9, 0));
    }
}
