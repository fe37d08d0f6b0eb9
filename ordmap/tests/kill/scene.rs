//! The shared state of the processes: a map, and a ledger of the expected value of each key.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;

use forebay_ordmap::{Map, MapOptions, MapParticipant, OrdConfig, OrdRegion};
use forebay_shm::{Area, AreaSpec, BarrierWish, Region, RegionSpec};
use forebay_sync::Words;

use forebay_testkit::workers;

pub(crate) const WORKERS: usize = 4;
/// The number of keys of each worker; only that worker changes them.
pub(crate) const KEYS: usize = 300;

/// The number of large values of each worker; they do not all fit into the region.
pub(crate) const FILLS: usize = 12;

/// Bytes of the map's hint table: some of its buckets are full.
const HINT_BYTES: u64 = 16 << 10;

const LEDGER_KIND: u32 = 100;

/// Words before the ledger's: the stop flag, then the progress of each worker.
const STOP: usize = 0;
const PROGRESS: usize = 8;
const LEDGER: usize = 64;
const LEDGER_WORDS: usize = LEDGER + 2 * WORKERS * KEYS;

pub(crate) struct Scene {
    pub(crate) region: OrdRegion,
    words: Area,
}

/// The value of a key after this many changes: every fourth removes it.
pub(crate) fn value_of(worker: usize, key: usize, version: u64) -> Option<Vec<u8>> {
    if version.is_multiple_of(4) {
        return None;
    }
    let bytes = match (key as u64 + version) % 97 {
        0 => 40_000,
        1..5 => 3000,
        other => 12 + other as usize,
    };
    let mut value = format!("{worker} {key} {version} ").into_bytes();
    value.resize(bytes.max(value.len()), version as u8);
    Some(value)
}

pub(crate) fn key_of(worker: usize, key: usize) -> Vec<u8> {
    format!("org.example.host{}\0/some/path/{key}\0{worker}", key % 7).into_bytes()
}

pub(crate) fn fill_key(worker: usize, number: usize) -> Vec<u8> {
    format!("fill{worker}.{number}").into_bytes()
}

/// The number of keys in a run; the keys of a run come and go together.
pub(crate) const RUN: usize = 60;

/// A key of a run; all of them are adjacent.
pub(crate) fn run_key(worker: usize, number: usize) -> Vec<u8> {
    format!("run{worker}.{number:03}").into_bytes()
}

/// Whether some version of this key had this value.
pub(crate) fn belongs_to(key: &[u8], value: &[u8]) -> bool {
    if key.starts_with(b"fill") {
        return value == [7; 1 << 20];
    }
    if key.starts_with(b"run") {
        return value == b"run";
    }
    let mut numbers = value.split(|byte| *byte == b' ').map(|number| {
        std::str::from_utf8(number).ok().and_then(|number| number.parse::<u64>().ok())
    });
    let (Some(Some(worker)), Some(Some(number)), Some(Some(version))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return false;
    };
    let (worker, number) = (worker as usize, number as usize);
    key == key_of(worker, number) && value_of(worker, number, version).as_deref() == Some(value)
}

impl Scene {
    /// Opens the files in a directory, or creates them.
    pub(crate) fn open(dir: &Path) -> Scene {
        let spec = RegionSpec {
            bytes: 1 << 20,
            participants_max: 1,
            barrier: BarrierWish::Best,
            areas: &[AreaSpec { kind: LEDGER_KIND, version: 1, bytes: LEDGER_WORDS as u64 * 8 }],
        };
        let ledger = Region::open_or_create(&dir.join("ledger/region"), &spec).unwrap();
        let region = OrdRegion::open_or_create(&map_path(dir), &config()).unwrap();
        Scene { region, words: ledger.area(LEDGER_KIND).unwrap() }
    }

    pub(crate) fn map<'m>(&self, participant: &'m MapParticipant) -> Map<'m> {
        let options = MapOptions { hint_bytes: HINT_BYTES, shards_max: 4, ..MapOptions::default() };
        participant.map("ledger", &options).unwrap()
    }

    pub(crate) fn stop(&self, is_stopped: bool) {
        self.words.word(STOP).store(is_stopped.into(), SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.words.word(STOP).load(SeqCst) != 0
    }

    fn progress(&self, worker: usize) -> u64 {
        self.words.word(PROGRESS + worker).load(SeqCst)
    }

    /// Waits until a worker has done this many more steps.
    pub(crate) fn wait_for_steps(&self, number: usize, steps: u64) {
        workers::wait_for_steps(number, steps, || self.progress(number));
    }

    pub(crate) fn count_step(&self, worker: usize) {
        self.words.word(PROGRESS + worker).fetch_add(1, SeqCst);
    }

    /// The last version that was acknowledged, and the last version that was begun.
    pub(crate) fn versions(&self, worker: usize, key: usize) -> (u64, u64) {
        let at = LEDGER + 2 * (worker * KEYS + key);
        (self.words.word(at).load(SeqCst), self.words.word(at + 1).load(SeqCst))
    }

    pub(crate) fn begin_version(&self, worker: usize, key: usize, version: u64) {
        self.words.word(LEDGER + 2 * (worker * KEYS + key) + 1).store(version, SeqCst);
    }

    pub(crate) fn end_version(&self, worker: usize, key: usize, version: u64) {
        self.words.word(LEDGER + 2 * (worker * KEYS + key)).store(version, SeqCst);
    }

    /// Checks that each key of a worker has the value of its last change, or of the change before
    /// if the last one was not acknowledged. Records the version that was found.
    pub(crate) fn settle(&self, map: &Map<'_>, worker: usize, case: &str) {
        for key in 0..KEYS {
            let (done, begun) = self.versions(worker, key);
            let found = map.get(&key_of(worker, key)).unwrap();
            if found == value_of(worker, key, begun) {
                self.end_version(worker, key, begun);
                continue;
            }
            let short = found.as_ref().map(|value| value[..value.len().min(20)].escape_ascii());
            assert_eq!(
                found,
                value_of(worker, key, done),
                "{case}: key {key} of {worker}: versions {done}, {begun}, but {}",
                short.map_or("nothing".into(), |short| short.to_string())
            );
            self.begin_version(worker, key, done);
        }
    }

    /// Checks, after all other processes have ended, that they have left no locks or leases, and
    /// that all memory can be allocated again.
    pub(crate) fn check_end(&self, case: &str) {
        self.region.sweep().unwrap();
        let participant = self.region.join().unwrap();
        let map = self.map(&participant);
        let report = participant.check().unwrap();
        assert!(report.is_sound(), "{case}: {report}");
        (0..WORKERS).for_each(|worker| self.settle(&map, worker, case));
        let mut range = map.range(..);
        while let Some(entry) = range.next().unwrap() {
            assert!(belongs_to(entry.key(), entry.value()), "{case}: {entry:?}");
        }
        drop(range);
        for (worker, key) in (0..WORKERS * KEYS).map(|number| (number / KEYS, number % KEYS)) {
            map.remove(&key_of(worker, key)).unwrap();
            self.begin_version(worker, key, 0);
            self.end_version(worker, key, 0);
        }
        for (worker, number) in (0..WORKERS * FILLS).map(|fill| (fill / FILLS, fill % FILLS)) {
            map.remove(&fill_key(worker, number)).unwrap();
        }
        for (worker, number) in (0..WORKERS * RUN).map(|run| (run / RUN, run % RUN)) {
            map.remove(&run_key(worker, number)).unwrap();
        }
        map.reclaim().unwrap();
        let report = participant.check().unwrap();
        assert!(report.is_sound(), "{case}, emptied: {report}");
        assert_eq!((report.entries, report.nodes, report.waiting), (0, 0, 0), "{case}: {report}");
        assert_eq!(map.stats().used_bytes, 0, "{case}: {:?}", map.stats());
    }
}

fn map_path(dir: &Path) -> PathBuf {
    dir.join("maps/region")
}

fn config() -> OrdConfig {
    OrdConfig {
        maps_max: 4,
        participants_max: 12,
        leases_max: 6,
        hint_bytes: HINT_BYTES,
        splits_max: 3,
        ..OrdConfig::with_bytes(16 << 20)
    }
}
