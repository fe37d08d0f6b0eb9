//! The records of a store as one thread finds them: through the index and the thread's own row of
//! pins.
//!
//! A lookup reads the word of a key, pins the segment that it names, and compares the whole key.
//! The record stays in place as long as its [`PinnedRecord`] exists.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use forebay_shm::{Area, JoinError};
use forebay_sync::pins::PinRow;

use super::lookup::RecordVersion;
use super::record_access::RecordAccess;
use super::selectors::selectors;
use super::shared::Shared;
use super::variants::{self, BaseBody, NameSets};
use super::verify::{DamagedRecords, RecentlyVerified};
use super::worker::OwnRow;
use crate::index::{Index, IndexHit, IndexKey, KeyHash, PinnedLocation, Records, RemovalReason};
use crate::segment::{HeaderKind, Record};

/// One thread's view of the index, and its row of pins.
pub(crate) struct RecordIndex {
    pub(super) shared: Arc<Shared>,
    pub(crate) pins: PinRow<Area>,
    pub(crate) index: Index<Area, RecordAccess>,
    /// A buffer for temporary keys, reused to avoid allocations.
    pub(super) scratch: RefCell<Vec<u8>>,
    /// The records that this thread has verified since the process attached to the region.
    pub(super) recent: RecentlyVerified,
    /// Damaged records that were removed and are not reported yet.
    pub(super) damaged: DamagedRecords,
}

/// A record and the pin that keeps it in place.
pub(crate) struct PinnedRecord<'w> {
    /// Valid only while `hit` exists, so it is only lent by reference.
    record: Record<'w>,
    pub(crate) hit: IndexHit<'w>,
}

impl PinnedRecord<'_> {
    #[inline]
    pub(crate) fn record(&self) -> &Record<'_> {
        &self.record
    }
}

impl RecordIndex {
    /// Makes the view of the index and the row of pins for one participant.
    ///
    /// # Errors
    /// [`JoinError::Full`] if the region has no such row, or if its index area is unusable.
    ///
    /// # Safety
    /// The row has no other `RecordIndex`.
    pub(super) unsafe fn new(shared: &Arc<Shared>, row: OwnRow) -> Result<RecordIndex, JoinError> {
        let full = || JoinError::Full { participants_max: shared.plan.rows };
        // SAFETY:
        // - The row is this thread's as long as the result lives (`OwnRow`), and it has no other
        //   `PinRow` (contract).
        // - All tables over the area are made in `Shared::over`, from one plan.
        let pins = unsafe { shared.pins.row(row.number() as usize) }.ok_or_else(full)?;
        // SAFETY:
        // - All indices over this area are made here, from one plan and one seed; nothing else
        //   writes it.
        // - All rows belong to the one table of pins in the region. Segments are freed in `victim`
        //   only, after their words were removed, the barrier, and a check of their pins.
        // - A location is passed to the index in `put`, `respond` and `drain` only, and it belongs
        //   to a record that this thread has just appended to its open segment. The appender seals
        //   a segment only when every record in it is live or withdrawn.
        let index = unsafe {
            let words = shared.index_words.clone();
            Index::new(words, shared.plan.bucket_count, RecordAccess::new(shared))
        };
        let index = index.map_err(|_| full())?;
        Ok(RecordIndex {
            shared: Arc::clone(shared),
            pins,
            index,
            scratch: RefCell::default(),
            recent: RecentlyVerified::new(&shared.verified),
            damaged: DamagedRecords::default(),
        })
    }

    /// The index's access to the records that its words name.
    pub(crate) fn access(&self) -> &RecordAccess {
        self.index.records()
    }

    /// A key for operations of the index, which compare the whole key.
    #[inline]
    pub(crate) fn key<'a>(
        &'a self,
        key: &'a [u8],
    ) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + 'a> {
        self.key_of(self.shared.hash(key), key)
    }

    /// Does the same as [`key`](Self::key), for a key whose hash is known.
    #[inline]
    pub(crate) fn key_of<'a>(
        &'a self,
        hash: KeyHash,
        key: &'a [u8],
    ) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + 'a> {
        IndexKey::new(hash, move |at| self.access().has_key(at, key))
    }

    /// Looks up the live record of a key. A record that was stored before this process attached to
    /// the region is verified first, and removed if it is damaged. This does not count as a use: a
    /// caller that answers a request with the record counts the use by [`Index::count_use`].
    #[inline]
    pub(crate) fn look(&self, key: &[u8]) -> Option<PinnedRecord<'_>> {
        let seen = Cell::new(None);
        let is_at = |at: PinnedLocation<'_>| {
            // SAFETY: the kept record is used only with the hit that the lookup returns for it.
            let record = unsafe { self.access().record_kept(at) };
            let is_it = record.is_some_and(|record| record.key() == key);
            seen.set(record);
            is_it
        };
        let wanted = IndexKey::new(self.shared.hash(key), is_at);
        let verified_end = self.shared.verified.end();
        let hit = self.index.lookup(&self.pins, &wanted)?;
        let is_verified = (hit.slot() as u64) < verified_end;
        // The closure saw the record that was found last.
        let pinned = PinnedRecord { record: seen.take()?, hit };
        (is_verified || self.verify(&pinned)).then_some(pinned)
    }

    /// Removes the word of a record that a lookup found, and cleans up after the record. Returns
    /// false if the word has changed since.
    pub(super) fn remove_hit(&self, hit: &IndexHit<'_>) -> bool {
        let is_removed = self.index.remove_hit(hit);
        if is_removed {
            self.access().on_removed(hit, RemovalReason::Removed);
        }
        is_removed
    }

    /// Looks up the record of a primary key, or, if that is a base record, a variant that one of
    /// the selectors in `list` selects. The record must have the version `known`. Returns the
    /// record and the offset in its head at which the response's head begins.
    pub(super) fn find(
        &self,
        (primary, list): (&[u8], Option<&[u8]>),
        known: RecordVersion,
    ) -> Option<(PinnedRecord<'_>, usize)> {
        let is_it = |pinned: &PinnedRecord<'_>| pinned.record().header.sequence == known.sequence;
        let pinned = self.look(primary)?;
        if pinned.record().header.kind != HeaderKind::Base {
            return is_it(&pinned).then_some((pinned, 0));
        }
        selectors(list?).find_map(|selector| {
            let variant = self.find_variant(primary, &pinned, selector).filter(is_it)?;
            let head_start = variants::head_start(variant.record().head(), selector)?;
            Some((variant, head_start))
        })
    }

    /// Whether a base and its variants are as a caller has found them: the caller has a selector
    /// for each set of field names, and one of these selects the known record, or none selects any
    /// record if the caller knows none.
    pub(super) fn is_current(
        &self,
        primary: &[u8],
        base: &PinnedRecord<'_>,
        (list, known): (&[u8], Option<RecordVersion>),
    ) -> bool {
        let sets = NameSets::of(base.record().head()).iter().count();
        let sequence = |selector| self.variant_sequence(primary, base, selector);
        let mut found = selectors(list).filter_map(sequence);
        let is_known = match known {
            Some(known) => found.any(|sequence| sequence == known.sequence),
            None => found.next().is_none(),
        };
        is_known && sets <= selectors(list).count()
    }

    /// Looks up the record of a variant that the base names. A variant that the base no longer
    /// names is being removed, or remained after a death. Purges do not reach such a variant, so no
    /// lookup may find it. If the base names the same selector again, the variant has another
    /// number. `values` is the selector; the caller compares it with the record's.
    pub(crate) fn find_variant(
        &self,
        primary: &[u8],
        base: &PinnedRecord<'_>,
        values: &[u8],
    ) -> Option<PinnedRecord<'_>> {
        let base = BaseBody::decode(base.record().body())?;
        let hash = self.shared.wide_hash(values);
        let id = base.id_of(&hash)?;
        let mut key = self.scratch.take();
        variants::write_key_of(&mut key, primary, &id);
        let pinned = self.look(&key);
        self.scratch.replace(key);
        pinned
    }

    /// The sequence of a variant's record; `None` if the variant is not stored.
    pub(crate) fn variant_sequence(
        &self,
        primary: &[u8],
        base: &PinnedRecord<'_>,
        values: &[u8],
    ) -> Option<u64> {
        let pinned = self.find_variant(primary, base, values)?;
        variants::head_start(pinned.record().head(), values)?;
        Some(pinned.record().header.sequence)
    }
}
