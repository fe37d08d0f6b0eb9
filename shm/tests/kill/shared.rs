//! The region of these tests: one lock with its data, and a segment. The segment is read under pins
//! and leases, and is reused when it has neither.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use forebay_shm::{
    Area, AreaSpec, BarrierWish, Dead, Liveness, Participant, Region, RegionSpec, RobustLock,
    SystemFutex, crash_point,
};
use forebay_sync::leases::Leases;
use forebay_sync::pins::Pins;
use forebay_sync::{LockClass, Words};
use tempfile::TempDir;

use forebay_testkit::process::PATIENCE;

const PARTICIPANTS_MAX: u32 = 32;
const GUARDED_KIND: u32 = 16;
const PINS_KIND: u32 = 17;
const LEASES_KIND: u32 = 18;
const ROWS: usize = PARTICIPANTS_MAX as usize;
const LEASE_SLOTS: usize = 2;

const fn bytes_of(words: Option<usize>) -> u64 {
    match words {
        Some(words) => words as u64 * 8,
        None => panic!("too many"),
    }
}

pub(crate) const SPEC: RegionSpec = RegionSpec {
    bytes: 128 << 10,
    participants_max: PARTICIPANTS_MAX,
    barrier: BarrierWish::Best,
    areas: &[
        AreaSpec { kind: GUARDED_KIND, version: 1, bytes: 4096 },
        AreaSpec {
            kind: PINS_KIND,
            version: 1,
            bytes: bytes_of(Pins::<Area>::words_needed(ROWS, 1)),
        },
        AreaSpec {
            kind: LEASES_KIND,
            version: 1,
            bytes: bytes_of(Leases::<Area>::words_needed(ROWS, LEASE_SLOTS)),
        },
    ],
};

const HOLD_SPINS: u32 = 500;

/// The indexes of words in the guarded area.
const LOCK: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
/// The number of owners that were told to repair.
const TOLD: usize = 3;
/// A flag that tells the processes to end. The lock does not guard it.
const STOP: usize = 4;
/// The number of times that the segment was rewritten. Guarded by the lock.
const GENERATION: usize = 5;
/// Names the segment by its generation; zero while the segment must not be read. Stored by the
/// lock's owner.
const NAMED: usize = 6;
/// The number of times that each process has held the lock, in the order of the processes' numbers
/// in the test. Not guarded by the lock.
pub(crate) const PROGRESS: usize = 8;
/// The segment: each of its words is its generation.
const SEGMENT: std::ops::Range<usize> = 64..96;
/// The name of the segment in leases.
const PLACE: u64 = SEGMENT.start as u64;

/// The parts of a region.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) region: Region,
    pub(crate) guarded: Area,
    pins: Pins<Area>,
    leases: Leases<Area>,
}

pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/region");
    (dir, path)
}

impl Shared {
    pub(crate) fn open(path: &Path) -> Shared {
        let region = Region::open_or_create(path, &SPEC).unwrap();
        let area = |kind| region.area(kind).unwrap();
        let barrier = region.barrier();
        let pins = Pins::new(area(PINS_KIND), ROWS, 1, barrier).unwrap();
        let leases = Leases::new(area(LEASES_KIND), ROWS, LEASE_SLOTS, barrier).unwrap();
        Shared { guarded: area(GUARDED_KIND), pins, leases, region }
    }

    pub(crate) fn lock(&self) -> RobustLock<Area, SystemFutex> {
        RobustLock::new(self.guarded.clone(), LOCK, LockClass::Test)
    }

    pub(crate) fn lock_word(&self) -> u64 {
        self.load(LOCK)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.lock_word() & 1 << 31 != 0
    }

    pub(crate) fn load(&self, word: usize) -> u64 {
        self.guarded.word(word).load(Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.guarded.word(word).store(value, Relaxed);
    }

    pub(crate) fn told_count(&self) -> u64 {
        self.load(TOLD)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.load(GENERATION)
    }

    pub(crate) fn stop(&self) {
        self.store(STOP, 1);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.load(STOP) == 1
    }

    pub(crate) fn count_progress(&self, number: usize) {
        self.store(PROGRESS + number, self.load(PROGRESS + number) + 1);
    }

    /// Reads the segment, takes the lock, changes the data; returns whether a repair was needed.
    ///
    /// # Panics
    /// If it takes too long, or if data is half-changed although no repair was announced.
    pub(crate) fn work(&self, participant: &Participant) -> bool {
        self.read(participant);
        self.change(participant)
    }

    /// Reads the segment under a pin, and again under a lease, if it may be read.
    fn read(&self, participant: &Participant) {
        let row = participant.id().row as usize;
        // SAFETY: the row belongs to this participant, which is alive and has no other view of the
        // row at this time; all processes make the same tables, and nothing else writes those
        // areas.
        let pins = unsafe { self.pins.row(row) }.unwrap();
        // SAFETY: the same.
        let leases = unsafe { self.leases.row(row) }.unwrap();
        let named = self.guarded.word(NAMED);
        let seen = named.load(Relaxed);
        let is_there = || seen != 0 && named.load(Acquire) == seen;
        let Ok(pin) = pins.pin(0, is_there) else {
            return;
        };
        crash_point!("test.pinned");
        self.assert_segment_is(seen);
        let lease = leases.take(PLACE, is_there);
        drop(pin);
        if lease.is_ok() {
            crash_point!("test.leased");
            self.assert_segment_is(seen);
        }
    }

    fn assert_segment_is(&self, generation: u64) {
        for index in SEGMENT {
            assert_eq!(
                self.load(index),
                generation,
                "the segment was rewritten under a pin or a lease"
            );
            (0..HOLD_SPINS / 100).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Rewrites the segment, unless a process may be reading it now. In that case a later owner of
    /// the lock rewrites it.
    fn reuse_segment(&self) {
        self.store(NAMED, 0);
        crash_point!("test.taken_out");
        self.pins.barrier();
        if self.pins.is_pinned(0) || self.leases.is_leased(PLACE) {
            return;
        }
        let generation = self.load(GENERATION) + 1;
        self.store(GENERATION, generation);
        for index in SEGMENT {
            self.store(index, generation);
        }
        crash_point!("test.rewritten");
        self.guarded.word(NAMED).store(generation, Release);
    }

    fn change(&self, participant: &Participant) -> bool {
        let lock = self.lock();
        let mut guard = lock.lock_within(participant, PATIENCE).expect("the lock");
        let was_told = guard.must_repair();
        if was_told {
            self.store(TOLD, self.load(TOLD) + 1);
            self.store(LEFT, self.load(LEFT).max(self.load(RIGHT)));
            self.store(RIGHT, self.load(LEFT));
            guard.repaired();
        }
        self.reuse_segment();
        assert_eq!(
            self.load(LEFT),
            self.load(RIGHT),
            "the data is half-changed, but no repair is announced"
        );
        self.store(LEFT, self.load(LEFT) + 1);
        crash_point!("test.torn");
        // Long enough that many of the random deaths happen here.
        (0..HOLD_SPINS).for_each(|_| std::hint::spin_loop());
        self.store(RIGHT, self.load(RIGHT) + 1);
        was_told
    }

    /// Releases everything that dead participants owned. Returns the number of these participants.
    pub(crate) fn sweep(&self) -> u32 {
        self.region.sweep(|dead| self.clean_up(dead)).unwrap()
    }

    fn clean_up(&self, dead: &Dead) {
        let row = dead.id().row as usize;
        // SAFETY: a sweep found the row's byte free and holds it now.
        unsafe { self.pins.clear_row(row) };
        // SAFETY: the same.
        unsafe { self.leases.clear_row(row) };
        self.lock().abandon(dead);
    }

    /// Checks that there are no participants any more, and that the dead own nothing.
    pub(crate) fn assert_nothing_is_left(&self, case: &str) {
        assert_eq!(self.region.list(), [], "{case}: rows are left");
        assert_eq!(self.pins.pinned_count(), 0, "{case}: pins are left");
        assert_eq!(self.leases.held_count(), 0, "{case}: leases are left");
        assert_eq!(self.lock_word(), 0, "{case}: the lock is not free");
    }
}

pub(crate) fn names_beside(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
