//! Random histories of a small store that follows the policy. The tests state the conditions for
//! each decision a second time, as plainly as possible.

use super::*;
use forebay_testkit::Rng;

const SEGMENTS: u32 = 40;
const SEGMENT_BYTES: u64 = 1000;
/// The length of the longest record. It is less than the gain of a drain, which is 20 percent of a
/// segment.
const RECORD_BYTES_MAX: usize = 120;
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Record {
    bytes: u64,
    uses: u8,
    stale_from: u64,
    is_live: bool,
}

#[derive(Clone, Debug)]
struct Segment {
    queue: Queue,
    order: u64,
    records: Vec<Record>,
}

impl Segment {
    fn filled_bytes(&self) -> u64 {
        self.records.iter().map(|record| record.bytes).sum()
    }

    fn live_bytes(&self) -> u64 {
        self.records.iter().filter(|record| record.is_live).map(|record| record.bytes).sum()
    }

    fn sealed(&self, segment: u32) -> SealedSegment {
        SealedSegment {
            segment,
            queue: self.queue,
            order: self.order,
            filled_bytes: self.filled_bytes(),
            live_bytes: self.live_bytes(),
            stale_from: self.records.iter().map(|record| record.stale_from).max().unwrap_or(0),
        }
    }
}

/// The shares of the operations in percent. The other operations insert records.
#[derive(Clone, Copy, Debug)]
struct Habit {
    used: usize,
    killed: usize,
    wanted: usize,
    short_lived: usize,
}

/// A small store. A segment's index is its position in `sealed`. Open segments are in `open`, and
/// all other segments are free.
struct Store {
    sealed: Vec<Option<Segment>>,
    open: [Option<Segment>; 2],
    now: u64,
    last_order: u64,
    killed_bytes: u64,
    gained_by_dead_bytes: u64,
    drained: [u32; 3],
}

impl Store {
    fn new() -> Self {
        Self {
            sealed: vec![None; SEGMENTS as usize],
            open: [None, None],
            now: 0,
            last_order: 0,
            killed_bytes: 0,
            gained_by_dead_bytes: 0,
            drained: [0; 3],
        }
    }

    fn free(&self) -> usize {
        let sealed = self.sealed.iter().flatten().count();
        SEGMENTS as usize - sealed - self.open.iter().flatten().count()
    }

    fn segments(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.sealed.iter_mut().flatten().chain(self.open.iter_mut().flatten())
    }

    fn random(&mut self, rng: &mut Rng) -> Option<&mut Record> {
        let count = self.segments().count().max(1);
        let segment = self.segments().nth(rng.below(count))?;
        let count = segment.records.len().max(1);
        segment.records.get_mut(rng.below(count))
    }

    fn append(&mut self, queue: Queue, record: Record) {
        let has_room = |segment: &Segment| segment.filled_bytes() + record.bytes <= SEGMENT_BYTES;
        if !self.open[queue as usize].as_ref().is_some_and(has_room) {
            self.seal(queue);
            assert!(self.free() > 0, "no free segment: the reserve is not enough");
        }
        let segment = self.open[queue as usize].get_or_insert(Segment {
            queue,
            order: 0,
            records: Vec::new(),
        });
        segment.records.push(record);
    }

    fn seal(&mut self, queue: Queue) {
        let Some(mut segment) = self.open[queue as usize].take() else {
            return;
        };
        self.last_order += 1;
        segment.order = self.last_order;
        let place = self.sealed.iter().position(Option::is_none);
        self.sealed[place.expect("an open segment leaves a place")] = Some(segment);
    }

    fn pool(&self) -> SegmentPool {
        let all = self.sealed.iter().chain(&self.open).flatten();
        let small = all.filter(|segment| segment.queue == Queue::Small).count() as u32;
        SegmentPool { segments: SEGMENTS, small, now: self.now }
    }

    fn offered(&self) -> Vec<SealedSegment> {
        let segments = self.sealed.iter().zip(0..);
        segments.filter_map(|(segment, number)| Some(segment.as_ref()?.sealed(number))).collect()
    }

    /// Drains until two segments are free: one to be opened, and one in reserve.
    fn make_room(&mut self) {
        let mut in_a_row = 0;
        while self.free() < 2 {
            let (offered, pool) = (self.offered(), self.pool());
            let choice = choose_victim(offered.iter().copied(), pool, &RULES)
                .expect("a sealed segment exists");
            check_choice(choice, &offered, pool);
            self.drain(choice);
            in_a_row += 1;
            assert!(in_a_row <= SEGMENTS, "{in_a_row} drains and no free segment");
        }
    }

    fn drain(&mut self, choice: Victim) {
        let segment = self.sealed[choice.segment as usize].take().expect("the victim was offered");
        let (filled_bytes, mut records) = (segment.filled_bytes(), segment.records);
        records.retain(|record| record.is_live);
        let mut census = UseCensus::default();
        let fresh = |record: &&Record| record.stale_from > self.now;
        records.iter().filter(fresh).for_each(|record| census.count(record.uses, record.bytes));
        let mut drain = DrainPlan::new(choice, &census, SEGMENT_BYTES, &RULES);
        let fates: Vec<(Record, RecordFate)> = records
            .iter()
            .map(|record| {
                let is_stale = record.stale_from <= self.now;
                (
                    *record,
                    drain.fate(DrainRecord { uses: record.uses, bytes: record.bytes, is_stale }),
                )
            })
            .collect();
        check_fates(choice, filled_bytes, &fates, self.now);
        // The drained segment becomes free only when it is empty.
        let place = self.sealed.get_mut(choice.segment as usize).expect("a place");
        *place = Some(Segment { queue: choice.queue, order: NEVER, records: Vec::new() });
        for (record, fate) in fates {
            if let RecordFate::Move(queue, uses) = fate {
                self.append(queue, Record { uses, ..record });
            }
        }
        self.sealed[choice.segment as usize] = None;
        self.drained[choice.cause as usize] += 1;
        if choice.cause == DrainCause::Dead {
            let kept: u64 = records.iter().map(|record| record.bytes).sum();
            self.gained_by_dead_bytes += filled_bytes - kept;
        }
    }

    fn step(&mut self, rng: &mut Rng, habit: Habit) {
        self.now += 1;
        let what = rng.below(100);
        if what < habit.used {
            if let Some(record) = self.random(rng) {
                record.uses = USES_MAX.min(record.uses + 1);
            }
        } else if what < habit.used + habit.killed {
            if let Some(record) = self.random(rng)
                && std::mem::take(&mut record.is_live)
            {
                self.killed_bytes += record.bytes;
            }
        } else {
            self.insert(rng, habit);
        }
    }

    fn insert(&mut self, rng: &mut Rng, habit: Habit) {
        let is_short = rng.below(100) < habit.short_lived;
        let record = Record {
            bytes: 1 + rng.below(RECORD_BYTES_MAX) as u64,
            uses: 0,
            stale_from: if is_short { self.now + 1 + rng.below(3000) as u64 } else { NEVER },
            is_live: true,
        };
        let known =
            if rng.below(100) < habit.wanted { KeyHistory::Ghost } else { KeyHistory::Unknown };
        self.make_room();
        self.append(queue_for(known), record);
    }
}

/// Asserts that the rules choose this victim.
fn check_choice(choice: Victim, offered: &[SealedSegment], pool: SegmentPool) {
    let chosen = offered.iter().find(|sealed| sealed.segment == choice.segment).expect("offered");
    assert_eq!(choice.queue, chosen.queue);
    let is_stale = |sealed: &&SealedSegment| sealed.stale_from <= pool.now;
    let is_dead = |sealed: &&SealedSegment| {
        (sealed.filled_bytes - sealed.live_bytes) as f64 / sealed.filled_bytes.max(1) as f64 > 0.2
    };
    let oldest = |queue| offered.iter().filter(move |s| s.queue == queue).map(|s| s.order).min();
    if let Some(order) = offered.iter().filter(is_stale).map(|sealed| sealed.order).min() {
        assert_eq!((choice.cause, chosen.order), (DrainCause::Stale, order), "{pool:?}");
    } else if let Some(live) = offered.iter().filter(is_dead).map(|sealed| sealed.live_bytes).min()
    {
        assert_eq!((choice.cause, chosen.live_bytes), (DrainCause::Dead, live), "{pool:?}");
    } else {
        assert_eq!(choice.cause, DrainCause::Oldest, "{pool:?}");
        assert_eq!(Some(chosen.order), oldest(choice.queue), "not first in, first out: {pool:?}");
        let due = if pool.small > SEGMENTS / 10 { Queue::Small } else { Queue::Main };
        assert!(choice.queue == due || oldest(due).is_none(), "{due:?} is due: {pool:?}");
    }
}

fn check_fates(choice: Victim, filled_bytes: u64, fates: &[(Record, RecordFate)], now: u64) {
    let stays = |fate: &RecordFate| matches!(fate, RecordFate::Move(..));
    let kept = || fates.iter().filter(|(_, fate)| stays(fate)).map(|(record, _)| record);
    let kept_bytes: u64 = kept().map(|record| record.bytes).sum();
    assert!(kept().all(|record| record.stale_from > now), "a stale record stays: {choice:?}");
    if choice.cause == DrainCause::Dead {
        assert!(kept_bytes * 100 < filled_bytes * 80, "nothing is gained: {choice:?}");
        return;
    }
    let gone = || fates.iter().filter(|(record, fate)| !stays(fate) && record.stale_from > now);
    let most_gone = gone().map(|(record, _)| record.uses).max().unwrap_or(0);
    let least_kept = kept().map(|record| record.uses).min().unwrap_or(USES_MAX);
    assert!(least_kept >= most_gone, "{least_kept} uses stay, {most_gone} leave: {fates:?}");
    assert!(least_kept > 0, "an unused record stays: {fates:?}");
    match choice.queue {
        Queue::Main => assert!(kept_bytes <= SEGMENT_BYTES * 80 / 100, "{kept_bytes} are kept"),
        Queue::Small => assert_eq!(most_gone, 0, "a used record left the small queue: {fates:?}"),
    }
}

const HABITS: [Habit; 6] = [
    Habit { used: 50, killed: 0, wanted: 20, short_lived: 0 },
    Habit { used: 90, killed: 0, wanted: 50, short_lived: 0 },
    Habit { used: 40, killed: 20, wanted: 20, short_lived: 0 },
    Habit { used: 10, killed: 60, wanted: 50, short_lived: 0 },
    Habit { used: 50, killed: 5, wanted: 20, short_lived: 50 },
    Habit { used: 0, killed: 0, wanted: 0, short_lived: 100 },
];

#[test]
fn every_decision_of_a_random_history_follows_the_rules() {
    let mut rng = Rng::of("histories of decisions");
    for habit in HABITS {
        let mut store = Store::new();
        (0..40_000).for_each(|_| store.step(&mut rng, habit));
        let [stale, dead, oldest] = store.drained;
        println!("{habit:?}: {stale} stale, {dead} dead, {oldest} oldest");
        assert!(stale + dead + oldest > 20, "{habit:?}: hardly anything was drained");
    }
}

#[test]
fn early_drains_do_not_keep_the_queues_from_their_turn() {
    let mut rng = Rng::of("dead segments before their turn");
    for killed in [5, 10, 20, 30] {
        let habit = Habit { used: 20, killed, wanted: 20, short_lived: 0 };
        let mut store = Store::new();
        (0..40_000).for_each(|_| store.step(&mut rng, habit));
        // Each drain of a dead segment frees killed bytes, and no byte is freed twice. So the
        // killed bytes limit the number of these drains, and all other room comes from the queues.
        assert!(store.gained_by_dead_bytes <= store.killed_bytes, "{habit:?}");
        let [_, dead, oldest] = store.drained;
        let gain_min = SEGMENT_BYTES - RECORD_BYTES_MAX as u64;
        let dead_max = store.killed_bytes * 100 / (gain_min * 20);
        assert!(u64::from(dead) <= dead_max, "{habit:?}: {dead} drains of {dead_max}");
        assert!(oldest > 50, "{habit:?}: {oldest} turns of the queues, {dead} dead segments");
    }
}

#[test]
fn an_unused_record_leaves_even_if_its_neighbours_die() {
    let mut rng = Rng::of("an unused record leaves");
    let mut store = Store::new();
    let habit = Habit { used: 0, killed: 30, wanted: 0, short_lived: 0 };
    (0..5000).for_each(|_| store.step(&mut rng, habit));
    // The observed record is marked by a length that no other record has.
    const MARKED: u64 = RECORD_BYTES_MAX as u64 + 1;
    let record = Record { bytes: MARKED, uses: 0, stale_from: NEVER, is_live: true };
    store.make_room();
    store.append(Queue::Small, record);
    let is_there = |store: &mut Store| {
        store
            .segments()
            .any(|segment| segment.records.iter().any(|r| r.bytes == MARKED && r.is_live))
    };
    let mut steps = 0;
    while is_there(&mut store) {
        let what = rng.below(100);
        if what < habit.killed {
            if let Some(record) = store.random(&mut rng).filter(|record| record.bytes != MARKED) {
                record.is_live = false;
            }
        } else {
            store.insert(&mut rng, habit);
        }
        steps += 1;
        assert!(steps < 100_000, "the unused record is still there");
    }
}
