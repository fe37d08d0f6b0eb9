//! Storing a record. Its keys are inserted into the key index, the record is appended to an open
//! segment, and its index word is published. Then the record is checked against purges and made
//! live.
//!
//! | step | a death after the step leaves |
//! |---|---|
//! | insert the keys | entries without a record, until a sweep removes them |
//! | append the record | bytes that no word names |
//! | publish its word, unchecked | a record that no lookup finds, until its segment is checked |
//! | make it live | a stored record; perhaps two of one key, until the segment is checked |

use forebay_shm::crash_point;

use super::appender::QueueError;
use super::shared::Shared;
use super::worker::WorkerInner;
use crate::index::{self, size_class};
use crate::purge::PurgeVerdict;
use crate::segment::{
    AppendError, HeaderKind, Location, NewRecord, OpenSegment, RecordMarks, SegmentQueue,
};

/// The most attempts to append a record. Between two attempts the full segment is sealed and
/// another one is opened, which may need reclaiming.
const ATTEMPTS_MAX: usize = 64;

/// The number of free segments that an append must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeReserve(pub(crate) u32);

impl FreeReserve {
    /// One segment stays free for the records that the reclaimer moves. Without this reserve, a
    /// burst of new records could take every segment. Then the reclaimer would have to evict used
    /// records, although unused ones are stored.
    pub(crate) const FOR_MOVES: FreeReserve = FreeReserve(1);

    /// No reserve, for the reclaimer itself.
    pub(crate) const NONE: FreeReserve = FreeReserve(0);
}

/// Why a record was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// There is no free segment and none could be freed, or the key index cannot take the record's
    /// keys.
    NoRoom,
    /// The response fits into no record, because its key or its head is too long.
    TooLarge,
    /// The response was purged while it arrived, or a newer record of the key exists, or the index
    /// has no free word for the key.
    Outdated,
}

/// A record to store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) kind: HeaderKind,
    pub(crate) key: &'a [u8],
    /// The tags, as [`RecordTags`](crate::RecordTags) encodes them.
    pub(crate) tags: &'a [u8],
    pub(crate) head: &'a [u8],
    /// The body, in pieces as it arrived.
    pub(crate) body: &'a [&'a [u8]],
    pub(crate) times: RecordTimes,
    /// The number of the last purge before the origin was asked.
    pub(crate) purge_noted: u64,
    /// The primary key of the resource, which purges name.
    pub(crate) primary: &'a [u8],
}

/// The time at which a response was received, and the time at which it becomes stale, in Unix
/// seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTimes {
    /// The time at which the response was received.
    pub response_time: u32,
    /// The first second at which the response is stale.
    pub stale_from: u64,
}

/// A record that was appended and has no index word yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendedRecord {
    location: Location,
    pub(crate) record_bytes: u64,
    pub(crate) sequence: u64,
}

impl AppendedRecord {
    /// Counts the bytes of the record as dead, since its word is not published or was withdrawn.
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
    /// Stores a record. Returns its sequence.
    pub(crate) fn put(&self, put: &Put<'_>, queue: SegmentQueue) -> Result<u64, NotStored> {
        let inserted = self.insert_keys(put)?;
        let appended = self.append(put, inserted.sequence(), queue)?;
        if self.publish(put, &appended) {
            return Ok(inserted.keep());
        }
        Err(NotStored::Outdated)
    }

    /// Appends a record without publishing its word. The record's bytes count as live: a caller
    /// that does not publish the word [gives the record up](AppendedRecord::give_up).
    pub(crate) fn append(
        &self,
        put: &Put<'_>,
        sequence: u64,
        queue: SegmentQueue,
    ) -> Result<AppendedRecord, NotStored> {
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
        Ok(AppendedRecord { location, record_bytes, sequence })
    }

    /// Calls `append` with the open segment of a queue. If the record does not fit, seals that
    /// segment and tries again. If no segment is open, opens one, unless fewer than `reserve`
    /// segments would stay free; reclaims segments for that. The record's bytes count as live.
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

    /// Publishes the word of an appended record. Returns whether the record is live. If it is not,
    /// its bytes are counted as dead.
    fn publish(&self, put: &Put<'_>, appended: &AppendedRecord) -> bool {
        let key = self.records.key(put.key);
        let Ok(unchecked) =
            self.records.index.insert(&self.records.pins, &key, &appended.for_index())
        else {
            appended.give_up(&self.shared);
            return false;
        };
        crash_point!("store.unchecked");
        let purged = self
            .shared
            .purges
            .check(put.purge_noted, put.primary, |purge| purge.matches(put.primary, put.tags));
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

    /// Opens a segment in a queue unless one is open there, and reclaims segments if too few are
    /// free. Returns whether the queue has an open segment.
    fn has_open(&self, queue: SegmentQueue, reserve: FreeReserve) -> bool {
        if self.appender.is_open(queue) {
            return true;
        }
        self.reclaimer.request();
        if self.reclaimer.has_free(reserve) && self.appender.claim(queue) {
            return true;
        }
        let is_one_free = self.reclaim_now(reserve);
        // Reclaiming may have opened a segment to move a record to it.
        self.appender.is_open(queue) || (is_one_free && self.appender.claim(queue))
    }
}
