//! Reclaiming: in slices, one segment at a time, by whoever holds the eviction lock.
//!
//! | step | who dies behind it leaves |
//! |---|---|
//! | [`next`](policy::next) chooses, `DRAINING` names it | a sealed segment: to be drained |
//! | sealed → draining | the same, draining |
//! | main only: records are counted by use, up to `DRAINED_BYTES` | goes on there |
//! | each record moves or leaves, up to `DRAINED_BYTES` | goes on there: what was done is out |
//! | if something is left: the index is looked through, up to a bucket | goes on there |
//! | `DRAINING` is cleared | a draining segment without words |
//! | barrier, nobody pins it: free | a free segment |
//!
//! What a step says is done before the word that says so is stored, also for who finds that word
//! after a death: [`Progress`](crate::segment::Progress) has the orderings. Words are taken out
//! before the offset passes their records, and all of them before `DRAINING` is cleared.
//!
//! Nothing is reclaimed while free segments are in reserve. Pinned segments are passed over as long
//! as they are less than a quarter of all; then they are drained, too, and their owners are asked
//! to give them up. Few wait for that at a time: a drained segment holds nothing that can be found,
//! and what was moved out of it takes room.

#![allow(unsafe_code)]

use forebay_shm::crash_point;
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::drain_state::DrainState;
use super::layout::word;
use super::put::Kept;
use super::stats::Events;
use super::worker::WorkerInner;
use crate::index::{Hit, KeyHash, WordState};
use crate::policy::ghosts::{GhostSlot, GhostTime};
use crate::policy::{
    self, DrainPlan, DrainRecord, EvictionRules, RecordFate, USES_MAX, UseCensus, Victim,
};
use crate::segment::{ScannedRecord, SegmentPhase, SegmentQueue};

/// Records that one slice looks at, and whose entries leave the order: some 60 µs.
const SLICE_RECORDS: usize = 24;

/// What tags have at least in the mean, by which their number is guessed.
const TAG_BYTES: usize = 8;

/// Bytes that one slice copies: some 30 µs.
const SLICE_COPY_BYTES: u64 = 128 * 1024;

/// Slices in a row of who has no free segment at all: more than one segment takes.
const SLICES_AT_ONCE: usize = 4096;

/// How often who has no free segment at all gives way to who reclaims: some 100 µs, if nobody else
/// wants the processor.
const BUSY_MAX: usize = 256;

/// How long records wait for segments that only wait for their pins: whoever has pinned them may
/// have stopped for good.
const WAIT_SECONDS_MAX: u64 = 2;

/// How a slice went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// There are enough free segments.
    Enough,
    /// There is more to do.
    More,
    /// Somebody else is at it.
    Busy,
    /// Nothing can be reclaimed now.
    Nothing,
}

impl WorkerInner {
    /// Reclaims until there is a free segment beside those that are kept, for who has none; whether
    /// there is one.
    pub(crate) fn reclaim_now(&self, kept: Kept) -> bool {
        self.free_waiting();
        let mut busy_left = BUSY_MAX;
        for _ in 0..SLICES_AT_ONCE {
            if self.has_free(kept) {
                return true;
            }
            let slice = self.reclaim_slice(self.now.get());
            match slice {
                Slice::More => {}
                Slice::Nothing if self.bodies.answer_revoke_request(&self.records.pins) => {}
                Slice::Busy if busy_left > 0 => {
                    busy_left -= 1;
                    std::thread::yield_now();
                }
                Slice::Busy | Slice::Enough | Slice::Nothing => break,
            }
        }
        self.has_free(kept)
    }

    /// Frees what only waited for pins that are down by now.
    fn free_waiting(&self) {
        if let Ok(Some(mut guard)) = self.shared.eviction_lock.try_lock(self.part.participant()) {
            if guard.must_repair() {
                guard.repaired();
            }
            self.free_drained();
        }
    }

    /// One slice of reclaiming. `now` is in Unix seconds.
    pub(crate) fn reclaim_slice(&self, now: u64) -> Slice {
        if self.keys.is_short() {
            return self.reclaim_for_key_index(now);
        }
        self.reclaim_towards(self.reserve(), now)
    }

    /// One slice, so that entries leave the order, whatever memory is free.
    pub(crate) fn reclaim_for_key_index(&self, now: u64) -> Slice {
        let segments = self.shared.plan.geometry.segment_count();
        self.reclaim_towards(self.free_count(segments) + 1, now)
    }

    /// One slice on the way to so many free segments.
    pub(crate) fn reclaim_towards(&self, reserve: u32, now: u64) -> Slice {
        let shared = &self.shared;
        let mut guard = match shared.eviction_lock.try_lock(self.part.participant()) {
            Ok(Some(guard)) => guard,
            Ok(None) => return Slice::Busy,
            // We are reclaiming already, and there is no segment to move a record to.
            Err(_) => return Slice::Nothing,
        };
        if guard.must_repair() {
            // Every step leaves something to go on with: see the table.
            guard.repaired();
        }
        // What was begun is ended first: to look over all segments costs more than a slice.
        if let Some(segment) = self.draining() {
            return self.go_on(segment, now);
        }
        self.free_drained();
        if self.draining().is_some() {
            return Slice::More;
        }
        if self.free_count(reserve) >= reserve { Slice::Enough } else { self.begin(now) }
    }

    /// So many segments are kept free: for each thread one for each queue, and what only moves get.
    pub(super) fn reserve(&self) -> u32 {
        let segments = self.shared.plan.geometry.segment_count();
        let Kept(kept) = Kept::FOR_MOVES;
        (2 * self.shared.config.worker_count + kept).clamp(2, segments / 4)
    }

    /// Is one free beside those that are kept?
    pub(crate) fn has_free(&self, Kept(kept): Kept) -> bool {
        self.free_count(kept + 1) > kept
    }

    /// How many segments are free, up to `enough`.
    pub(super) fn free_count(&self, enough: u32) -> u32 {
        let free =
            self.shared.segments.table().segments_where(|state| state.phase == SegmentPhase::Free);
        free.take(enough as usize).count() as u32
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        self.shared.store.word(number)
    }

    /// The segment that is being drained.
    pub(super) fn draining(&self) -> Option<u32> {
        self.shared.drain.segment()
    }

    /// Chooses the next segment.
    fn begin(&self, now: u64) -> Slice {
        let Some(choice) = self.choose(now) else {
            return Slice::Nothing;
        };
        for uses in 0..=USES_MAX {
            self.word(word::CENSUS + usize::from(uses)).store(0, Relaxed);
        }
        self.shared.drain.begin(choice.segment, DrainState::Count(choice).encode());
        crash_point!("reclaim.chosen");
        self.go_on(choice.segment, now)
    }

    /// The next records of a segment that is being drained.
    fn go_on(&self, segment: u32, now: u64) -> Slice {
        let table = self.shared.segments.table();
        let drain = &self.shared.drain;
        let steps = DrainState::decode(drain.plan(), segment, self.records.index.bucket_count());
        match table.state(segment).map(|state| state.phase) {
            // Fails only if somebody else changes it, who would need the lock that we have.
            Some(SegmentPhase::Sealed) if steps.is_some() => drop(table.drain(segment)),
            Some(SegmentPhase::Draining) => {}
            // It was freed, or never was there: what was left of a drain that is over. Or nobody
            // knows what was to be done, and nothing was.
            _ => {
                drain.end();
                return Slice::More;
            }
        }
        match steps {
            Some(DrainState::Count(choice)) => self.count_uses(segment, choice, now),
            Some(DrainState::Move(drain)) => self.move_records(segment, drain, now),
            Some(DrainState::TakeOut { bucket }) => self.take_out_left(segment, bucket),
            // How far it had come is not known.
            None => self.begin_take_out(),
        }
    }

    /// No word names the segment any more.
    pub(super) fn end_draining(&self, segment: u32) -> Slice {
        self.shared.segments.table().set_live_bytes(segment, 0);
        self.shared.drain.end();
        crash_point!("reclaim.drained");
        Slice::More
    }

    /// Counts how much of a segment was used how often. Of the small queue nobody needs to know.
    fn count_uses(&self, segment: u32, choice: Victim, now: u64) -> Slice {
        let mut is_counted = choice.queue == policy::Queue::Small;
        if !is_counted {
            let mut left = SLICE_RECORDS;
            let walked = self.walk(segment, |scanned, hash| {
                if let Some(hit) =
                    self.records.index.find_location(&self.records.pins, hash, scanned.location.0)
                    && scanned.marks.stale_from_seconds() > now
                {
                    let census = self.word(word::CENSUS + usize::from(hit.word().uses()));
                    census.store(census.load(Relaxed) + scanned.header.record_bytes(), Relaxed);
                }
                left -= 1;
                if left > 0 { Walk::On } else { Walk::Pause }
            });
            // What is behind damage leaves, whatever is known of it.
            is_counted = matches!(walked, Walked::Through(_) | Walked::Damaged);
        }
        if is_counted {
            let segment_bytes = u64::from(self.shared.plan.geometry.segment_bytes());
            let drain =
                DrainPlan::new(choice, &self.census(), segment_bytes, &EvictionRules::STORE);
            self.shared.drain.restart(DrainState::Move(drain).encode());
            crash_point!("reclaim.counted");
        }
        Slice::More
    }

    fn census(&self) -> UseCensus {
        let mut census = UseCensus::default();
        for uses in 0..=USES_MAX {
            census.count(uses, self.word(word::CENSUS + usize::from(uses)).load(Relaxed));
        }
        census
    }

    /// Moves or takes out the next records.
    fn move_records(&self, segment: u32, mut drain: DrainPlan, now: u64) -> Slice {
        let (mut records, mut bytes) = (SLICE_RECORDS, 0);
        let walked = self.walk(segment, |scanned, hash| {
            let Some(copied) = self.drain_record(scanned, hash, &mut drain, now) else {
                return Walk::Back;
            };
            self.shared.drain.set_plan(DrainState::Move(drain).encode());
            bytes += copied;
            // Each tag has an entry of its own that may leave.
            records =
                records.saturating_sub(1 + usize::from(scanned.header.tags_bytes) / TAG_BYTES);
            if records > 0 && bytes < SLICE_COPY_BYTES { Walk::On } else { Walk::Pause }
        });
        let is_all_out = match walked {
            Walked::Through(offset_bytes) => self.is_all_out(segment, offset_bytes),
            Walked::Damaged => {
                Events::one(&self.shared.events.dropped_damaged);
                false
            }
            Walked::Paused => return Slice::More,
            Walked::Back => {
                self.free_drained();
                return Slice::Nothing;
            }
        };
        if drain.queue() == policy::Queue::Small {
            let drained = self.word(word::SMALL_DRAINED);
            drained.store(drained.load(Relaxed) + 1, Relaxed);
        }
        if is_all_out { self.end_draining(segment) } else { self.begin_take_out() }
    }

    /// Calls `see` for the records from `DRAINED_BYTES` on, until it has enough or a damaged place
    /// is met.
    fn walk(&self, segment: u32, mut see: impl FnMut(&ScannedRecord, KeyHash) -> Walk) -> Walked {
        let start = self.shared.drain.offset_bytes();
        let mut key = self.records.scratch.take();
        let mut scan = self.shared.segments.scan_from(segment, start);
        let walked = loop {
            let scanned = match scan.next() {
                Some(Ok(scanned)) => scanned,
                Some(Err(_)) => break Walked::Damaged,
                None => break Walked::Through(scan.offset_bytes()),
            };
            key.clear();
            self.shared.segments.copy_key(&scanned, &mut key);
            let step = see(&scanned, self.shared.hash(&key));
            if step == Walk::Back {
                break Walked::Back;
            }
            self.shared.drain.pass(scan.offset_bytes());
            if step == Walk::Pause {
                break Walked::Paused;
            }
        };
        self.records.scratch.replace(key);
        walked
    }

    /// Decides about one record; how many bytes were copied. Nothing if it has to stay for now,
    /// since there is no room for it, but soon will be.
    fn drain_record(
        &self,
        scanned: &ScannedRecord,
        hash: KeyHash,
        drain: &mut DrainPlan,
        now: u64,
    ) -> Option<u64> {
        let location = scanned.location.0;
        let Some(hit) = self.records.index.find_location(&self.records.pins, hash, location) else {
            return Some(0);
        };
        let before = *drain;
        let bytes = scanned.header.record_bytes();
        let seen = DrainRecord {
            uses: hit.word().uses(),
            bytes,
            is_stale: scanned.marks.stale_from_seconds() <= now,
        };
        let fate = match hit.word().state() {
            WordState::Live => drain.fate(seen),
            // Nobody makes it live any more: its segment was sealed.
            WordState::Unchecked | WordState::Disk | WordState::Reserved => RecordFate::Leave,
        };
        crash_point!("reclaim.record");
        match fate {
            RecordFate::Move(queue, uses) if self.move_record(&hit, segment_queue(queue), uses) => {
                Events::one(&self.shared.events.promoted);
                self.shared.count_dead(location, bytes);
                return Some(bytes);
            }
            // What only waits for its pins will be free, and what is used need not leave.
            RecordFate::Move(..) if self.free_count(1) == 0 && self.may_wait_for_pins(now) => {
                *drain = before;
                return None;
            }
            RecordFate::Ghost => {
                self.records
                    .ghost_of(&hit, hash)
                    .into_iter()
                    .for_each(|hash| self.note_ghost(hash));
            }
            RecordFate::Move(..) | RecordFate::Leave => {}
        }
        if self.records.index.remove_location(hash, location).is_some() {
            Events::one(&self.shared.events.evicted);
            self.shared.count_dead(location, bytes);
            match self.records.access().record(hit.at()) {
                Some(gone) => self.records.access().note_orphans(&gone),
                None => self.shared.leftovers.note(),
            }
        }
        drop(hit);
        self.demote_orphans();
        Some(0)
    }

    /// May what is drained wait for pins a while longer? It is counted from when something had to
    /// wait first, until nothing waits: one that has stopped stops the others once.
    fn may_wait_for_pins(&self, now: u64) -> bool {
        let since = self.word(word::WAITS_SINCE);
        if self.waiting_count() == 0 {
            since.store(0, Relaxed);
            return false;
        }
        let began = since.load(Relaxed);
        // What is later than now was told by another clock.
        if began == 0 || began > now {
            since.store(now, Relaxed);
            return true;
        }
        now - began < WAIT_SECONDS_MAX
    }

    /// Copies a record to the open segment of a queue, if it is still there in the end.
    fn move_record(&self, hit: &Hit<'_>, queue: SegmentQueue, uses: u8) -> bool {
        let records = self.records.access();
        let (Some(marks), Some(record)) = (records.marks(hit.at()), records.record(hit.at()))
        else {
            return false;
        };
        let frozen = marks.freeze();
        crash_point!("reclaim.frozen");
        let copied = self.append_with(queue, Kept::NONE, |open| open.append_copy(&record, frozen));
        let Ok((location, bytes)) = copied else {
            return false;
        };
        crash_point!("reclaim.copied");
        if self.records.index.move_to(hit, location.0, uses) {
            return true;
        }
        self.shared.count_dead(location.0, bytes);
        false
    }

    fn note_ghost(&self, hash: KeyHash) {
        let words = self.shared.plan.ghost_words;
        let trace = GhostSlot::of(hash.value(), words);
        let word = self.shared.ghosts.word(trace.word);
        word.store(trace.noted(word.load(Relaxed), self.ghost_time()), Relaxed);
    }

    /// Did the key leave the small queue not long ago? Its ghost is gone then.
    pub(crate) fn take_ghost(&self, hash: KeyHash) -> bool {
        let trace = GhostSlot::of(hash.value(), self.shared.plan.ghost_words);
        let word = self.shared.ghosts.word(trace.word);
        let Some(taken) = trace.taken(word.load(Relaxed), self.ghost_time()) else {
            return false;
        };
        word.store(taken, Relaxed);
        Events::one(&self.shared.events.ghost_hits);
        true
    }

    fn ghost_time(&self) -> GhostTime {
        let main = u64::from(self.shared.plan.geometry.segment_count())
            * u64::from(100 - EvictionRules::STORE.small_percent)
            / 100;
        GhostTime::new(self.word(word::SMALL_DRAINED).load(Relaxed), main)
    }
}

/// What comes after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    On,
    /// It was the last of this slice.
    Pause,
    /// Nothing yet: it is the first of the next slice.
    Back,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walked {
    /// At the end of its records, which is at this offset.
    Through(u32),
    /// At a place where no record is: where the next one begins is not known.
    Damaged,
    Paused,
    Back,
}

fn segment_queue(queue: policy::Queue) -> SegmentQueue {
    match queue {
        policy::Queue::Small => SegmentQueue::Small,
        policy::Queue::Main => SegmentQueue::Main,
    }
}
