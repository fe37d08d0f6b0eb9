//! Creates, opens and attaches regions of maps.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use forebay_shm::{
    Area, AreaSpec, BarrierWish, Dead, JoinError, Listed, LockError, Opened, ParticipantStatus,
    Region, RegionError, RegionReader, RegionSpec, RobustLock, SystemFutex,
};
use forebay_sync::LockClass;
use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::leases::Leases;
use forebay_sync::{Barrier, Words};

use super::config::{OrdConfig, OrdConfigError};
use super::participant::{AcquireError, MapParticipant};
use crate::hint_table::HintTable;
use crate::layout::{RegionPlan, VERSION, head, kind};
use crate::names::{MOVE_LOCK, MapShards, NAME_BYTES_MAX, ROUTE, ROW_WORDS};
use crate::object::{Allocator, POOL_WORDS, ShardView};
use crate::route::{ROUTE_ROW_WORDS, RouteTable};
use crate::shard::{EPOCH, HINT_BUCKETS, HINTS, LOCK, ShardWords};

/// Why a region of maps could not be opened.
#[derive(Debug)]
pub enum OrdOpenError {
    /// The configuration is invalid.
    Config(OrdConfigError),
    /// The file could not be created or opened.
    Region(RegionError),
    /// An existing file has other sizes or contents and is in use, so it is not replaced.
    InUse {
        /// The number of living participants of the region.
        participants: usize,
    },
    /// The file is not a region of maps, or is corrupt.
    Damaged {
        /// The damage that was found.
        what: &'static str,
    },
}

/// Shared memory that holds maps. A clone is another handle of the same memory.
#[derive(Clone)]
pub struct OrdRegion {
    pub(crate) shared: Arc<SharedRegion>,
}

/// The state that all participants of a process share.
pub(crate) struct SharedRegion {
    pub(crate) config: OrdConfig,
    pub(crate) plan: RegionPlan,
    pub(crate) region: Region,
    /// Whether the region belongs to a host, which sweeps it.
    is_embedded: bool,
    pub(crate) head: Area,
    pub(crate) maps: Area,
    pub(crate) shards: Area,
    chunks: Area,
    marks: Area,
    data: Area,
    /// The hint tables; `None` if the region has none.
    hints: Option<Area>,
    /// The routes of the maps; `None` if no map may be split.
    routes: Option<Area>,
    pub(crate) leases: Leases<Area>,
    pub(crate) directory_lock: RobustLock<Area, SystemFutex>,
    /// One lock for each possible shard. All threads of this process use the same lock values, so
    /// that each lock's profile can tell a waiter the holder.
    shard_locks: Box<[RobustLock<Area, SystemFutex>]>,
    /// The locks for moving entries between the shards of a map.
    move_locks: Box<[RobustLock<Area, SystemFutex>]>,
}

impl OrdRegion {
    /// Opens the region at this path, or creates it if there is none with this configuration. A
    /// region of another configuration is replaced if it has no participants. A process that has
    /// opened the replaced region without joining it keeps that region, which no longer has a path.
    ///
    /// # Errors
    /// [`OrdOpenError`]; see [`Region::open_or_create`].
    pub fn open_or_create(path: &Path, config: &OrdConfig) -> Result<OrdRegion, OrdOpenError> {
        let plan = RegionPlan::of(config).map_err(OrdOpenError::Config)?;
        // A file that cannot be read as a region is not in use.
        if let Ok(found) = Region::attach_read_only(path)
            && !is_of_plan(&found, config, &plan)
        {
            let is_alive = |listed: &Listed| match listed.status {
                ParticipantStatus::Alive | ParticipantStatus::HeldByAnother => true,
                ParticipantStatus::Dead | ParticipantStatus::Sweeping => false,
            };
            let participants = found.list().iter().filter(|listed| is_alive(listed)).count();
            if participants > 0 {
                return Err(OrdOpenError::InUse { participants });
            }
        }
        OrdRegion::open_by(config, |spec| Region::open_or_create(path, spec), true)
    }

    /// Opens the region at this path with the configuration that it was created with.
    ///
    /// # Errors
    /// There is no region of maps at this path, or its layout is of another version.
    pub fn attach(path: &Path) -> Result<OrdRegion, OrdOpenError> {
        let reader = Region::attach_read_only(path).map_err(OrdOpenError::Region)?;
        let words = reader.area(kind::HEAD).filter(|words| words.word_count() >= head::COUNT);
        let words =
            words.ok_or(OrdOpenError::Damaged { what: "the head area of maps is missing" })?;
        let number = |index| u32::try_from(words.load(index)).unwrap_or(u32::MAX);
        let config = OrdConfig {
            bytes: words.load(head::REGION_BYTES),
            maps_max: number(head::MAPS_MAX),
            participants_max: number(head::PARTICIPANTS_MAX),
            leases_max: number(head::LEASES_MAX),
            hint_bytes: words.load(head::HINT_BYTES),
            splits_max: number(head::SPLITS_MAX),
        };
        // `open_or_create` would replace a region that differs.
        if !is_of_plan(&reader, &config, &RegionPlan::of(&config).map_err(OrdOpenError::Config)?) {
            return Err(OrdOpenError::Damaged {
                what: "the layout differs from the layout that this version makes",
            });
        }
        OrdRegion::open_or_create(path, &config)
    }

    /// Creates a region without a path, for the threads of this process.
    ///
    /// # Errors
    /// [`OrdOpenError`].
    pub fn anonymous(config: &OrdConfig) -> Result<OrdRegion, OrdOpenError> {
        OrdRegion::open_by(config, Region::anonymous, false)
    }

    fn open_by(
        config: &OrdConfig,
        open: impl FnOnce(&RegionSpec<'_>) -> Result<Region, RegionError>,
        is_named: bool,
    ) -> Result<OrdRegion, OrdOpenError> {
        let plan = RegionPlan::of(config).map_err(OrdOpenError::Config)?;
        let spec =
            |(kind, bytes): &(u32, u64)| AreaSpec { kind: *kind, version: VERSION, bytes: *bytes };
        let areas: Vec<_> = plan.areas.iter().map(spec).collect();
        let region = open(&RegionSpec {
            bytes: config.bytes,
            participants_max: config.participants_max,
            barrier: BarrierWish::Best,
            areas: &areas,
        });
        let region = region.map_err(OrdOpenError::Region)?;
        // Without a file only the threads of this process participate.
        let barrier = if is_named {
            region.barrier()
        } else {
            Barrier::process().unwrap_or(region.barrier())
        };
        SharedRegion::over(region, *config, plan, barrier, kind::HEAD, false)
            .map(|shared| OrdRegion { shared: Arc::new(shared) })
    }

    /// Whether the region was created, opened or replaced.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        self.shared.region.opened()
    }

    /// The configuration of the region.
    #[must_use]
    pub fn config(&self) -> &OrdConfig {
        &self.shared.config
    }

    /// Joins the region, for one thread.
    ///
    /// # Errors
    /// Living participants hold all rows, or a system call failed.
    pub fn join(&self) -> Result<MapParticipant, JoinError> {
        MapParticipant::join(Arc::clone(&self.shared))
    }

    /// Takes back the leases and locks of dead participants, and returns the number of these
    /// participants. A join that finds no free row sweeps too, and changes sweep from time to time.
    /// In embedded maps it does nothing and returns 0, because the host sweeps.
    ///
    /// # Errors
    /// The system refuses to lock a row.
    pub fn sweep(&self) -> io::Result<u32> {
        self.shared.sweep()
    }
}

impl SharedRegion {
    /// Finds the areas of the maps in a region. `first_kind` is the kind of the head area; the
    /// other kinds follow it.
    pub(super) fn over(
        region: Region,
        config: OrdConfig,
        plan: RegionPlan,
        barrier: Barrier,
        first_kind: u32,
        is_embedded: bool,
    ) -> Result<SharedRegion, OrdOpenError> {
        let area = |kind: u32| {
            let found = region.area(first_kind + (kind - kind::HEAD));
            found.ok_or(OrdOpenError::Damaged { what: "an area of the region is missing" })
        };
        let (rows, slots) = (config.participants_max as usize, config.leases_max as usize);
        let leases = Leases::new(area(kind::LEASES)?, rows, slots, barrier)
            .map_err(|_| OrdOpenError::Damaged { what: "the area of leases is too small" })?;
        let has_hints = plan.areas.iter().any(|(kind, _)| *kind == kind::HINTS);
        let has_routes = plan.areas.iter().any(|(kind, _)| *kind == kind::ROUTES);
        let head = area(kind::HEAD)?;
        write_sizes(&head, &config)?;
        let shards = area(kind::SHARDS)?;
        let maps = area(kind::MAPS)?;
        let shard_lock = |shard: usize| {
            RobustLock::new(shards.clone(), shard * plan.shard_words + LOCK, LockClass::Map)
        };
        let move_lock = |map: usize| {
            RobustLock::new(maps.clone(), map * ROW_WORDS + MOVE_LOCK, LockClass::Move)
        };
        let (map_count, split_count) = (config.maps_max as usize, config.splits_max as usize);
        Ok(SharedRegion {
            shard_locks: (0..map_count + split_count).map(shard_lock).collect(),
            // A map that is never split needs no lock for moves.
            move_locks: (0..if split_count > 0 { map_count } else { 0 }).map(move_lock).collect(),
            directory_lock: RobustLock::new(
                head.clone(),
                head::DIRECTORY_LOCK,
                LockClass::Directory,
            ),
            maps,
            shards,
            chunks: area(kind::CHUNKS)?,
            marks: area(kind::MARKS)?,
            data: area(kind::DATA)?,
            hints: region.area(first_kind + (kind::HINTS - kind::HEAD)).filter(|_| has_hints),
            routes: if has_routes { Some(area(kind::ROUTES)?) } else { None },
            leases,
            head,
            config,
            plan,
            is_embedded,
            region,
        })
    }

    pub(crate) fn data(&self) -> &Area {
        &self.data
    }

    /// A view of all objects, for reading the objects of one shard.
    pub(crate) fn view(&self, shard: usize) -> ShardView<'_> {
        ShardView::new(self.data.all(), self.chunks.all(), shard as u16 + 1)
    }

    /// The chunk words of the region, one for each chunk.
    pub(crate) fn chunks(&self) -> &[AtomicU64] {
        self.chunks.all()
    }

    /// The words of a map in the directory.
    pub(crate) fn map_words(&self, index: usize) -> &[AtomicU64] {
        &self.maps.all()[index * ROW_WORDS..][..ROW_WORDS]
    }

    /// The number of shards that all maps can have together.
    pub(crate) fn shard_count(&self) -> usize {
        (self.config.maps_max + self.config.splits_max) as usize
    }

    /// The shards of the live map in this row of the directory; `None` if the row is damaged.
    pub(crate) fn shards_in(&self, row: &[AtomicU64]) -> Option<MapShards> {
        MapShards::of(row, self.config.maps_max as usize, self.shard_count())
    }

    /// The shards of the map with this number, which is the number of its first shard. If the row
    /// is damaged, the result has only the first shard.
    pub(crate) fn shards_of(&self, map: usize) -> MapShards {
        let one = MapShards { first: map, count: 1, further: self.config.maps_max as usize };
        self.shards_in(self.map_words(map)).filter(|shards| shards.first == map).unwrap_or(one)
    }

    /// The route table of the map with these shards.
    pub(crate) fn routes(&self, shards: MapShards) -> RouteTable<'_> {
        let all = self.routes.as_ref().map_or(&[][..], |routes| routes.all());
        let map_rows = 2 * ROUTE_ROW_WORDS;
        let begin = (shards.further - self.config.maps_max as usize) * map_rows;
        let rows = all.get(begin..begin + (shards.count - 1) * map_rows);
        RouteTable::new(&self.map_words(shards.first)[ROUTE], rows.unwrap_or_default())
    }

    /// The lock for moving entries between the shards of a map.
    pub(crate) fn move_lock(&self, map: usize) -> &RobustLock<Area, SystemFutex> {
        &self.move_locks[map]
    }

    pub(crate) fn shard_words(&self, shard: usize) -> ShardWords<'_> {
        let count = self.plan.shard_words;
        ShardWords(&self.shards.all()[shard * count..][..count])
    }

    /// The buckets of all hint tables.
    pub(crate) fn all_hints(&self) -> HintTable<'_> {
        HintTable::new(self.hints.as_ref().map_or(&[], |hints| hints.all()))
    }

    /// The hint table of a map; empty if the map claims buckets that do not exist.
    pub(crate) fn hints(&self, shard: usize) -> HintTable<'_> {
        let words = self.shard_words(shard);
        let part = self.all_hints().part(words.load(HINTS), words.load(HINT_BUCKETS));
        part.unwrap_or(HintTable::new(&[]))
    }

    pub(crate) fn shard_lock(&self, shard: usize) -> &RobustLock<Area, SystemFutex> {
        &self.shard_locks[shard]
    }

    pub(crate) fn allocator(&self, shard: usize) -> Allocator<'_> {
        Allocator {
            view: self.view(shard),
            marks: self.marks.all(),
            lists: self.shard_words(shard).lists(),
            pool: &self.head.all()[head::POOL..][..POOL_WORDS],
            epoch: self.shard_words(shard).word(EPOCH),
            owner: shard as u16 + 1,
        }
    }

    pub(crate) fn sweep(&self) -> io::Result<u32> {
        if self.is_embedded {
            // Only the host may sweep: it takes back more than these leases and locks.
            return Ok(0);
        }
        self.region.sweep(|dead| self.take_back(dead))
    }

    /// Takes back the leases and locks of a dead participant.
    pub(super) fn take_back(&self, dead: &Dead) {
        if dead.region() != self.region.id() {
            // The participant belongs to another region; here its row belongs to another
            // participant.
            return;
        }
        // SAFETY: a sweep has found the participant dead, and holds its row until this function
        // returns.
        unsafe { self.leases.clear_row(dead.id().row as usize) };
        forebay_shm::crash_point!("sweep.leases_cleared");
        self.directory_lock.abandon(dead);
        self.shard_locks.iter().for_each(|lock| _ = lock.abandon(dead));
        self.move_locks.iter().for_each(|lock| _ = lock.abandon(dead));
    }
}

impl fmt::Debug for OrdRegion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.shared.config;
        out.debug_struct("OrdRegion").field("config", config).finish_non_exhaustive()
    }
}

/// Whether a program with this configuration would create the same region.
fn is_of_plan(reader: &RegionReader, config: &OrdConfig, plan: &RegionPlan) -> bool {
    let is_same = |(kind, bytes): &(u32, u64)| {
        let area = reader.area(*kind);
        area.is_some_and(|area| area.version() == VERSION && area.word_count() as u64 * 8 == *bytes)
    };
    // Equal sizes are not enough: a region with a small hint table may have the same sizes of all
    // other areas as one without.
    let is_too_many = |kind| {
        reader.area(kind).is_some() && plan.areas.iter().all(|(planned, _)| *planned != kind)
    };
    reader.participants_max() == config.participants_max
        && reader.bytes() == config.bytes.next_multiple_of(4096)
        && plan.areas.iter().all(is_same)
        && [kind::HINTS, kind::ROUTES].iter().all(|kind| !is_too_many(*kind))
}

/// Writes the sizes into the head area, for processes that attach without knowing them. Every
/// process writes the same values.
fn write_sizes(words: &Area, config: &OrdConfig) -> Result<(), OrdOpenError> {
    let sizes = [
        (head::REGION_BYTES, config.bytes),
        (head::MAPS_MAX, config.maps_max.into()),
        (head::PARTICIPANTS_MAX, config.participants_max.into()),
        (head::LEASES_MAX, config.leases_max.into()),
        (head::HINT_BYTES, config.hint_bytes),
        (head::SPLITS_MAX, config.splits_max.into()),
    ];
    for (index, size) in sizes {
        let found = words.word(index).load(Relaxed);
        if found != 0 && found != size {
            return Err(OrdOpenError::Damaged {
                what: "the sizes in the head area contradict the layout of the region",
            });
        }
        words.word(index).store(size, Relaxed);
    }
    Ok(())
}

impl fmt::Display for OrdOpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrdOpenError::Config(error) => error.fmt(out),
            OrdOpenError::Region(error) => error.fmt(out),
            OrdOpenError::InUse { participants } => write!(
                out,
                "a region with other sizes is in use by {participants} participants; \
                 attach to that region, or stop its participants first"
            ),
            OrdOpenError::Damaged { what } => write!(out, "not a usable region of maps: {what}"),
        }
    }
}

impl std::error::Error for OrdOpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OrdOpenError::Config(error) => Some(error),
            OrdOpenError::Region(error) => Some(error),
            OrdOpenError::InUse { .. } | OrdOpenError::Damaged { .. } => None,
        }
    }
}

impl From<AcquireError> for MapsError {
    fn from(not: AcquireError) -> MapsError {
        match not {
            AcquireError::Forked => MapsError::Forked,
            AcquireError::Lock(LockError::TimedOut) => MapsError::Busy,
            AcquireError::Lock(error) => MapsError::Lock(error),
        }
    }
}

/// Why a map could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapsError {
    /// The name is not 1 to 64 bytes long.
    Name,
    /// The region has its maximum number of maps.
    TooMany,
    /// The region has not enough bytes left for the hint table.
    HintsFull,
    /// No map has this name or id.
    NotThere,
    /// The directory is corrupt.
    Damaged,
    /// Another owner of the directory's lock did not release it within [the
    /// limit](crate::MapParticipant::set_wait_max).
    Busy,
    /// This process is a forked child of the participant's process; the child must join the region
    /// itself.
    Forked,
    /// The lock of the directory could not be taken.
    Lock(LockError),
}

impl fmt::Display for MapsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapsError::Name => {
                write!(out, "the name of a map must have 1 to {NAME_BYTES_MAX} bytes")
            }
            MapsError::HintsFull => {
                out.write_str("the region has too few bytes left for a hint table of this size")
            }
            MapsError::TooMany => out.write_str("the region has its maximum number of maps"),
            MapsError::NotThere => out.write_str("there is no map with this name"),
            MapsError::Damaged => out.write_str("the directory of maps is corrupt; stop using it"),
            MapsError::Busy => out
                .write_str("timed out waiting for the directory's lock; its owner may be stopped"),
            MapsError::Forked => out.write_str(
                "the participant belongs to the parent process; join the region in this process",
            ),
            MapsError::Lock(error) => write!(out, "cannot lock the directory of maps: {error}"),
        }
    }
}

impl std::error::Error for MapsError {}
