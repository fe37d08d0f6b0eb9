//! Segments, to which records are appended, and which are sealed and drained.

use forebay_cache::policy::{
    self as decide, DrainPlan, DrainRecord, Queue, RecordFate, SealedSegment, USES_MAX, UseCensus,
    Victim,
};

use super::{Config, Costs, Ghosts, Records, Request};

/// The location of a record.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    segment: u32,
    index: u32,
}

const NOWHERE: Place = Place { segment: u32::MAX, index: 0 };

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Open,
    Sealed,
}

struct Segment {
    state: State,
    queue: Queue,
    order: u64,
    filled_bytes: u64,
    live_bytes: u64,
    stale_from: u32,
    records: Vec<u32>,
}

impl Segment {
    const FREE: Self = Self {
        state: State::Free,
        queue: Queue::Small,
        order: 0,
        filled_bytes: 0,
        live_bytes: 0,
        stale_from: 0,
        records: Vec::new(),
    };
}

pub(super) struct Pool {
    pub(super) records: Records,
    pub(super) costs: Costs,
    segments: Vec<Segment>,
    free: Vec<u32>,
    /// The open segments of each worker, in the small and the main queue.
    open: Vec<[Option<u32>; 2]>,
    /// The number of segments in the small queue.
    small: u32,
    last_order: u64,
    places: Vec<Place>,
    uses: Vec<u8>,
    stale_from: Vec<u32>,
    segment_bytes: u64,
    config: Config,
}

impl Pool {
    pub(super) fn new(records: Records, segment_bytes: u64, config: Config) -> Self {
        let count = records.count();
        Self {
            records,
            costs: Costs::default(),
            segments: (0..config.segments).map(|_| Segment::FREE).collect(),
            free: (0..config.segments).rev().collect(),
            open: vec![[None; 2]; config.workers as usize],
            small: 0,
            last_order: 0,
            places: vec![NOWHERE; count],
            uses: vec![0; count],
            stale_from: vec![u32::MAX; count],
            segment_bytes,
            config,
        }
    }

    /// Returns the record's queue and uses, or `None` if it is not stored.
    pub(super) fn found(&self, record: u32) -> Option<(Queue, u8)> {
        let place = self.places[record as usize];
        (place != NOWHERE)
            .then(|| (self.segments[place.segment as usize].queue, self.uses[record as usize]))
    }

    pub(super) fn touch(&mut self, record: u32) {
        let uses = &mut self.uses[record as usize];
        *uses = USES_MAX.min(*uses + 1);
    }

    /// Removes the record. Its bytes are dead until its segment is drained.
    pub(super) fn remove(&mut self, record: u32) {
        let place = std::mem::replace(&mut self.places[record as usize], NOWHERE);
        if place != NOWHERE {
            self.segments[place.segment as usize].live_bytes -= self.records.bytes(record);
        }
    }

    /// Stores a record that was fetched.
    pub(super) fn insert(
        &mut self,
        record: u32,
        queue: Queue,
        worker: u32,
        request: &Request,
        ghosts: &mut Ghosts,
    ) {
        let bytes = self.records.bytes(record);
        if bytes > self.segment_bytes {
            return;
        }
        while !self.has_room(queue, worker, bytes) {
            self.seal(queue, worker);
            self.make_room(worker, request.now, ghosts);
            // Draining may have opened a segment of this queue that has room.
            self.open_if_none(queue, worker);
        }
        self.stale_from[record as usize] = request.stale_from;
        self.append(record, queue, worker, 0);
        self.costs.inserted_bytes += bytes;
    }

    fn has_room(&self, queue: Queue, worker: u32, bytes: u64) -> bool {
        self.open[worker as usize][queue as usize].is_some_and(|segment| {
            self.segments[segment as usize].filled_bytes + bytes <= self.segment_bytes
        })
    }

    fn open_if_none(&mut self, queue: Queue, worker: u32) {
        let open = &mut self.open[worker as usize][queue as usize];
        if open.is_none()
            && let Some(free) = self.free.pop()
        {
            *open = Some(free);
            let segment = &mut self.segments[free as usize];
            (segment.state, segment.queue) = (State::Open, queue);
            self.small += u32::from(queue == Queue::Small);
        }
    }

    fn seal(&mut self, queue: Queue, worker: u32) {
        if let Some(open) = self.open[worker as usize][queue as usize].take() {
            self.last_order += 1;
            let segment = &mut self.segments[open as usize];
            (segment.state, segment.order) = (State::Sealed, self.last_order);
        }
    }

    /// Appends the record to the worker's open segment, which has room.
    fn append(&mut self, record: u32, queue: Queue, worker: u32, uses: u8) {
        let Some(open) = self.open[worker as usize][queue as usize] else {
            unreachable!("the worker has no open segment in this queue");
        };
        let bytes = self.records.bytes(record);
        let segment = &mut self.segments[open as usize];
        self.places[record as usize] = Place { segment: open, index: segment.records.len() as u32 };
        self.uses[record as usize] = uses;
        segment.records.push(record);
        segment.filled_bytes += bytes;
        segment.live_bytes += bytes;
        segment.stale_from = segment.stale_from.max(self.stale_from[record as usize]);
    }

    /// Drains until one more segment is free than the reserve needs.
    fn make_room(&mut self, worker: u32, now: u32, ghosts: &mut Ghosts) {
        let mut drained = 0;
        while self.free.len() <= self.config.reserve() as usize {
            let sealed = self.sealed();
            let pool = decide::SegmentPool {
                segments: self.config.segments,
                small: self.small,
                now: u64::from(now),
            };
            let Some(choice) = decide::choose_victim(sealed, pool, &self.config.rules) else {
                break;
            };
            self.drain(choice, worker, now, ghosts);
            self.costs.note_drain(choice.cause);
            drained += 1;
        }
        self.costs.drained_in_a_row_max = self.costs.drained_in_a_row_max.max(drained);
    }

    fn sealed(&self) -> impl Iterator<Item = SealedSegment> {
        let segments = self.segments.iter().zip(0..);
        segments.filter(|(segment, _)| segment.state == State::Sealed).map(|(segment, place)| {
            SealedSegment {
                segment: place,
                queue: segment.queue,
                order: segment.order,
                filled_bytes: segment.filled_bytes,
                live_bytes: segment.live_bytes,
                stale_from: u64::from(segment.stale_from),
            }
        })
    }

    fn drain(&mut self, choice: Victim, worker: u32, now: u32, ghosts: &mut Ghosts) {
        let records = std::mem::take(&mut self.segments[choice.segment as usize].records);
        let is_live = |pool: &Self, record: u32, index: usize| {
            let place = Place { segment: choice.segment, index: index as u32 };
            pool.places[record as usize] == place
        };
        let mut census = UseCensus::default();
        let counted: &[u32] = if choice.needs_census() { &records } else { &[] };
        for (index, record) in counted.iter().enumerate() {
            if is_live(self, *record, index) && self.stale_from[*record as usize] > now {
                census.count(self.uses[*record as usize], self.records.bytes(*record));
            }
        }
        let mut drain = DrainPlan::new(choice, &census, self.segment_bytes, &self.config.rules);
        for (index, record) in records.iter().enumerate() {
            if is_live(self, *record, index) {
                let seen = self.seen(*record, now);
                self.remove(*record);
                match drain.fate(seen) {
                    RecordFate::Move(queue, uses) => self.copy(*record, queue, worker, uses),
                    RecordFate::Ghost => ghosts.note(*record),
                    RecordFate::Leave => {}
                }
            }
        }
        ghosts.evicted += u64::from(choice.queue == Queue::Small);
        self.set_free(choice.segment, records);
    }

    fn seen(&self, record: u32, now: u32) -> DrainRecord {
        DrainRecord {
            uses: self.uses[record as usize],
            bytes: self.records.bytes(record),
            is_stale: self.stale_from[record as usize] <= now,
        }
    }

    /// Copies a record to an open segment. It may use the reserve, because a drained segment frees
    /// at least as many bytes as its copies take.
    fn copy(&mut self, record: u32, queue: Queue, worker: u32, uses: u8) {
        let bytes = self.records.bytes(record);
        if !self.has_room(queue, worker, bytes) {
            self.seal(queue, worker);
            self.open_if_none(queue, worker);
        }
        self.append(record, queue, worker, uses);
        self.costs.copied_bytes += bytes;
        self.costs.copied_records += 1;
    }

    fn set_free(&mut self, place: u32, mut records: Vec<u32>) {
        records.clear();
        let segment = &mut self.segments[place as usize];
        self.small -= u32::from(segment.queue == Queue::Small);
        *segment = Segment { records, ..Segment::FREE };
        self.free.push(place);
    }

    /// Adds up which bytes of the budget are fresh, stale or dead.
    pub(super) fn count_shares(&mut self, now: u32) {
        let (mut live, mut stale, mut filled) = (0, 0, 0);
        for (segment, number) in self.segments.iter().zip(0..) {
            filled += segment.filled_bytes;
            live += segment.live_bytes;
            for (record, index) in segment.records.iter().zip(0..) {
                let is_live = self.places[*record as usize] == Place { segment: number, index };
                if is_live && self.stale_from[*record as usize] <= now {
                    stale += self.records.bytes(*record);
                }
            }
        }
        let budget = (self.segment_bytes * u64::from(self.config.segments)) as f64;
        let percent = |bytes: u64| bytes as f64 * 100.0 / budget;
        self.costs.note_shares(percent(live - stale), percent(stale), percent(filled - live));
    }
}
