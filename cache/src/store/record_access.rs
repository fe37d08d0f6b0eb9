//! The index's access to the records that its words name.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use forebay_shm::Area;

use super::long::LongBody;
use super::record_keys::OwnedRecordKeys;
use super::shared::Shared;
use super::variants::{BaseBody, NamedVariants};
use crate::index::{IndexHit, PinnedLocation, Records, RemovalReason};
use crate::segment::{HeaderKind, Location, MarksWord, Record, Segments};

/// An index that no segment has.
const NO_SEGMENT: usize = usize::MAX;

/// Gives the index of a store access to the store's records.
#[derive(Clone, Debug)]
pub(crate) struct RecordAccess {
    shared: Arc<Shared>,
    /// The orphans of removed records that are not yet cleaned up.
    orphans: Rc<RefCell<Vec<Orphans>>>,
}

/// Data that a removed record leaves behind: records that only it named, or its entries in the key
/// index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Orphans {
    /// The fragments of a long body, from the fragment with this number on.
    Fragments(LongBody, u32),
    /// The variants that a base named.
    Variants(NamedVariants),
    /// The entries of a record in the key index.
    Keys(OwnedRecordKeys),
}

impl Orphans {
    /// The records that a record names; `None` if it names none.
    fn of(record: &Record<'_>) -> Option<Orphans> {
        match record.header.kind {
            HeaderKind::LongHead => {
                let long = LongBody::decode(record.body())?;
                Some(Orphans::Fragments(long, 0))
            }
            HeaderKind::Base => {
                let base = BaseBody::decode(record.body())?;
                Some(Orphans::Variants(base.named(record.key())))
            }
            HeaderKind::Whole | HeaderKind::Fragment | HeaderKind::Filler => None,
        }
    }

    /// Whether both are the fragments of one body, or the same variants. `self` may be a part of
    /// `other`.
    fn are_of(&self, other: &Orphans) -> bool {
        match (self, other) {
            (Orphans::Fragments(own, _), Orphans::Fragments(other, _)) => own == other,
            (Orphans::Variants(own), Orphans::Variants(other)) => own == other,
            _ => false,
        }
    }
}

impl RecordAccess {
    pub(crate) fn new(shared: &Arc<Shared>) -> RecordAccess {
        RecordAccess { shared: Arc::clone(shared), orphans: Rc::default() }
    }

    fn segments(&self) -> &Segments<Area> {
        &self.shared.segments
    }

    /// The record at a pinned location; `None` if it is damaged.
    #[inline]
    pub(crate) fn record<'pin>(&'pin self, at: PinnedLocation<'pin>) -> Option<Record<'pin>> {
        // SAFETY: the segment of a `PinnedLocation` is pinned, and a word that names the location
        // was loaded with acquire under the pin. The record is borrowed no longer than the pin.
        unsafe { self.segments().record(Location(at.location())) }.ok()
    }

    /// The record at a pinned location, borrowed for longer than the `PinnedLocation` itself.
    ///
    /// # Safety
    /// The pin that `at` stands for is held as long as the result, or anything borrowed from it, is
    /// used.
    #[inline]
    pub(crate) unsafe fn record_kept<'a>(&'a self, at: PinnedLocation<'_>) -> Option<Record<'a>> {
        // SAFETY: as in `record`; the caller holds the pin (contract).
        unsafe { self.segments().record(Location(at.location())) }.ok()
    }

    /// The word with the marks of a pinned record, for changing the marks; `None` if the record is
    /// damaged.
    pub(crate) fn marks<'pin>(&'pin self, at: PinnedLocation<'pin>) -> Option<MarksWord<'pin>> {
        self.record(at)?;
        // SAFETY: as in `record`, which has found a record there.
        unsafe { self.segments().marks(Location(at.location())) }
    }

    /// Whether the record at a pinned location has this key.
    #[inline]
    pub(crate) fn has_key(&self, at: PinnedLocation<'_>, key: &[u8]) -> bool {
        self.record(at).is_some_and(|record| record.key() == key)
    }

    /// Notes the orphans of a removed record for `clean_up_orphans`.
    pub(crate) fn note_orphans(&self, record: &Record<'_>) {
        let mut orphans = self.orphans.borrow_mut();
        orphans.extend(Orphans::of(record));
        orphans.extend(Orphans::of_keys(record));
    }

    /// Drops the noted orphans that a replaced record named, since the record that replaced it
    /// names them too.
    pub(crate) fn keep_orphans_of(&self, record: &Record<'_>) {
        if let Some(kept) = Orphans::of(record) {
            self.orphans.borrow_mut().retain(|orphans| !orphans.are_of(&kept));
        }
    }

    /// Whether orphans are still to be cleaned up.
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.borrow().is_empty()
    }

    /// Puts orphans back into the list, to be cleaned up next.
    pub(crate) fn put_back(&self, orphans: Orphans) {
        self.orphans.borrow_mut().push(orphans);
    }

    /// Takes entries of the key index from the end of the list, and stops at orphans of another
    /// kind. Returns `first` and the taken entries, which belong to at most `count` records in all.
    pub(crate) fn with_next_keys(
        &self,
        first: OwnedRecordKeys,
        count: usize,
    ) -> Vec<OwnedRecordKeys> {
        let (mut orphans, mut all) = (self.orphans.borrow_mut(), vec![first]);
        while all.len() < count {
            match orphans.pop() {
                Some(Orphans::Keys(ordered)) => all.push(ordered),
                Some(other) => {
                    orphans.push(other);
                    break;
                }
                None => break,
            }
        }
        all
    }

    pub(crate) fn next_orphans(&self) -> Option<Orphans> {
        self.orphans.borrow_mut().pop()
    }
}

impl RecordAccess {
    /// Counts the bytes of a record in an open segment of this thread as dead.
    fn count_own_dead(&self, location: u32) {
        // SAFETY: the segment is this thread's, open or adopted: only such places are given to the
        // methods of the index that call this.
        let record = unsafe { self.segments().record(Location(location)) };
        if let Ok(record) = record {
            self.shared.count_dead(location, record.header.record_bytes());
        }
    }
}

impl Records for RecordAccess {
    #[inline]
    fn segment_of(&self, location: u32) -> usize {
        let segment = self.shared.plan.geometry.segment_of(Location(location));
        segment.map_or(NO_SEGMENT, |segment| segment as usize)
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        self.record(at).map_or(0, |record| record.header.sequence)
    }

    fn on_removed(&self, hit: &IndexHit<'_>, reason: RemovalReason) {
        if let Some(record) = self.record(hit.at()) {
            self.shared.count_dead(hit.at().location(), record.header.record_bytes());
            self.note_orphans(&record);
        } else {
            self.shared.leftovers.note();
        }
        self.shared.events.count_removed(reason);
    }

    fn on_rejected(&self, location: u32) {
        self.count_own_dead(location);
    }
}
