//! The shared state of the processes: a store, and the ledger of its keys.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use forebay_cache::{CheckDepth, ConfigError, OpenError, Store, StoreConfig, StoreWorker};
use forebay_shm::{Area, AreaSpec, BarrierWish, Region, RegionSpec};
use forebay_sync::Words;

use crate::store_common::actor::{Actor, Cast, Variants};
use crate::store_common::key_bytes;
use crate::store_common::ledger::Ledger;
use forebay_testkit::Rng;
use forebay_testkit::workers;

pub(crate) const WORKERS: u32 = 4;

const CAST: Cast =
    Cast { actors: WORKERS, keys: 400, body_bytes_max: 30_000, variants: Variants::OfSomeKeys };

/// One key for each worker, so that a key often has three variants. Its base names two of them.
const VARIANTS_CAST: Cast =
    Cast { actors: WORKERS, keys: WORKERS, body_bytes_max: 2000, variants: Variants::OfAllKeys };
pub(crate) const VARIANTS_MAX: usize = 2;

const LEDGER_KIND: u32 = 100;

/// The indexes of the words: the stop flag, whether this is the scene of variants, the progress of
/// each worker, and the ledger.
const STOP: usize = 0;
const IS_OF_VARIANTS: usize = 1;
const PROGRESS: usize = 8;
const LEDGER: usize = 64;

pub(crate) struct Scene {
    pub(crate) store: Store,
    words: Area,
    cast: Cast,
}

impl Scene {
    /// Creates the scene of variants in a directory.
    pub(crate) fn of_variants(dir: &Path) -> Scene {
        Scene::open_words(dir).word(IS_OF_VARIANTS).store(1, SeqCst);
        Scene::open(dir)
    }

    /// Opens the scene in a directory, or creates it.
    pub(crate) fn open(dir: &Path) -> Scene {
        let words = Scene::open_words(dir);
        let mut config = config();
        config.path = Some(dir.join("store/region"));
        let is_of_variants = words.word(IS_OF_VARIANTS).load(SeqCst) == 1;
        if is_of_variants {
            config.variants_max = VARIANTS_MAX;
        }
        let cast = if is_of_variants { VARIANTS_CAST } else { CAST };
        Scene { store: Store::open(config).expect("a store"), words, cast }
    }

    fn open_words(dir: &Path) -> Area {
        let ledger_words = LEDGER + Ledger::<Area>::words_needed(CAST.keys);
        let spec = RegionSpec {
            bytes: 1 << 20,
            participants_max: 1,
            barrier: BarrierWish::Best,
            areas: &[AreaSpec { kind: LEDGER_KIND, version: 1, bytes: ledger_words as u64 * 8 }],
        };
        let region = Region::open_or_create(&dir.join("ledger/region"), &spec);
        region.expect("a region").area(LEDGER_KIND).expect("its area")
    }

    pub(crate) fn actor(&self, number: u32, random: Rng) -> Actor<Area> {
        let worker = self.store.join().expect("a place");
        Actor::new(worker, Ledger::new(self.words.clone(), LEDGER), self.cast, number, random)
    }

    pub(crate) fn stop(&self, is_stopped: bool) {
        self.words.word(STOP).store(is_stopped.into(), SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.words.word(STOP).load(SeqCst) != 0
    }

    /// The number of steps of all processes that have run as this worker.
    fn progress(&self, number: u32) -> u64 {
        self.words.word(PROGRESS + number as usize).load(SeqCst)
    }

    /// Waits until a worker has taken this many more steps.
    pub(crate) fn wait_for_steps(&self, number: u32, steps: u64) {
        workers::wait_for_steps(number as usize, steps, || self.progress(number));
    }

    pub(crate) fn count_step(&self, number: u32) {
        self.words.word(PROGRESS + number as usize).fetch_add(1, SeqCst);
    }

    /// Checks, after all other processes have ended, that they have left nothing behind and that
    /// all memory can be used again.
    pub(crate) fn check_end(&self, case: &str) {
        self.store.sweep().expect("a sweep");
        let worker = self.store.join().expect("a place");
        worker.mend();
        let phases = self.store.phases();
        assert_eq!((phases.open, phases.suspect), (0, 0), "{case}: {phases:?}");
        assert_eq!(self.store.pin_count(), 0, "{case}: pins are left");
        let named = worker.named();
        let wrong = named.iter().find(|named| !named.is_live || !named.is_whole);
        assert_eq!(wrong, None, "{case}");
        self.check_sums(case);
        check_key_index(&worker, case);
        let report = self.store.check(CheckDepth::Checksums, |_| ()).expect("its sizes");
        assert!(report.is_sound(), "{case}: {report}");
        for key in 0..self.cast.keys {
            worker.purge(&key_bytes(key)).expect("a purge");
        }
        // A variant may stay in the index without its base, because of a death. No lookup finds
        // such a variant, and it is evicted later.
        let is_found = |key: &[u8]| (0..self.cast.keys).any(|number| key_bytes(number) == key);
        let left = worker.named().into_iter().find(|named| is_found(&named.key));
        assert_eq!(left, None, "{case}: a purged record is found");
        self.check_empty(&worker, case);
        drop(worker);
        self.check_use(case);
    }

    fn check_empty(&self, worker: &StoreWorker, case: &str) {
        worker.empty();
        let (phases, stats) = (self.store.phases(), self.store.stats());
        assert_eq!(u64::from(phases.free), stats.segment_count, "{case}: {phases:?}");
        assert_eq!((stats.live_bytes, stats.dead_bytes, stats.pinned_bytes), (0, 0, 0), "{case}");
        assert_eq!(worker.named(), [], "{case}: words are left");
        self.check_sums(case);
        let stats = self.store.stats();
        assert_eq!((stats.ordered_keys, stats.ordered_tags), (0, 0), "{case}: entries are left");
    }

    fn check_sums(&self, case: &str) {
        let stats = self.store.stats();
        assert_eq!(stats.sum_bytes(), stats.budget_bytes, "{case}: {stats:?}");
    }

    /// Checks that free memory can be filled.
    fn check_use(&self, case: &str) {
        let mut actor = self.actor(0, Rng::of(case));
        for _ in 0..500 {
            actor.step().expect(case);
        }
        assert!(actor.stored > 0, "{case}: nothing is stored any more");
    }
}

/// Checks that the surplus entries of dead participants were removed from the key index.
fn check_key_index(worker: &StoreWorker, case: &str) {
    while worker.turn(0, |_| ()) {}
    let report = worker.check_key_index().expect("the key index");
    assert_eq!((report.left_over, report.faults), (0, Vec::new()), "{case}");
}

/// The settings of the smallest store.
pub(crate) fn config() -> StoreConfig {
    let mut config = StoreConfig::with_budget(0);
    config.worker_count = WORKERS;
    config.record_bytes_expected = 2048;
    config.budget_bytes = match Store::open(config.clone()) {
        Err(OpenError::Config(ConfigError::BudgetTooSmall { minimum_bytes })) => minimum_bytes,
        other => panic!("{other:?}"),
    };
    config.object_bytes_max = config.budget_bytes / 8;
    config
}
