//! The region of these tests: one lock with what it protects, and rows of pins and leases.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use forebay_shm::{
    Area, AreaSpec, BarrierWish, Liveness, Participant, ParticipantId, Region, RegionSpec,
    RobustLock, SystemFutex, crash_point,
};
use forebay_sync::Words;
use tempfile::TempDir;

use super::process::PATIENCE;

const PARTICIPANTS_MAX: u32 = 32;
const ROW_WORDS: usize = 8;
const GUARDED_KIND: u32 = 16;
const PINS_KIND: u32 = 17;
const LEASES_KIND: u32 = 18;
const ROWS_BYTES: u64 = PARTICIPANTS_MAX as u64 * ROW_WORDS as u64 * 8;

pub(crate) const SPEC: RegionSpec = RegionSpec {
    bytes: 128 << 10,
    participants_max: PARTICIPANTS_MAX,
    barrier: BarrierWish::Best,
    areas: &[
        AreaSpec { kind: GUARDED_KIND, version: 1, bytes: 4096 },
        AreaSpec { kind: PINS_KIND, version: 1, bytes: ROWS_BYTES },
        AreaSpec { kind: LEASES_KIND, version: 1, bytes: ROWS_BYTES },
    ],
};

const HOLD_SPINS: u32 = 500;

/// Words of the guarded area.
const LOCK: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
/// How often an owner was told to repair.
const TOLD: usize = 3;
/// Not guarded: the processes shall end.
const STOP: usize = 4;
/// Not guarded: how often each process has held the lock, by its number in the test.
pub(crate) const PROGRESS: usize = 8;

/// A region's parts.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) region: Region,
    pub(crate) guarded: Area,
    pins: Area,
    leases: Area,
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
        let (guarded, pins, leases) = (area(GUARDED_KIND), area(PINS_KIND), area(LEASES_KIND));
        Shared { guarded, pins, leases, region }
    }

    pub(crate) fn lock(&self) -> RobustLock<Area, SystemFutex> {
        RobustLock::new(self.guarded.clone(), LOCK)
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

    pub(crate) fn stop(&self) {
        self.store(STOP, 1);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.load(STOP) == 1
    }

    pub(crate) fn count_progress(&self, number: usize) {
        self.store(PROGRESS + number, self.load(PROGRESS + number) + 1);
    }

    /// Holds a pin and a lease, takes the lock, changes what it protects; was a repair needed?
    ///
    /// # Panics
    /// If it takes too long, or if what the lock protects is torn and nobody was told.
    pub(crate) fn work(&self, participant: &Participant) -> bool {
        let row = participant.id().row as usize * ROW_WORDS;
        self.pins.word(row).store(1, Relaxed);
        self.leases.word(row).store(participant.id().generation.into(), Relaxed);
        crash_point!("test.pinned");
        let was_told = self.change(participant);
        self.leases.word(row).store(0, Relaxed);
        self.pins.word(row).store(0, Relaxed);
        was_told
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
        assert_eq!(self.load(LEFT), self.load(RIGHT), "torn, and nobody was told");
        self.store(LEFT, self.load(LEFT) + 1);
        crash_point!("test.torn");
        // Long enough that a good part of the random deaths happen here.
        (0..HOLD_SPINS).for_each(|_| std::hint::spin_loop());
        self.store(RIGHT, self.load(RIGHT) + 1);
        was_told
    }

    /// Takes back what the dead ones owned.
    pub(crate) fn sweep(&self) -> u32 {
        self.region.sweep(|dead| self.clean_up(dead)).unwrap()
    }

    fn clean_up(&self, dead: ParticipantId) {
        let row = dead.row as usize * ROW_WORDS;
        self.pins.word(row).store(0, Relaxed);
        self.leases.word(row).store(0, Relaxed);
        self.lock().abandon(dead);
    }

    /// Nobody takes part any more, and nothing is owned.
    pub(crate) fn assert_nothing_is_left(&self, case: &str) {
        let all_zero =
            |area: &Area| (0..area.word_count()).all(|index| area.word(index).load(Relaxed) == 0);
        assert_eq!(self.region.list(), [], "{case}: rows are left");
        assert!(all_zero(&self.pins), "{case}: pins are left");
        assert!(all_zero(&self.leases), "{case}: leases are left");
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
