//! One participant's row, and its leases.

use std::cell::Cell;
use std::fmt;

use super::table::Leases;
use crate::atomic::{AtomicU64, Relaxed, release};
use crate::words::Words;

/// The reason why a value is not leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLeased {
    /// The value was unlinked: look it up again.
    Gone,
    /// All slots of the row are in use. A slot becomes free when one of the row's leases ends.
    NoSlot,
    /// The place is zero, which names no value.
    NoPlace,
}

impl fmt::Display for NotLeased {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotLeased::Gone => "the value was unlinked; look it up again",
            NotLeased::NoSlot => {
                "all lease slots of the row are in use; end one of its leases first"
            }
            NotLeased::NoPlace => "the place is zero, which names no value",
        })
    }
}

impl std::error::Error for NotLeased {}

/// No lease of this row has this number, or the lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLease;

impl fmt::Display for UnknownLease {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the row has no lease with this number, or the lease has ended")
    }
}

impl std::error::Error for UnknownLease {}

/// The number of a lease, for callers that cannot hold a [`Lease`]: a C program, or a task that
/// outlives the borrow of its row. Only the row that took the lease accepts the number, and only
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId {
    slot: u32,
    serial: u32,
}

impl LeaseId {
    /// The id of a lease as one number, never zero: the slot is in the lower half, the serial
    /// number in the upper half.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.slot)
    }

    /// Restores an id from a number that [`to_raw`](LeaseId::to_raw) returned. Any other number is
    /// safe too: [`LeaseRow::release`] refuses unknown numbers.
    #[must_use]
    pub fn from_raw(raw: u64) -> LeaseId {
        LeaseId { slot: raw as u32, serial: (raw >> 32) as u32 }
    }
}

/// A row of [`Leases`], held by its owner. It may move to another thread but not be shared.
///
/// Dropping it does not end the leases that were [turned into numbers](Lease::into_id): they stay
/// until the row is cleared.
#[derive(Debug)]
pub struct LeaseRow<W> {
    leases: Leases<W>,
    row: usize,
    /// For each slot the serial number of its numbered lease, or zero.
    serials: Box<[Cell<u32>]>,
    serial_last: Cell<u32>,
    /// The slot at which the search for a free slot begins.
    slot_next: Cell<usize>,
}

/// A lease on a value; dropping it ends the lease.
#[derive(Debug)]
pub struct Lease<'row, W: Words> {
    row: &'row LeaseRow<W>,
    slot: usize,
    word: &'row AtomicU64,
}

impl<W: Words> LeaseRow<W> {
    pub(super) fn new(leases: Leases<W>, row: usize) -> LeaseRow<W> {
        let serials = (0..leases.slot_count()).map(|_| Cell::new(0)).collect();
        LeaseRow { leases, row, serials, serial_last: Cell::new(0), slot_next: Cell::new(0) }
    }

    /// The index of this row.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Leases the value at `place`, if `is_there` says that the value is still linked.
    ///
    /// The closure runs after the lease was stored. It checks, with acquire, that the value is
    /// linked where the caller found it. One place may be leased many times.
    ///
    /// # Errors
    /// [`NotLeased`]; then nothing is leased.
    pub fn take(
        &self,
        place: u64,
        is_there: impl FnOnce() -> bool,
    ) -> Result<Lease<'_, W>, NotLeased> {
        if place == 0 {
            return Err(NotLeased::NoPlace);
        }
        let (slot, word) = self.free_slot().ok_or(NotLeased::NoSlot)?;
        // ORDER: pairs with the acquire in `Leases::places`. The reclaimer of the value that this
        // slot held before may read this place without having seen the zero in between. So this
        // store, too, comes after our reads of the former value.
        word.store(place, release("leases.store"));
        self.leases.light_barrier();
        let lease = Lease { row: self, slot, word };
        if is_there() { Ok(lease) } else { Err(NotLeased::Gone) }
    }

    /// Ends a numbered lease. After that its holder must not read the value any more.
    ///
    /// Fails, and changes nothing, if this row has no lease of this number, or if the lease has
    /// ended.
    pub fn release(&self, id: LeaseId) -> Result<(), UnknownLease> {
        let slot = id.slot as usize;
        let serial = self.serials.get(slot).filter(|serial| serial.get() == id.serial);
        let serial = serial.filter(|_| id.serial != 0).ok_or(UnknownLease)?;
        serial.set(0);
        if let Some(word) = self.leases.rows().cell(self.row, slot) {
            end(word);
        }
        Ok(())
    }

    /// The number of leases that this row holds.
    pub fn held_count(&self) -> usize {
        self.leases.places_of(self.row).count()
    }

    /// A free slot. The search begins after the slot that was taken last, and wraps around.
    fn free_slot(&self) -> Option<(usize, &AtomicU64)> {
        let (begin, count) = (self.slot_next.get(), self.serials.len());
        let mut words = (begin..count).chain(0..begin).filter_map(|slot| {
            let word = self.leases.rows().cell(self.row, slot)?;
            (word.load(Relaxed) == 0).then_some((slot, word))
        });
        let found = words.next()?;
        self.slot_next.set(found.0 + 1);
        Some(found)
    }
}

impl<W: Words> Lease<'_, W> {
    /// The place of the leased value.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.word.load(Relaxed)
    }

    /// Turns the lease into a number. The value stays leased until [`LeaseRow::release`].
    #[must_use]
    pub fn into_id(self) -> LeaseId {
        // Zero marks a slot without a number. The serial numbers of a row repeat after 2^32 - 1
        // numbered leases. After that many, an old id may end another lease.
        let serial = self.row.serial_last.get().checked_add(1).unwrap_or(1);
        self.row.serial_last.set(serial);
        self.row.serials[self.slot].set(serial);
        let id = LeaseId { slot: self.slot as u32, serial };
        std::mem::forget(self);
        id
    }
}

impl<W: Words> Drop for Lease<'_, W> {
    fn drop(&mut self) {
        end(self.word);
    }
}

fn end(slot: &AtomicU64) {
    // ORDER: pairs with the acquire in `Leases::places`: our reads of the value come before it is
    // freed.
    slot.store(0, release("leases.release"));
}
