//! Storing: a record is entered in the order and appended to an open segment, then its word is
//! published, checked against purges, and made live.
//!
//! | step | who dies behind it leaves |
//! |---|---|
//! | it is entered in the order | entries that name nothing, until they are swept out |
//! | the record is appended | bytes that no word names |
//! | its word is published, unchecked | a record that readers miss, until who checks takes it out |
//! | it is live | a record; perhaps two of its key, until the segment is checked |

use forebay_shm::crash_point;

use super::appender::QueueError;
use super::shared::Shared;
use super::worker::WorkerInner;
use crate::index::{self, size_class};
use crate::purge::PurgeVerdict;
use crate::segment::{
    AppendError, HeaderKind, Location, NewRecord, OpenSegment, RecordMarks, SegmentQueue,
};

/// How often a record is tried to be appended, with reclaiming in between.
const ATTEMPTS_MAX: usize = 64;

/// How many free segments may not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeReserve(pub(crate) u32);

impl FreeReserve {
    /// Whoever reclaims has to have room for what stays. Without it, a burst of new records that
    /// takes every segment would push out what is used, not what is not.
    pub(crate) const FOR_MOVES: FreeReserve = FreeReserve(1);

    /// For who reclaims.
    pub(crate) const NONE: FreeReserve = FreeReserve(0);
}

/// Why a record was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// There is no free segment, and none could be freed.
    NoRoom,
    /// No record can hold it: key or head are too long.
    TooLarge,
    /// It was purged while it was on its way, or something newer is there.
    Outdated,
}

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) kind: HeaderKind,
    pub(crate) key: &'a [u8],
    /// As [`RecordTags`](crate::RecordTags) has them.
    pub(crate) tags: &'a [u8],
    pub(crate) head: &'a [u8],
    /// In pieces, as it came.
    pub(crate) body: &'a [&'a [u8]],
    pub(crate) times: RecordTimes,
    /// The number of the last purge before the origin was asked.
    pub(crate) purge_noted: u64,
    /// What a purge would name: the primary key.
    pub(crate) primary: &'a [u8],
}

/// When a response came, and when it goes stale, in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTimes {
    /// When it was received.
    pub response_time: u32,
    /// From when on it is stale.
    pub stale_from: u64,
}

/// A record that was appended, without a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    location: Location,
    pub(crate) record_bytes: u64,
    pub(crate) sequence: u64,
}

impl Appended {
    /// Its word was not published: its bytes are dead.
    pub(crate) fn give_up(&self, shared: &Shared) {
        shared.count_dead(self.location.0, self.record_bytes);
    }

    pub(crate) fn for_index(&self) -> index::InsertRequest {
        index::InsertRequest {
            location: self.location.0,
            size_class: size_class(self.record_bytes as u32),
            sequence: self.sequence,
        }
    }
}

impl WorkerInner {
    /// Stores a record. Its sequence.
    pub(crate) fn put(&self, put: &Put<'_>, queue: SegmentQueue) -> Result<u64, NotStored> {
        let inserted = self.insert_keys(put)?;
        let appended = self.append(put, inserted.sequence(), queue)?;
        if self.publish(put, &appended) {
            return Ok(inserted.keep());
        }
        Err(NotStored::Outdated)
    }

    /// Appends a record, without a word. Its bytes count as live: who does not publish it counts
    /// them dead.
    pub(crate) fn append(
        &self,
        put: &Put<'_>,
        sequence: u64,
        queue: SegmentQueue,
    ) -> Result<Appended, NotStored> {
        let record = NewRecord {
            kind: put.kind,
            sequence,
            purge_noted: put.purge_noted as u32,
            response_time: put.times.response_time,
            marks: RecordMarks::stale_from(put.times.stale_from),
            key: put.key,
            tags: put.tags,
            head: put.head,
            body: put.body,
        };
        let (location, record_bytes) =
            self.append_with(queue, FreeReserve::FOR_MOVES, |open| open.append(&record))?;
        Ok(Appended { location, record_bytes, sequence })
    }

    /// Appends by `append` to the open segment of a queue, or to the next one, if then as many as
    /// `kept` are free. What was appended counts as live.
    pub(crate) fn append_with(
        &self,
        queue: SegmentQueue,
        reserve: FreeReserve,
        append: impl Fn(&mut OpenSegment<forebay_shm::Area>) -> Result<Location, AppendError>,
    ) -> Result<(Location, u64), NotStored> {
        for _ in 0..ATTEMPTS_MAX {
            if !self.has_open(queue, reserve) {
                break;
            }
            match self.appender.append(queue, &append) {
                Ok(appended) => return Ok(appended),
                Err(QueueError::TooLarge) => return Err(NotStored::TooLarge),
                Err(QueueError::Full) => self.appender.seal(queue),
                Err(QueueError::NotOpen) => break,
            }
        }
        Err(NotStored::NoRoom)
    }

    /// Publishes the word of a record that was appended. Is it live? Otherwise its bytes were
    /// counted as dead by whoever took it out.
    fn publish(&self, put: &Put<'_>, appended: &Appended) -> bool {
        let key = self.records.key(put.key);
        let Ok(unchecked) =
            self.records.index.insert(&self.records.pins, &key, &appended.for_index())
        else {
            appended.give_up(&self.shared);
            return false;
        };
        crash_point!("store.unchecked");
        let purged =
            self.shared.purges.check(put.purge_noted, |purge| purge.matches(put.primary, put.tags));
        if purged == PurgeVerdict::Purged {
            if self.records.index.withdraw(unchecked) {
                appended.give_up(&self.shared);
            }
            return false;
        }
        let is_live = self.records.index.make_live(&self.records.pins, &key, unchecked);
        crash_point!("store.live");
        is_live
    }

    /// Sees to it that a segment is open in a queue, if that is possible.
    fn has_open(&self, queue: SegmentQueue, reserve: FreeReserve) -> bool {
        if self.appender.is_open(queue) {
            return true;
        }
        self.reclaimer.request();
        if self.reclaimer.has_free(reserve) && self.appender.claim(queue) {
            return true;
        }
        let is_one_free = self.reclaim_now(reserve);
        // Where a record was moved meanwhile there is one open already.
        self.appender.is_open(queue) || (is_one_free && self.appender.claim(queue))
    }
}
