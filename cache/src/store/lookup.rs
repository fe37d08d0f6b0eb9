//! Lookups: the record of a key, borrowed from the region under a pin.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::body_handle::{BodyHandle, ConnectionTag};
use super::long::LongBody;
use super::record_index::PinnedRecord;
use super::variants;
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::RenewedHead;
use crate::segment::HeaderKind;
use crate::tags::tags_of;

/// The result of a lookup of a primary key.
#[derive(Debug)]
pub enum Lookup<'w> {
    /// Nothing is stored.
    Miss,
    /// One record for all requests.
    Record(StoredRecord<'w>),
    /// A base: its names select a variant, which [`BaseRecord::variant`] looks up.
    Base(BaseRecord<'w>),
}

/// A stored record, pinned: its memory stays in place as long as this exists.
///
/// Drop it before waiting for anything; [pin the body](StoredRecord::pin_body) that is to be sent
/// later.
pub struct StoredRecord<'w> {
    inner: &'w Rc<WorkerInner>,
    pinned: PinnedRecord<'w>,
    /// The offset in the record's head at which the caller's head begins.
    head_start: usize,
    body: StoredBody,
}

/// The names that select a variant, pinned.
pub struct BaseRecord<'w> {
    worker: &'w StoreWorker,
    primary: &'w [u8],
    pinned: PinnedRecord<'w>,
}

/// The identity of a stored record: moving the record keeps it, and no other record has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVersion {
    pub(crate) sequence: u64,
}

/// The body of a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBody {
    /// One record holds head and body; this is the length of the body in bytes.
    Whole(u64),
    /// The body lies in fragments, each of which is looked up.
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
    /// The version of the record that has the new head; `None` if it is not stored.
    pub fn version(&self) -> Option<RecordVersion> {
        self.sequence.map(|sequence| RecordVersion { sequence })
    }
}

impl StoreWorker {
    /// Looks up a primary key. A hit takes no lock, allocates nothing, and once the use count is
    /// full writes no line that another thread writes.
    #[inline]
    pub fn lookup<'w>(&'w self, primary: &'w [u8]) -> Lookup<'w> {
        let Some(pinned) = self.inner.records.look(primary) else {
            return Lookup::Miss;
        };
        match pinned.record().header.kind {
            HeaderKind::Whole | HeaderKind::LongHead => {
                self.inner.records.index.count_use(&pinned.hit);
                StoredRecord::of(&self.inner, pinned, 0).map_or(Lookup::Miss, Lookup::Record)
            }
            HeaderKind::Base => {
                self.inner.records.index.count_use(&pinned.hit);
                Lookup::Base(BaseRecord { worker: self, primary, pinned })
            }
            // No primary key is that of a fragment.
            HeaderKind::Fragment | HeaderKind::Filler => Lookup::Miss,
        }
    }
}

impl<'w> StoredRecord<'w> {
    /// The head, as it was stored.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.pinned.record().head().get(self.head_start..).unwrap_or_default()
    }

    /// The tags of the record.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        tags_of(self.pinned.record().tags())
    }

    /// Where the body is, and how long.
    #[inline]
    pub fn body(&self) -> StoredBody {
        self.body
    }

    /// The body of a whole record; empty for a long body.
    #[inline]
    pub fn whole_body(&self) -> &[u8] {
        match self.pinned.record().header.kind {
            HeaderKind::Whole => self.pinned.record().body(),
            _ => &[],
        }
    }

    /// Whether it was purged softly, and has to be validated before use.
    pub fn is_soft(&self) -> bool {
        self.pinned.record().marks.is_soft()
    }

    /// The version of the record.
    pub fn version(&self) -> RecordVersion {
        RecordVersion { sequence: self.pinned.record().header.sequence }
    }

    /// Pins a part of a whole body, for as long as a client takes to read it. `tag` names the
    /// client's connection.
    pub fn pin_body(&self, part: Range<u32>, tag: ConnectionTag) -> BodyHandle {
        let body = self.pinned.record();
        BodyHandle::new(self.inner, &self.pinned.hit, body, part, tag)
    }

    /// Makes a stored record; `None` if the record is damaged and does not show where its body is.
    /// Such a record is removed, so that the next request fetches it.
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
    /// The names, as they were stored.
    pub fn names(&self) -> &[u8] {
        self.pinned.record().head()
    }

    /// Looks up a variant. The `values` are compared in full.
    pub fn variant(&self, values: &[u8]) -> Option<StoredRecord<'w>> {
        let inner = &self.worker.inner;
        let pinned = inner.records.find_variant(self.primary, &self.pinned, values)?;
        let head_start = variants::head_start(pinned.record().head(), values)?;
        inner.records.index.count_use(&pinned.hit);
        StoredRecord::of(inner, pinned, head_start)
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
