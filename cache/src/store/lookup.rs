//! Lookups: the record of a key, borrowed from the region under a pin.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::body_handle::{BodyHandle, ConnectionTag};
use super::long::LongBody;
use super::record_index::PinnedRecord;
use super::variants::{self, BaseBody, NameSets};
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::RenewedHead;
use crate::segment::HeaderKind;
use crate::tags::tags_of;

/// The result of a lookup of a primary key.
#[derive(Debug)]
pub enum Lookup<'w> {
    /// Nothing is stored.
    Miss,
    /// One record that answers all requests for the key.
    Record(StoredRecord<'w>),
    /// A base record: its sets of field names select variants, which [`BaseRecord::variant`] looks
    /// up.
    Base(BaseRecord<'w>),
}

/// A stored record and a pin: the record's memory stays in place as long as this exists.
///
/// Drop it before waiting for anything. To send the body later, [pin the
/// body](StoredRecord::pin_body).
pub struct StoredRecord<'w> {
    inner: &'w Rc<WorkerInner>,
    pinned: PinnedRecord<'w>,
    /// The offset in the record's head at which the response's head begins.
    head_start: usize,
    body: StoredBody,
}

/// A base record, which holds the field names that select variants of the resource, and a pin.
pub struct BaseRecord<'w> {
    worker: &'w StoreWorker,
    /// Whether lookups of variants count as uses.
    counts_use: bool,
    primary: &'w [u8],
    pinned: PinnedRecord<'w>,
}

/// The identity of a stored record. A record keeps its version when it is moved, and no two records
/// have the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVersion {
    pub(crate) sequence: u64,
}

/// The body of a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBody {
    /// One record holds the head and the body. The value is the length of the body in bytes.
    Whole(u64),
    /// The body lies in fragments. Each fragment is looked up by its own key.
    Long(LongBody),
}

impl StoredBody {
    /// The length of the body in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            StoredBody::Whole(bytes) => *bytes,
            StoredBody::Long(long) => long.bytes(),
        }
    }
}

impl RenewedHead {
    /// The version of the record that has the new head; `None` if no stored record has this head.
    pub fn version(&self) -> Option<RecordVersion> {
        self.sequence.map(|sequence| RecordVersion { sequence })
    }
}

impl StoreWorker {
    /// Looks up a primary key. A hit takes no lock and allocates nothing. Once the record's use
    /// count is at its maximum, a hit writes no cache line that another thread writes.
    #[inline]
    pub fn lookup<'w>(&'w self, primary: &'w [u8]) -> Lookup<'w> {
        self.find(primary, true)
    }

    /// Looks up a primary key without counting a use of the record, so that the lookup does not
    /// influence eviction.
    pub fn inspect<'w>(&'w self, primary: &'w [u8]) -> Lookup<'w> {
        self.find(primary, false)
    }

    #[inline]
    fn find<'w>(&'w self, primary: &'w [u8], counts_use: bool) -> Lookup<'w> {
        let Some(pinned) = self.inner.records.look(primary) else {
            return Lookup::Miss;
        };
        match pinned.record().header.kind {
            HeaderKind::Whole | HeaderKind::LongHead => {
                if counts_use {
                    self.inner.records.index.count_use(&pinned.hit);
                }
                StoredRecord::of(&self.inner, pinned, 0).map_or(Lookup::Miss, Lookup::Record)
            }
            HeaderKind::Base => {
                if counts_use {
                    self.inner.records.index.count_use(&pinned.hit);
                }
                Lookup::Base(BaseRecord { worker: self, counts_use, primary, pinned })
            }
            // No primary key is the key of a fragment.
            HeaderKind::Fragment | HeaderKind::Filler => Lookup::Miss,
        }
    }
}

impl<'w> StoredRecord<'w> {
    /// The response's head, as it was stored.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.pinned.record().head().get(self.head_start..).unwrap_or_default()
    }

    /// The tags of the record.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        tags_of(self.pinned.record().tags())
    }

    /// How the body is stored, and its length.
    #[inline]
    pub fn body(&self) -> StoredBody {
        self.body
    }

    /// The body of a whole record; empty if the body is long.
    #[inline]
    pub fn whole_body(&self) -> &[u8] {
        match self.pinned.record().header.kind {
            HeaderKind::Whole => self.pinned.record().body(),
            _ => &[],
        }
    }

    /// Whether the record was purged softly, so that it has to be validated before use.
    pub fn is_soft(&self) -> bool {
        self.pinned.record().marks.is_soft()
    }

    /// The version of the record.
    pub fn version(&self) -> RecordVersion {
        RecordVersion { sequence: self.pinned.record().header.sequence }
    }

    /// Pins a part of a whole body for as long as a client takes to read it. `tag` names the
    /// client's connection.
    pub fn pin_body(&self, part: Range<u32>, tag: ConnectionTag) -> BodyHandle {
        let body = self.pinned.record();
        BodyHandle::new(self.inner, &self.pinned.hit, body, part, tag)
    }

    /// Makes a stored record from a pinned one. If the record is damaged so that its body cannot be
    /// found, removes the record, so that the next request fetches it, and returns `None`.
    #[inline]
    pub(crate) fn of(
        inner: &'w Rc<WorkerInner>,
        pinned: PinnedRecord<'w>,
        head_start: usize,
    ) -> Option<StoredRecord<'w>> {
        let body = pinned.record().body();
        let body = match pinned.record().header.kind {
            HeaderKind::LongHead => LongBody::decode(body).map(StoredBody::Long),
            _ => Some(StoredBody::Whole(body.len() as u64)),
        };
        let Some(body) = body else {
            inner.records.drop_damaged(&pinned.hit);
            return None;
        };
        Some(StoredRecord { inner, pinned, head_start, body })
    }
}

impl<'w> BaseRecord<'w> {
    /// The sets of field names that select variants, as they were stored. The empty set belongs to
    /// the response that does not vary; its selector is empty.
    pub fn name_sets(&self) -> impl Iterator<Item = &[u8]> {
        NameSets::of(self.pinned.record().head()).iter()
    }

    /// Looks up the variant of a selector, and counts a use. Compares the
    /// whole selector, not only its hash.
    pub fn variant(&self, selector: &[u8]) -> Option<StoredRecord<'w>> {
        let found = self.candidate(selector)?;
        self.count_use(&found);
        Some(found)
    }

    /// Looks up the variant of a selector without counting a use, since the caller might not use
    /// the variant.
    pub fn candidate(&self, selector: &[u8]) -> Option<StoredRecord<'w>> {
        let inner = &self.worker.inner;
        let pinned = inner.records.find_variant(self.primary, &self.pinned, selector)?;
        let head_start = variants::head_start(pinned.record().head(), selector)?;
        StoredRecord::of(inner, pinned, head_start)
    }

    /// Counts a use of a variant.
    pub fn count_use(&self, variant: &StoredRecord<'w>) {
        if self.counts_use {
            self.worker.inner.records.index.count_use(&variant.pinned.hit);
        }
    }

    /// Calls `visit` with the selector of each stored variant, the oldest first.
    pub fn each_variant(&self, visit: &mut dyn FnMut(&[u8])) {
        let records = &self.worker.inner.records;
        let ids = BaseBody::decode(self.pinned.record().body());
        let mut key = Vec::new();
        for id in ids.iter().flat_map(BaseBody::variants) {
            variants::write_key_of(&mut key, self.primary, &id);
            let Some(pinned) = records.look(&key) else { continue };
            if let Some(values) = variants::values_of(pinned.record().head()) {
                visit(values);
            }
        }
    }
}

impl fmt::Debug for StoredRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRecord").field("body", &self.body()).finish_non_exhaustive()
    }
}

impl fmt::Debug for BaseRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseRecord").finish_non_exhaustive()
    }
}
