//! Limbo: entries that no leaf names any more, but that leases may still hold.
//!
//! Reclaiming has three steps. It raises the generations of these entries, so that no new lease of
//! them succeeds. It runs a barrier. Then it reads all leases, and frees the entries that no lease
//! names. The capacity of limbo covers all entries that leases can hold at one time, so a reader
//! that never ends its leases blocks no writer.
//!
//! An entry is freed before its place in limbo is cleared: a process that dies in between leaves a
//! place that names a free object, which the next owner clears.

use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;
use forebay_sync::leases::Leases;

use super::words::{LIMBO_BATCH, LIMBO_COUNT, LIMBO_HINT, LIMBO_KEPT, ShardWords};
use crate::object::{Allocator, ObjectReadError, ObjectRef};

/// The limbo of one shard, for the owner of its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limbo<'a> {
    allocator: Allocator<'a>,
    shard: ShardWords<'a>,
}

impl<'a> Limbo<'a> {
    pub(crate) fn new(allocator: Allocator<'a>, shard: ShardWords<'a>) -> Limbo<'a> {
        Limbo { allocator, shard }
    }

    /// Adds an entry. Limbo is not full if it was reclaimed whenever that [was due](Limbo::is_due).
    pub(crate) fn push(&self, entry: ObjectRef) -> Result<(), ObjectReadError> {
        let places = self.shard.limbo();
        let hint = self.shard.load(LIMBO_HINT) as usize % places.len();
        let mut all = (0..places.len()).map(|step| (hint + step) % places.len());
        let free = all.find(|place| places[*place].load(Relaxed) == 0);
        let place = free.ok_or(ObjectReadError::Damaged("limbo is full"))?;
        places[place].store(entry.word(), Relaxed);
        self.shard.store(LIMBO_HINT, place as u64 + 1);
        self.shard.store(LIMBO_COUNT, self.count().wrapping_add(1));
        Ok(())
    }

    /// Adds an entry during a repair, unless the dead process has added it.
    pub(crate) fn push_again(&self, entry: ObjectRef) -> Result<(), ObjectReadError> {
        let is_there = self.shard.limbo().iter().any(|place| place.load(Relaxed) == entry.word());
        if entry.is_none() || is_there { Ok(()) } else { self.push(entry) }
    }

    /// The number of entries in limbo.
    pub(crate) fn count(&self) -> u64 {
        self.shard.load(LIMBO_COUNT)
    }

    /// Whether a batch was added since the last reclaim.
    pub(crate) fn is_due(&self) -> bool {
        self.count() >= self.shard.load(LIMBO_KEPT).saturating_add(LIMBO_BATCH as u64)
    }

    /// Frees all entries that no lease names, and returns their number.
    pub(crate) fn reclaim<W: Words>(&self, leases: &Leases<W>) -> Result<u64, ObjectReadError> {
        let places = self.shard.limbo();
        let waiting = || {
            let all = places.iter().map(|place| (place, ObjectRef::of_word(place.load(Relaxed))));
            all.filter(|(_, entry)| !entry.is_none())
        };
        for (_, entry) in waiting() {
            self.allocator.raise(entry);
        }
        crate::step!("limbo.raised");
        leases.barrier();
        let mut leased = Vec::new();
        leases.leased_places(&mut leased);
        let mut freed = 0;
        for (place, entry) in waiting() {
            if leased.binary_search(&entry.word()).is_ok() {
                continue;
            }
            self.allocator.release(entry)?;
            crate::step!("limbo.freed");
            place.store(0, Relaxed);
            crate::step!("limbo.cleared");
            freed += 1;
        }
        let kept = self.count().saturating_sub(freed);
        self.shard.store(LIMBO_COUNT, kept);
        self.shard.store(LIMBO_KEPT, kept);
        self.shard.store(LIMBO_HINT, 0);
        Ok(freed)
    }

    /// After a death: clears places of freed entries, and counts the others.
    pub(crate) fn repair(&self) {
        let mut count = 0;
        for place in self.shard.limbo() {
            let entry = ObjectRef::of_word(place.load(Relaxed));
            if !entry.is_none() && !self.allocator.is_taken(entry) {
                place.store(0, Relaxed);
            }
            count += u64::from(place.load(Relaxed) != 0);
        }
        self.shard.store(LIMBO_COUNT, count);
        self.shard.store(LIMBO_KEPT, 0);
        self.shard.store(LIMBO_HINT, 0);
    }
}
