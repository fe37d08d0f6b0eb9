//! State that all workers of a process share: the region, its areas, and the flights.

use std::path::Path;
use std::sync::Arc;

use forebay_shm::{Area, Opened, Region, RegionError, RegionSpec, SystemFutex, UnnamedRegion};
use forebay_shm::{BarrierWish, RobustLock};
use forebay_sync::LockClass;
use forebay_sync::atomic::{AtomicBool, AtomicU64, Relaxed};
use forebay_sync::pins::Pins;
use forebay_sync::{Barrier, Words};

use super::config::{FLIGHT_SHARDS, OpenError, StoreConfig};
use super::ghosts::GhostTable;
use super::hash::Hasher;
use super::layout::{Plan, ROW_WORDS, kind, row, word};
use super::stats::Events;
use crate::flight::{FlightConfig, Flights};
use crate::index::{KeyHash, VerifiedSlots};
use crate::key_index::{KeyIndex, Leftovers, PendingInserts};
use crate::purge::PurgeRing;
use crate::segment::{DrainProgress, Segments};

/// State that all workers of a process share. Every hit reads it, so it is on cache lines of its
/// own.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) plan: Plan,
    pub(crate) region: Region,
    pub(crate) store: Area,
    pub(crate) rows: Area,
    pub(crate) ghosts: GhostTable,
    pub(crate) index_words: Area,
    pub(crate) segments: Segments<Area>,
    pub(crate) pins: Pins<Area>,
    pub(crate) purges: PurgeRing<Area>,
    pub(crate) key_index: KeyIndex,
    pub(crate) pending_inserts: PendingInserts<Area>,
    /// Counts the events that may have left entries without a record in the key index.
    pub(crate) leftovers: Leftovers<Area>,
    /// The progress of the drain. Only the holder of the eviction lock uses it.
    pub(crate) drain: DrainProgress<Area>,
    pub(crate) eviction_lock: RobustLock<Area, SystemFutex>,
    pub(crate) purge_lock: RobustLock<Area, SystemFutex>,
    pub(crate) flights: Arc<Flights>,
    pub(crate) events: Events,
    /// The slots of the index whose records need no check of their checksums any more. A hit reads
    /// this, and no hit writes it.
    pub(super) verified: VerifiedSlots,
    /// Whether a thread of this process verifies, or has verified, the records that were in the
    /// region before the process attached to it.
    pub(super) is_verifying: AtomicBool,
    /// Whether a thread of this process sweeps the key index.
    pub(super) is_sweeping: AtomicBool,
    hasher: Hasher,
}

impl Shared {
    pub(crate) fn open(config: StoreConfig) -> Result<Arc<Shared>, OpenError> {
        Shared::open_by(config, |path, spec| match path {
            Some(path) => Region::open_or_create(path, spec),
            None => Region::anonymous(spec),
        })
    }

    /// Opens or creates the region. A region that is created gets its name later, from the caller.
    pub(crate) fn prepare(
        config: StoreConfig,
    ) -> Result<(Arc<Shared>, Option<UnnamedRegion>), OpenError> {
        let mut unnamed = None;
        let shared = Shared::open_by(config, |path, spec| {
            let Some(path) = path else { return Region::anonymous(spec) };
            let (region, its_name) = Region::prepare(path, spec)?;
            unnamed = Some(its_name);
            Ok(region)
        })?;
        Ok((shared, unnamed))
    }

    fn open_by(
        config: StoreConfig,
        open: impl FnOnce(Option<&Path>, &RegionSpec<'_>) -> Result<Region, RegionError>,
    ) -> Result<Arc<Shared>, OpenError> {
        let plan = Plan::of(&config).map_err(OpenError::Config)?;
        let spec = RegionSpec {
            bytes: plan.region_bytes,
            participants_max: plan.rows,
            barrier: BarrierWish::Best,
            areas: &plan.areas,
        };
        let region = open(config.path.as_deref(), &spec).map_err(OpenError::Region)?;
        let path = config.path.clone();
        Shared::over(region, config, plan).map(Arc::new).map_err(|error| error.about(path))
    }

    #[allow(unsafe_code)] // Only this crate knows these areas: see below.
    fn over(region: Region, config: StoreConfig, plan: Plan) -> Result<Shared, OpenError> {
        let area =
            |kind| region.area(kind).ok_or(OpenError::damaged("an area of the region is missing"));
        let store = area(kind::STORE)?;
        write_sizes(&store, &plan)?;
        let (table, data) = (area(kind::SEGMENTS)?, area(kind::DATA)?);
        // SAFETY:
        // - A region begins with zeros. Only this crate's methods write these areas, which no other
        //   code knows: they have kinds and a version of their own.
        // - The geometry follows from the plan, and a region of another plan is not attached to.
        let segments = unsafe { Segments::new(table, data, plan.geometry, plan.rows) }
            .map_err(|_| OpenError::damaged("the areas of segments and records are too small"))?;
        let columns = plan.geometry.segment_count() as usize;
        // Without a file, all participants are threads of this process.
        let barrier = match config.path {
            Some(_) => region.barrier(),
            None => Barrier::process().unwrap_or(region.barrier()),
        };
        let pins = Pins::new(area(kind::PINS)?, plan.rows as usize, columns, barrier)
            .map_err(|_| OpenError::damaged("the area of pins is too small"))?;
        let key_index = KeyIndex::within(&region, &plan.key_index, barrier)
            .map_err(|_| OpenError::damaged("the areas of the key index are damaged"))?;
        let purges =
            PurgeRing::new(store.clone(), word::PURGE_SEQ, area(kind::PURGES)?, plan.purge_slots)
                .map_err(|_| OpenError::damaged("the area of purges is too small"))?;
        Ok(Shared {
            flights: Arc::new(Flights::new(flight_config(&config))),
            drain: DrainProgress::new(
                store.clone(),
                [word::DRAINING, word::DRAINED_BYTES, word::DRAIN_PLAN],
            ),
            eviction_lock: RobustLock::new(store.clone(), word::EVICTION_LOCK, LockClass::Eviction),
            purge_lock: RobustLock::new(store.clone(), word::PURGE_LOCK, LockClass::Purge),
            pending_inserts: PendingInserts::new(area(kind::ROWS)?, ROW_WORDS, row::INSERTING),
            leftovers: Leftovers::new(store.clone(), word::LEFTOVERS, word::SWEPT),
            key_index,
            rows: area(kind::ROWS)?,
            ghosts: GhostTable::new(
                area(kind::GHOSTS)?,
                plan.ghost_words,
                store.clone(),
                plan.geometry.segment_count(),
            ),
            index_words: area(kind::INDEX)?,
            events: Events::default(),
            is_verifying: AtomicBool::new(false),
            verified: match region.opened() {
                Opened::Attached => VerifiedSlots::none(),
                _ => VerifiedSlots::all(),
            },
            is_sweeping: AtomicBool::new(false),
            hasher: Hasher::of_seed(region.seed()),
            config,
            plan,
            store,
            segments,
            pins,
            purges,
            region,
        })
    }

    /// How this process got the region: it created the region, attached to an existing one, or
    /// replaced an unusable one.
    pub(crate) fn opened(&self) -> &Opened {
        self.region.opened()
    }

    /// The word with the index `number` in a participant's row.
    pub(crate) fn row_word(&self, row: u32, number: usize) -> &AtomicU64 {
        self.rows.word(row as usize * ROW_WORDS + number)
    }

    /// The hash of a key. It is the same in all processes that share the region.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.key(key)
    }

    /// A 16-byte hash that clients cannot predict.
    pub(crate) fn wide_hash(&self, bytes: &[u8]) -> [u8; 16] {
        self.hasher.wide(bytes)
    }

    /// Returns the next sequence number. Of two records of a key, the record with the higher
    /// sequence is valid.
    ///
    /// Every insert writes the word of the last sequence. The 48 bits of a sequence last for 9
    /// years at a million inserts per second.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.store.word(word::SEQUENCE).fetch_add(1, Relaxed) + 1
    }

    /// Returns the sequence of the last insert. Records that are stored later have higher
    /// sequences.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.store.word(word::SEQUENCE).load(Relaxed)
    }

    /// Returns the next sealing number. It orders segments by the time at which they were sealed.
    pub(crate) fn next_order(&self) -> u64 {
        self.store.word(word::SEAL_ORDER).fetch_add(1, Relaxed) + 1
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The most bytes that an arriving response of known length reserves: most responses are shorter,
/// and a longer one that finds no room later is passed on without being stored.
const PROMISE_BYTES_MAX: u64 = 256 << 10;

fn flight_config(config: &StoreConfig) -> FlightConfig {
    FlightConfig {
        growing_bytes_max: config.growing_bytes_max(),
        promise_bytes_max: PROMISE_BYTES_MAX,
        object_bytes_max: config.object_bytes_max,
        window_bytes: config.window_bytes,
        window_wait_ms_max: config.window_wait_ms_max,
        shard_count: FLIGHT_SHARDS,
    }
}

/// Writes the sizes of the plan to the region, for tools that do not know the settings. All
/// processes write the same sizes.
fn write_sizes(store: &Area, plan: &Plan) -> Result<(), OpenError> {
    let sizes = [
        (word::SEGMENT_BYTES, u64::from(plan.geometry.segment_bytes())),
        (word::SEGMENT_COUNT, u64::from(plan.geometry.segment_count())),
        (word::BUCKET_COUNT, plan.bucket_count as u64),
        (word::GHOST_WORDS, plan.ghost_words as u64),
    ];
    for (index, size) in sizes {
        let found = store.word(index).load(Relaxed);
        if found != 0 && found != size {
            return Err(OpenError::damaged("the recorded sizes contradict the plan of the region"));
        }
        store.word(index).store(size, Relaxed);
    }
    Ok(())
}
