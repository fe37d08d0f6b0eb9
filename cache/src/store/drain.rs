//! Draining a segment: each record is moved to another segment or removed from the index, in
//! slices. [`reclaim`](super::reclaim) lists the steps, and the state that a death leaves.

#![allow(unsafe_code)]

use forebay_shm::crash_point;
use forebay_sync::atomic::Relaxed;

use super::drain_state::DrainState;
use super::layout::word;
use super::put::FreeReserve;
use super::reclaim::{EvictionGuard, SliceOutcome};
use super::stats::Events;
use super::worker::WorkerInner;
use crate::index::{IndexHit, KeyHash, WordState};
use crate::policy::{
    self, DrainPlan, DrainRecord, EvictionRules, RecordFate, USES_MAX, UseCensus, Victim,
};
use crate::segment::{Location, ScannedRecord, SegmentPhase, SegmentQueue};

/// The limit for the work of one slice, which takes some 60 µs. Each record counts as one, and so
/// does each entry of a record in the key index.
const SLICE_RECORDS: usize = 24;

/// A low estimate of a tag's average length, from which the number of a record's tags is estimated.
const TAG_BYTES: usize = 8;

/// The number of copied bytes after which a slice ends: copying them takes some 30 µs.
const SLICE_COPY_BYTES: u64 = 128 * 1024;

/// The number of buckets that one slice searches. This takes some 30 µs if the slice finds no word
/// to remove.
const SLICE_BUCKETS: usize = 1024;

/// One slice of draining a segment.
pub(super) struct DrainSlice<'w> {
    worker: &'w WorkerInner,
    lock: &'w EvictionGuard<'w>,
    segment: u32,
    /// The current time in Unix seconds.
    now: u64,
}

/// The step that a walk takes after it has shown a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkStep {
    Next,
    /// The slice ends behind this record.
    Pause,
    /// The slice ends before this record, and the next slice begins with it.
    Back,
}

/// The result of a walk over a segment's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkEnd {
    /// The walk passed the last record, which ends at this offset.
    Through(u32),
    /// The walk met a location without a valid record, so the start of the next record is unknown.
    Damaged,
    Paused,
    Back,
}

impl<'w> DrainSlice<'w> {
    pub(super) fn new(
        worker: &'w WorkerInner,
        lock: &'w EvictionGuard<'w>,
        segment: u32,
        now: u64,
    ) -> DrainSlice<'w> {
        DrainSlice { worker, lock, segment, now }
    }

    /// Begins to drain a victim, and runs its first slice.
    pub(super) fn begin(
        worker: &'w WorkerInner,
        lock: &'w EvictionGuard<'w>,
        victim: Victim,
        now: u64,
    ) -> SliceOutcome {
        for uses in 0..=USES_MAX {
            worker.reclaimer.word(word::CENSUS + usize::from(uses)).store(0, Relaxed);
        }
        worker.shared.drain.begin(victim.segment, DrainState::Count(victim).encode());
        crash_point!("reclaim.chosen");
        DrainSlice::new(worker, lock, victim.segment, now).run()
    }

    /// Runs a slice from the point at which the last slice ended. Another participant may have run
    /// the last slice.
    pub(super) fn run(&self) -> SliceOutcome {
        let table = self.worker.shared.segments.table();
        let drain = &self.worker.shared.drain;
        let bucket_count = self.worker.records.index.bucket_count();
        let state = DrainState::decode(drain.plan(), self.segment, bucket_count);
        match table.state(self.segment).map(|state| state.phase) {
            // The call fails only if another participant changes the segment, for which it would
            // need the eviction lock.
            Some(SegmentPhase::Sealed) if state.is_some() => drop(table.drain(self.segment)),
            Some(SegmentPhase::Draining) => {}
            // Either the segment was freed or never existed, and `DRAINING` remains from an earlier
            // drain. Or the plan is damaged, and no record was drained yet.
            _ => {
                drain.end();
                return SliceOutcome::More;
            }
        }
        match state {
            Some(DrainState::Count(victim)) => self.count_uses(victim),
            Some(DrainState::Move(plan)) => self.move_records(plan),
            Some(DrainState::TakeOut { bucket }) => self.take_out_left(bucket),
            // The plan is damaged, so the progress of the drain is unknown.
            None => self.begin_take_out(),
        }
    }

    /// Ends the drain. No word names the segment any more.
    fn end(&self) -> SliceOutcome {
        self.worker.shared.segments.table().set_live_bytes(self.segment, 0);
        self.worker.shared.drain.end();
        crash_point!("reclaim.drained");
        SliceOutcome::More
    }

    /// Counts the bytes of the segment's records for each use count. The small queue does not need
    /// these counts.
    fn count_uses(&self, victim: Victim) -> SliceOutcome {
        let (records, reclaimer) = (&self.worker.records, &self.worker.reclaimer);
        let mut is_counted = victim.queue == policy::Queue::Small;
        if !is_counted {
            let mut left = SLICE_RECORDS;
            let end = self.walk(|scanned, hash| {
                if let Some(hit) =
                    records.index.find_location(&records.pins, hash, scanned.location.0)
                    && scanned.marks.stale_from_seconds() > self.now
                {
                    let census = reclaimer.word(word::CENSUS + usize::from(hit.word().uses()));
                    census.store(census.load(Relaxed) + scanned.header.record_bytes(), Relaxed);
                }
                left -= 1;
                if left > 0 { WalkStep::Next } else { WalkStep::Pause }
            });
            // Records behind damage are removed, whatever their use count.
            is_counted = matches!(end, WalkEnd::Through(_) | WalkEnd::Damaged);
        }
        if is_counted {
            let shared = &self.worker.shared;
            let segment_bytes = u64::from(shared.plan.geometry.segment_bytes());
            let plan = DrainPlan::new(victim, &self.census(), segment_bytes, &EvictionRules::STORE);
            shared.drain.restart(DrainState::Move(plan).encode());
            crash_point!("reclaim.counted");
        }
        SliceOutcome::More
    }

    fn census(&self) -> UseCensus {
        let mut census = UseCensus::default();
        for uses in 0..=USES_MAX {
            let bytes = self.worker.reclaimer.word(word::CENSUS + usize::from(uses));
            census.count(uses, bytes.load(Relaxed));
        }
        census
    }

    /// Moves or removes the next records of the segment.
    fn move_records(&self, mut plan: DrainPlan) -> SliceOutcome {
        let shared = &self.worker.shared;
        let (mut records, mut bytes) = (SLICE_RECORDS, 0);
        let end = self.walk(|scanned, hash| {
            let Some(copied) = self.drain_record(scanned, hash, &mut plan) else {
                return WalkStep::Back;
            };
            shared.drain.set_plan(DrainState::Move(plan).encode());
            bytes += copied;
            // Each tag of a removed record has an entry of its own in the key index, to be removed
            // too.
            records =
                records.saturating_sub(1 + usize::from(scanned.header.tags_bytes) / TAG_BYTES);
            if records > 0 && bytes < SLICE_COPY_BYTES { WalkStep::Next } else { WalkStep::Pause }
        });
        let is_all_out = match end {
            WalkEnd::Through(offset_bytes) => self.is_all_out(offset_bytes),
            WalkEnd::Damaged => {
                self.worker.records.note_damaged(None);
                false
            }
            WalkEnd::Paused => return SliceOutcome::More,
            WalkEnd::Back => {
                self.worker.reclaimer.free_drained(self.lock);
                return SliceOutcome::Nothing;
            }
        };
        if plan.queue() == policy::Queue::Small {
            shared.ghosts.count_small_drained(self.lock);
        }
        if is_all_out { self.end() } else { self.begin_take_out() }
    }

    /// Calls `see` for each record from `DRAINED_BYTES` on, until `see` ends the slice or the walk
    /// meets damage.
    fn walk(&self, mut see: impl FnMut(&ScannedRecord, KeyHash) -> WalkStep) -> WalkEnd {
        let (shared, records) = (&self.worker.shared, &self.worker.records);
        let mut key = records.scratch.take();
        let mut scan = shared.segments.scan_from(self.segment, shared.drain.offset_bytes());
        let end = loop {
            let scanned = match scan.next() {
                Some(Ok(scanned)) => scanned,
                Some(Err(_)) => break WalkEnd::Damaged,
                None => break WalkEnd::Through(scan.offset_bytes()),
            };
            key.clear();
            shared.segments.copy_key(&scanned, &mut key);
            let step = see(&scanned, shared.hash(&key));
            if step == WalkStep::Back {
                break WalkEnd::Back;
            }
            shared.drain.pass(scan.offset_bytes());
            if step == WalkStep::Pause {
                break WalkEnd::Paused;
            }
        };
        records.scratch.replace(key);
        end
    }

    /// Moves or removes one record. Returns the number of bytes that it copied, or `None` if the
    /// record has to wait, because there is no room for the record now, although there will be
    /// soon.
    fn drain_record(
        &self,
        scanned: &ScannedRecord,
        hash: KeyHash,
        plan: &mut DrainPlan,
    ) -> Option<u64> {
        let (shared, records) = (&self.worker.shared, &self.worker.records);
        let location = scanned.location.0;
        let Some(hit) = records.index.find_location(&records.pins, hash, location) else {
            return Some(0);
        };
        let before = *plan;
        let bytes = scanned.header.record_bytes();
        let record = DrainRecord {
            uses: hit.word().uses(),
            bytes,
            is_stale: scanned.marks.stale_from_seconds() <= self.now,
        };
        let fate = match hit.word().state() {
            WordState::Live => plan.fate(record),
            // The record's segment is sealed, so the record's publisher cannot make it live any
            // more.
            WordState::Unchecked | WordState::Disk | WordState::Reserved => RecordFate::Leave,
        };
        crash_point!("reclaim.record");
        match fate {
            RecordFate::Move(queue, uses) if self.move_record(&hit, segment_queue(queue), uses) => {
                Events::one(&shared.events.promoted);
                shared.count_dead(location, bytes);
                return Some(bytes);
            }
            // Drained segments that are still pinned will become free, so a used record waits for
            // one of them instead of being evicted.
            RecordFate::Move(..)
                if self.worker.reclaimer.free_count(1) == 0
                    && self.worker.reclaimer.may_wait_for_pins(self.now) =>
            {
                *plan = before;
                return None;
            }
            RecordFate::Ghost => {
                records.ghost_of(&hit, hash).into_iter().for_each(|hash| shared.ghosts.note(hash));
            }
            RecordFate::Move(..) | RecordFate::Leave => {}
        }
        if records.index.remove_location(hash, location).is_some() {
            Events::one(&shared.events.evicted);
            shared.count_dead(location, bytes);
            match records.access().record(hit.at()) {
                Some(gone) => records.access().note_orphans(&gone),
                None => shared.leftovers.note(),
            }
        }
        drop(hit);
        self.worker.clean_up_orphans();
        Some(0)
    }

    /// Moves a record to the open segment of a queue. Returns false if there is no room, or if the
    /// record was removed before its copy could replace it.
    fn move_record(&self, hit: &IndexHit<'_>, queue: SegmentQueue, uses: u8) -> bool {
        let records = &self.worker.records;
        let access = records.access();
        let (Some(marks), Some(record)) = (access.marks(hit.at()), access.record(hit.at())) else {
            return false;
        };
        let frozen = marks.freeze();
        crash_point!("reclaim.frozen");
        let copied = self
            .worker
            .append_with(queue, FreeReserve::NONE, |open| open.append_copy(&record, frozen));
        let Ok((location, bytes)) = copied else {
            return false;
        };
        crash_point!("reclaim.copied");
        if records.index.move_to(hit, location.0, uses) {
            return true;
        }
        self.worker.shared.count_dead(location.0, bytes);
        false
    }
}

/// The end of a drain, which removes words that still name the segment after the walk over its
/// records.
///
/// Normally no such words exist. They remain if a key, a length or the progress of the drain is
/// damaged. The segment is not freed before they are removed: readers with a pin rely on that.
impl DrainSlice<'_> {
    /// Whether every record was walked, and no record counts as live any more. After a death the
    /// count may be too high. Then the index is searched although no word remains.
    fn is_all_out(&self, offset_bytes: u32) -> bool {
        let table = self.worker.shared.segments.table();
        u64::from(offset_bytes) == table.records_bytes(self.segment)
            && table.live_bytes(self.segment) == 0
    }

    /// Lets the next slices search the index for words that still name the segment.
    fn begin_take_out(&self) -> SliceOutcome {
        self.worker.shared.drain.set_plan(DrainState::TAKE_OUT.encode());
        SliceOutcome::More
    }

    /// Removes the words that name the segment from some buckets, beginning with `bucket`.
    fn take_out_left(&self, bucket: usize) -> SliceOutcome {
        let (shared, records) = (&self.worker.shared, &self.worker.records);
        let bucket_count = records.index.bucket_count();
        debug_assert!(bucket < bucket_count, "a decoded drain state names a bucket");
        let end = (bucket + SLICE_BUCKETS).min(bucket_count);
        let geometry = shared.segments.geometry();
        let is_there = |location| geometry.segment_of(Location(location)) == Some(self.segment);
        records.index.remove_locations(bucket..end, is_there, |location| {
            Events::one(&shared.events.evicted);
            // SAFETY: the segment is draining, and this thread holds the eviction lock (`lock`).
            match unsafe { shared.segments.record(Location(location)) } {
                Ok(record) => records.access().note_orphans(&record),
                Err(_) => shared.leftovers.note(),
            }
        });
        self.worker.clean_up_orphans();
        if end < bucket_count {
            shared.drain.set_plan(DrainState::TakeOut { bucket: end }.encode());
            return SliceOutcome::More;
        }
        self.end()
    }
}

fn segment_queue(queue: policy::Queue) -> SegmentQueue {
    match queue {
        policy::Queue::Small => SegmentQueue::Small,
        policy::Queue::Main => SegmentQueue::Main,
    }
}
