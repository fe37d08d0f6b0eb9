//! Keeping the order of keys and tags as the index is: an entry comes before the word of its
//! record, and leaves behind it.

use forebay_ordmap::MapError;
use forebay_shm::crash_point;

use super::put::{NotStored, Put};
use super::reclaim::Slice;
use super::record_access::Orphans;
use super::stats::Events;
use super::variants::split_variant_key;
use super::worker::WorkerInner;
use crate::key_index::{KEY_BYTES_MAX, RecordKeys};
use crate::segment::{HeaderKind, Record};

/// How often a record is tried to be entered, with a slice of reclaiming in between. Room is made
/// in advance: if it is not there now, the next record will find it.
const ATTEMPTS_MAX: usize = 3;

/// What of a record is in the order, by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRecordKeys {
    primary: Box<[u8]>,
    has_key: bool,
    sequence: u64,
    tags: Box<[u8]>,
}

/// A record has a sequence and is entered in the order. When this is dropped its word is published,
/// or never will be; then its entries leave.
#[must_use = "its entries leave"]
pub(crate) struct InsertedKeys<'o> {
    inner: &'o WorkerInner,
    sequence: u64,
    /// What is to leave.
    ordered: Option<RecordKeys<'o>>,
}

impl InsertedKeys<'_> {
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The record is published. Its sequence.
    pub(crate) fn keep(mut self) -> u64 {
        if self.ordered.take().is_some() {
            self.inner.shared.pending_inserts.end(self.inner.part.row());
        }
        self.sequence
    }
}

impl Drop for InsertedKeys<'_> {
    fn drop(&mut self) {
        let Some(ordered) = self.ordered.take() else {
            return;
        };
        self.inner.shared.pending_inserts.end(self.inner.part.row());
        if std::thread::panicking() {
            // Its word may be published. What is not is swept out.
            self.inner.shared.leftovers.note();
        } else {
            self.inner.remove_keys(&[ordered]);
        }
    }
}

impl OwnedRecordKeys {
    /// What of a record is in the order; nothing of a fragment, or of a variant without tags.
    pub(crate) fn of(record: &Record<'_>) -> Option<OwnedRecordKeys> {
        let (primary, has_key) = primary_of(record.header.kind, record.key())?;
        let (sequence, tags) = (record.header.sequence, record.tags());
        let ordered = RecordKeys { primary, has_key, sequence, tags };
        let owned =
            || OwnedRecordKeys { primary: primary.into(), has_key, sequence, tags: tags.into() };
        (!ordered.is_nowhere()).then(owned)
    }

    pub(crate) fn borrowed(&self) -> RecordKeys<'_> {
        let OwnedRecordKeys { primary, has_key, sequence, tags } = self;
        RecordKeys { primary, has_key: *has_key, sequence: *sequence, tags }
    }
}

/// The primary key of a record, and whether it stands under it; nothing for a fragment.
pub(crate) fn primary_of(kind: HeaderKind, key: &[u8]) -> Option<(&[u8], bool)> {
    match kind {
        HeaderKind::Base => Some((key, true)),
        HeaderKind::Whole | HeaderKind::LongHead => Some(match split_variant_key(key) {
            Some((primary, _, _)) => (primary, false),
            None => (key, true),
        }),
        HeaderKind::Fragment | HeaderKind::Filler => None,
    }
}

impl<'a> Put<'a> {
    /// What of it will be in the order.
    fn ordered(&self, sequence: u64) -> Option<RecordKeys<'a>> {
        let (primary, has_key) = primary_of(self.kind, self.key)?;
        let ordered = RecordKeys { primary, has_key, sequence, tags: self.tags };
        (!ordered.is_nowhere()).then_some(ordered)
    }
}

impl WorkerInner {
    /// Gives a record a sequence, and enters it, before it is appended: then nothing else may be
    /// appended before its word is published. If there is no room in the order some records leave,
    /// as if there were none in memory.
    pub(crate) fn insert_keys<'o>(&'o self, put: &Put<'o>) -> Result<InsertedKeys<'o>, NotStored> {
        let sequence = self.shared.next_sequence();
        let ordered = put.ordered(sequence);
        let inserted = InsertedKeys { inner: self, sequence, ordered };
        let Some(ordered) = ordered else {
            return Ok(inserted);
        };
        self.shared.pending_inserts.begin(self.part.row(), sequence);
        if ordered.primary.len() > KEY_BYTES_MAX {
            return Err(NotStored::TooLarge);
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.key_index.insert_keys(&ordered) {
                Ok(()) => {
                    // Room is made before it is needed.
                    if self.key_index.is_short() {
                        self.is_due.set(true);
                    }
                    crash_point!("store.entered");
                    return Ok(inserted);
                }
                Err(MapError::Full) if self.make_room_in_key_index() => {}
                Err(MapError::Damaged { .. }) => {
                    Events::one(&self.shared.events.order_damaged);
                    break;
                }
                Err(_) => break,
            }
        }
        Events::one(&self.shared.events.order_refused);
        Err(NotStored::NoRoom)
    }

    /// Takes what named records out of the order, now that the index does not name them any more.
    pub(crate) fn remove_keys(&self, records: &[RecordKeys<'_>]) {
        if self.key_index.remove_keys(records).is_err() {
            self.shared.leftovers.note();
        }
    }

    /// Lets some records leave; whether there may be room now.
    fn make_room_in_key_index(&self) -> bool {
        self.is_due.set(true);
        let slice = self.reclaim_for_key_index(self.now.get());
        while self.demote_orphans() {}
        slice == Slice::More
    }
}

impl Orphans {
    /// What of a record is to leave the order.
    pub(super) fn of_keys(record: &Record<'_>) -> Option<Orphans> {
        OwnedRecordKeys::of(record).map(Orphans::RecordKeys)
    }
}

impl std::fmt::Debug for InsertedKeys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InsertedKeys").finish_non_exhaustive()
    }
}
