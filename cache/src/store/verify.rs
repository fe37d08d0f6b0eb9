//! Verifying records that were in the region when this process attached to it.
//!
//! The file of the region may have been damaged while no process used it. So a lookup verifies the
//! checksum of such a record before its first use, and one thread of the process verifies all of
//! them in slices. After that, lookups verify nothing.
//!
//! The marks of a record, its first word, have no checksum.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use forebay_sync::atomic::Relaxed;

use super::long::split_fragment_key;
use super::record_index::{PinnedRecord, RecordIndex};
use super::shared::Shared;
use super::stats::Events;
use super::variants::split_variant_key;
use crate::index::{BUCKET_WORDS, IndexHit, VerifiedSlots};
use crate::segment::Record;

/// A slice of verifying ends after this many bytes, which take some 30 µs. Its last record may
/// exceed the limit.
const SLICE_BYTES: u64 = 128 * 1024;

/// The cost of one record beside its bytes, in bytes: its memory is not in a processor's cache.
const RECORD_COST_BYTES: u64 = 512;

/// The number of records that a thread remembers as verified, in 32 KiB of memory. The slices pass
/// all records within seconds, so only records that are used often in this time matter.
const REMEMBERED: usize = 4096;

/// The number of damaged records whose keys are kept for the next report.
const REPORTED_MAX: usize = 16;

/// Verifies all records in slices. One thread of each process does this.
#[derive(Debug)]
pub(crate) struct Verifier {
    shared: Arc<Shared>,
    /// The slot with which verifying continues, if this thread verifies.
    next: Cell<Option<usize>>,
}

/// The records that a thread has verified: a table from which newer entries displace older ones.
#[derive(Debug)]
pub(crate) struct RecentlyVerified {
    /// Location and low half of the sequence; 0 if there is no record. The table is empty if there
    /// is nothing to verify.
    tags: Box<[Cell<u64>]>,
}

/// The primary keys of damaged records that were removed; `None` if the key is not known.
#[derive(Debug, Default)]
pub(crate) struct DamagedRecords(RefCell<Vec<Option<Box<[u8]>>>>);

impl Verifier {
    pub(crate) fn new(shared: &Arc<Shared>) -> Verifier {
        Verifier { shared: Arc::clone(shared), next: Cell::new(None) }
    }

    /// Makes this thread verify from now on, if there are records to verify and no other thread of
    /// this process verifies or has verified them.
    pub(crate) fn begin(&self) {
        if self.next.get().is_some() || self.shared.is_verifying.load(Relaxed) {
            return;
        }
        let end = self.shared.verified.end();
        if end != u64::MAX && !self.shared.is_verifying.swap(true, Relaxed) {
            self.next.set(Some(end as usize));
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.next.get().is_some()
    }

    /// The slot at which this thread verifies, if it does.
    #[cfg(test)]
    pub(crate) fn slot(&self) -> Option<usize> {
        self.next.get()
    }

    /// Verifies the next records, and removes damaged ones. Returns whether there is more to do.
    pub(crate) fn slice(&self, records: &RecordIndex) -> bool {
        let Some(slot) = self.next.get() else {
            return false;
        };
        let next = records.verify_from(slot, SLICE_BYTES);
        let is_done = next >= records.slot_count();
        self.shared.verified.set_end(if is_done { u64::MAX } else { next as u64 });
        self.next.set((!is_done).then_some(next));
        !is_done
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        if self.is_running() {
            // Another thread continues. A thread that does not see this thread's progress begins
            // with an earlier slot, which does no harm.
            self.shared.is_verifying.store(false, Relaxed);
        }
    }
}

impl RecentlyVerified {
    pub(super) fn new(verified: &VerifiedSlots) -> RecentlyVerified {
        let count = if verified.end() == u64::MAX { 0 } else { REMEMBERED };
        RecentlyVerified { tags: (0..count).map(|_| Cell::new(0)).collect() }
    }

    /// Returns the tag of a record, made of its location and its sequence: a record that is moved
    /// gets another location, and a location that is reused gets a record with another sequence.
    fn tag_of(record: &Record<'_>) -> u64 {
        u64::from(record.location.0) | record.header.sequence << 32
    }

    fn place(&self, tag: u64) -> Option<&Cell<u64>> {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): 12 bits.
        let number = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        self.tags.get(number as usize).filter(|_| tag != 0)
    }

    fn has(&self, record: &Record<'_>) -> bool {
        let tag = RecentlyVerified::tag_of(record);
        self.place(tag).is_some_and(|kept| kept.get() == tag)
    }

    fn add(&self, record: &Record<'_>) {
        let tag = RecentlyVerified::tag_of(record);
        if let Some(place) = self.place(tag) {
            place.set(tag);
        }
    }
}

const _: () = assert!(REMEMBERED == 1 << 12);

impl DamagedRecords {
    fn note(&self, primary: Option<Box<[u8]>>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < REPORTED_MAX {
            kept.push(primary);
        }
    }

    /// Calls `report` for each record, and forgets it.
    pub(super) fn report(&self, mut report: impl FnMut(Option<&[u8]>)) {
        if !self.0.borrow().is_empty() {
            self.0.take().iter().for_each(|primary| report(primary.as_deref()));
        }
    }
}

impl RecordIndex {
    /// Whether a record that a lookup found is undamaged. Removes a damaged record, so that the
    /// lookup is a miss.
    #[cold]
    pub(super) fn verify(&self, pinned: &PinnedRecord<'_>) -> bool {
        let record = pinned.record();
        if self.recent.has(record) {
            return true;
        }
        if is_undamaged(record) {
            self.recent.add(record);
            return true;
        }
        self.drop_damaged(&pinned.hit);
        false
    }

    fn slot_count(&self) -> usize {
        self.index.bucket_count() * BUCKET_WORDS
    }

    /// Verifies records from a slot on, until it has read this many bytes. Returns the slot at
    /// which the next call continues.
    pub(super) fn verify_from(&self, slot: usize, slice_bytes: u64) -> usize {
        let (mut next, mut bytes) = (slot, 0);
        while next < self.slot_count() && bytes < slice_bytes {
            bytes += size_of::<u64>() as u64;
            self.verify_slot(next, |record| {
                bytes += RECORD_COST_BYTES;
                bytes += record.map_or(0, |record| record.header.record_bytes());
                record.is_some_and(is_undamaged)
            });
            next += 1;
        }
        next
    }

    /// Removes the record of a slot if `is_undamaged` returns false. The argument is `None` if the
    /// record's lengths are damaged.
    ///
    /// Another thread may move the record during the check. Then the copy, which is damaged too, is
    /// checked and removed: afterwards, lookups trust this slot.
    pub(super) fn verify_slot(
        &self,
        slot: usize,
        mut is_undamaged: impl FnMut(Option<&Record<'_>>) -> bool,
    ) {
        let mut primary = None;
        let is_removed = self.index.remove_slot_if(&self.pins, slot, |hit| {
            let record = self.access().record(hit.at());
            let is_undamaged = is_undamaged(record.as_ref());
            primary = record.filter(|_| !is_undamaged).and_then(|record| primary_key(&record));
            !is_undamaged
        });
        if is_removed {
            self.count_damaged(primary);
        }
    }

    /// Removes a damaged record, so that the next request fetches it.
    pub(super) fn drop_damaged(&self, hit: &IndexHit<'_>) {
        if self.remove_hit(hit) {
            self.count_damaged(self.access().record(hit.at()).as_ref().and_then(primary_key));
        }
    }

    /// Counts a damaged record that was removed, and notes its key for the next report.
    fn count_damaged(&self, primary: Option<Box<[u8]>>) {
        Events::one(&self.shared.events.dropped_damaged);
        self.damaged.note(primary);
        // The record's key or tags may be damaged, so its entries in the key index may be left.
        self.shared.leftovers.note();
    }

    /// Counts a damaged record that is removed, and notes its key for the next report. The record
    /// is `None` if its lengths are damaged.
    pub(super) fn note_damaged(&self, record: Option<&Record<'_>>) {
        Events::one(&self.shared.events.dropped_damaged);
        self.damaged.note(record.and_then(primary_key));
    }
}

/// The primary key of a record; `None` if the record is a fragment, whose key does not contain it.
fn primary_key(record: &Record<'_>) -> Option<Box<[u8]>> {
    let key = record.key();
    let primary = split_variant_key(key).map_or(key, |(primary, _, _)| primary);
    split_fragment_key(key).is_none().then(|| primary.into())
}

/// Whether the checksum of a record is right, and no unused bits of its marks are set.
pub(super) fn is_undamaged(record: &Record<'_>) -> bool {
    !record.marks.is_damaged() && record.has_valid_checksum()
}
