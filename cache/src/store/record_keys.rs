//! Keeping the key index consistent with the records. The entries of a record are inserted before
//! its index word is published, and removed after the word is removed.

use std::cell::RefCell;
use std::sync::Arc;

use forebay_ordmap::MapError;
use forebay_shm::crash_point;
use forebay_sync::atomic::Relaxed;

use super::key_index_sweep::KeyIndexSweep;
use super::layout::row;
use super::put::{NotStored, Put};
use super::reclaim::SliceOutcome;
use super::record_access::Orphans;
use super::shared::Shared;
use super::stats::Events;
use super::variants::split_variant_key;
use super::worker::{OwnRow, WorkerInner};
use crate::key_index::{KEY_BYTES_MAX, KeyIndexHandle, RecordKeys};
use crate::segment::{HeaderKind, Record};

/// The most attempts to insert the keys of a record, with a slice of reclaiming between two
/// attempts. Reclaiming normally makes room before the key index is full. If the key index has no
/// room all the same, this record is not stored, but later records find room.
const ATTEMPTS_MAX: usize = 3;

/// One thread's handle on the key index, with the thread's pending insert and its sweep.
pub(crate) struct KeyIndexWriter {
    pub(super) shared: Arc<Shared>,
    pub(crate) handle: KeyIndexHandle,
    /// The row that names the pending insert.
    row: OwnRow,
    /// The sweep that this thread runs, if it runs one.
    pub(super) sweep: RefCell<Option<KeyIndexSweep>>,
}

/// An owned description of a record's entries in the key index, for use after the record is
/// removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRecordKeys {
    primary: Box<[u8]>,
    has_key: bool,
    sequence: u64,
    tags: Box<[u8]>,
}

/// Guards the entries of a record until its index word is published. If it is dropped before
/// [`keep`](InsertedKeys::keep), the entries are removed: the word was withdrawn, or never
/// published.
#[must_use = "dropping it removes the keys"]
pub(crate) struct InsertedKeys<'o> {
    writer: &'o KeyIndexWriter,
    sequence: u64,
    /// The entries to remove on drop.
    keys: Option<RecordKeys<'o>>,
}

impl KeyIndexWriter {
    pub(crate) fn new(shared: &Arc<Shared>, handle: KeyIndexHandle, row: OwnRow) -> KeyIndexWriter {
        KeyIndexWriter { shared: Arc::clone(shared), handle, row, sweep: RefCell::default() }
    }

    /// Announces in this thread's row that the entries of a record are about to be inserted, so
    /// that no sweep removes them. A record without entries needs no announcement.
    fn begin<'o>(&'o self, sequence: u64, keys: Option<RecordKeys<'o>>) -> InsertedKeys<'o> {
        if keys.is_some() {
            let word = self.shared.row_word(self.row.number(), row::INSERTING);
            debug_assert_eq!(word.load(Relaxed), 0, "a row names at most one pending insert");
            self.shared.pending_inserts.begin(self.row.number(), sequence);
        }
        InsertedKeys { writer: self, sequence, keys }
    }

    /// Withdraws the announcement, since the record's word is published or will never be.
    fn end(&self) {
        self.shared.pending_inserts.end(self.row.number());
    }

    /// Removes the entries of records whose words are removed. If entries cannot be removed now, a
    /// sweep removes them later.
    pub(crate) fn remove(&self, records: &[RecordKeys<'_>]) {
        if self.handle.remove_keys(records).is_err() {
            self.shared.leftovers.note();
        }
    }

    /// Whether the key index has so little room left that records have to be evicted.
    pub(crate) fn is_short(&self) -> bool {
        self.handle.is_short()
    }
}

impl InsertedKeys<'_> {
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Keeps the entries, since the record's word is published. Returns the record's sequence.
    pub(crate) fn keep(mut self) -> u64 {
        if self.keys.take().is_some() {
            self.writer.end();
        }
        self.sequence
    }
}

impl Drop for InsertedKeys<'_> {
    fn drop(&mut self) {
        let Some(keys) = self.keys.take() else {
            return;
        };
        self.writer.end();
        if std::thread::panicking() {
            // The record's word may be published. If it is not, a sweep removes the entries.
            self.writer.shared.leftovers.note();
        } else {
            self.writer.remove(&[keys]);
        }
    }
}

impl OwnedRecordKeys {
    /// The entries of a record; `None` for a fragment, and for a variant without tags.
    pub(crate) fn of(record: &Record<'_>) -> Option<OwnedRecordKeys> {
        let (primary, has_key) = primary_of(record.header.kind, record.key())?;
        let (sequence, tags) = (record.header.sequence, record.tags());
        let keys = RecordKeys { primary, has_key, sequence, tags };
        let owned =
            || OwnedRecordKeys { primary: primary.into(), has_key, sequence, tags: tags.into() };
        (!keys.is_nowhere()).then(owned)
    }

    pub(crate) fn borrowed(&self) -> RecordKeys<'_> {
        let OwnedRecordKeys { primary, has_key, sequence, tags } = self;
        RecordKeys { primary, has_key: *has_key, sequence: *sequence, tags }
    }
}

/// The primary key of a record's resource, and whether the record is stored under that key itself,
/// which is false for a variant. `None` for a fragment.
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
    /// The entries that the record will have in the key index; `None` if it will have none.
    fn keys(&self, sequence: u64) -> Option<RecordKeys<'a>> {
        let (primary, has_key) = primary_of(self.kind, self.key)?;
        let keys = RecordKeys { primary, has_key, sequence, tags: self.tags };
        (!keys.is_nowhere()).then_some(keys)
    }
}

impl WorkerInner {
    /// Gives a record its sequence and inserts its entries into the key index. The caller appends
    /// and publishes this record before it stores another one. If the key index has no room, some
    /// records are evicted, as if memory were full.
    pub(crate) fn insert_keys<'o>(&'o self, put: &Put<'o>) -> Result<InsertedKeys<'o>, NotStored> {
        let sequence = self.shared.next_sequence();
        let keys = put.keys(sequence);
        let inserted = self.keys.begin(sequence, keys);
        let Some(keys) = keys else {
            return Ok(inserted);
        };
        if keys.primary.len() > KEY_BYTES_MAX {
            return Err(NotStored::TooLarge);
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.keys.handle.insert_keys(&keys) {
                Ok(()) => {
                    // Reclaiming begins before the key index is full.
                    if self.keys.is_short() {
                        self.reclaimer.request();
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

    /// Evicts some records. Returns whether the key index may have room now.
    fn make_room_in_key_index(&self) -> bool {
        self.reclaimer.request();
        let slice = self.reclaim_for_key_index(self.reclaimer.now());
        while self.clean_up_orphans() {}
        slice == SliceOutcome::More
    }
}

impl Orphans {
    /// The entries of a record in the key index, to be removed once the record is removed.
    pub(super) fn of_keys(record: &Record<'_>) -> Option<Orphans> {
        OwnedRecordKeys::of(record).map(Orphans::Keys)
    }
}

impl std::fmt::Debug for InsertedKeys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InsertedKeys").finish_non_exhaustive()
    }
}
