//! A thread's membership in a region of maps.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forebay_shm::{
    Area, Deputy, JoinError, Liveness, LockError, Participant, RobustGuard, RobustLock,
    SystemFutex, process_id,
};
use forebay_sync::leases::LeaseRow;

#[cfg(doc)]
use super::config::OrdConfig;
use super::directory;
use super::open::{MapsError, SharedRegion};
use crate::map::Map;
use crate::names::is_live;

/// A thread's membership in a region. It may move to another thread, but only one thread uses it at
/// a time. Maps, cursors and entries borrow it. A forked child can use its copy only for reads that
/// need no lease.
pub struct MapParticipant {
    shared: Arc<SharedRegion>,
    /// `None` in embedded maps, where the host owns the participant.
    participant: Option<Participant>,
    deputy: Deputy,
    row: LeaseRow<Area>,
    /// The process that joined; a forked child has copies of everything.
    pid: u32,
    /// The longest wait for a lock; `None` if it has no limit.
    wait_max: Cell<Option<Duration>>,
    /// How often a reclaim has left entries behind since the last search for dead holders.
    kept_count: Cell<u32>,
}

/// The number of reclaims that leave entries behind between two searches for dead participants. A
/// search costs a system call for each participant.
const KEPT_BETWEEN_SWEEPS: u32 = 16;

/// The longest wait for a lock that the operation can do without.
const SOON: Duration = Duration::from_millis(2);

/// Why a lock was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireError {
    /// This process is a forked child of the participant's process, so it must not lock anything.
    Forked,
    Lock(LockError),
}

/// Options of a new map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// The most bytes that the map's entries and nodes may take. When they are used up, entries
    /// that were not used recently are evicted. `None`: no limit but the region's size, and no
    /// eviction. About 20 KiB of a budget always stay reserved for nodes, so a map with a smaller
    /// budget can hold no entry.
    pub budget_bytes: Option<u64>,
    /// Bytes of the map's hint table, which speeds up lookups of single keys; 16 bytes for each
    /// expected entry are a good size. They are taken from the region's
    /// [`hint_bytes`](crate::OrdConfig::hint_bytes). 0: no hint table.
    pub hint_bytes: u64,
    /// The largest number of shards of the map, at most 16. A map is split into shards when its
    /// writers wait for each other; each shard has a range of keys and a lock of its own. 0 and 1:
    /// one shard, and one writer at a time. The [splits](OrdConfig::splits_max) that the region has
    /// left limit the number too. A map with a budget is never split.
    pub shards_max: u32,
}

/// The number of a map in its region. All participants use the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapId(pub(crate) usize);

impl MapParticipant {
    pub(crate) fn join(shared: Arc<SharedRegion>) -> Result<MapParticipant, JoinError> {
        let participant = match shared.region.join() {
            // A sweep frees the rows of dead participants.
            Err(JoinError::Full { .. }) => {
                shared.sweep().map_err(JoinError::Io)?;
                shared.region.join()?
            }
            joined => joined?,
        };
        let row = participant.id().row;
        // SAFETY:
        // - The row of leases has the number of the participant's row. Only this participant has
        //   that row until it leaves, and the `LeaseRow` is dropped before that.
        // - All processes that open the region have the same plan, and write leases by these tables
        //   only.
        let row = unsafe { shared.leases.row(row as usize) };
        let Some(row) = row else {
            return Err(JoinError::Full { participants_max: shared.config.participants_max });
        };
        Ok(MapParticipant::of(shared, row, participant.deputy(), Some(participant)))
    }

    /// Joins as a participant of the host's region.
    ///
    /// # Safety
    /// - The participant is one of that region, and stays in it until the result is dropped.
    /// - The participant has no other [`MapParticipant`] of these maps.
    pub(super) unsafe fn join_embedded(
        shared: Arc<SharedRegion>,
        participant: &Participant,
    ) -> Result<MapParticipant, JoinError> {
        // SAFETY:
        // - Only this participant has the row, as long as the result lives (contract).
        // - All processes that open the maps have the same plan, and write leases by these tables
        //   only.
        let row = unsafe { shared.leases.row(participant.id().row as usize) };
        let Some(row) = row else {
            return Err(JoinError::Full { participants_max: shared.config.participants_max });
        };
        Ok(MapParticipant::of(shared, row, participant.deputy(), None))
    }

    fn of(
        shared: Arc<SharedRegion>,
        row: LeaseRow<Area>,
        deputy: Deputy,
        participant: Option<Participant>,
    ) -> MapParticipant {
        MapParticipant {
            shared,
            participant,
            deputy,
            row,
            pid: process_id(),
            wait_max: Cell::new(None),
            kept_count: Cell::new(0),
        }
    }

    /// Opens the map of this name, or creates it. `options` apply only if the map is created.
    ///
    /// # Errors
    /// [`MapsError`].
    pub fn map(&self, name: &str, options: &MapOptions) -> Result<Map<'_>, MapsError> {
        let shard = match directory::lookup(&self.shared, name.as_bytes())? {
            Some(shard) => shard,
            None => directory::create(self, name.as_bytes(), options)?,
        };
        Ok(Map::new(self, shard))
    }

    /// Opens the map of this name.
    ///
    /// # Errors
    /// [`MapsError::NotThere`], or an error of [`map`](MapParticipant::map).
    pub fn existing_map(&self, name: &str) -> Result<Map<'_>, MapsError> {
        let shard = directory::lookup(&self.shared, name.as_bytes())?;
        shard.map(|shard| Map::new(self, shard)).ok_or(MapsError::NotThere)
    }

    /// Opens the map with the [id](Map::id) that another participant of this region has, without a
    /// lookup by name.
    ///
    /// # Errors
    /// [`MapsError::NotThere`] if this region has no map with this id; [`MapsError::Damaged`].
    pub fn map_of(&self, id: MapId) -> Result<Map<'_>, MapsError> {
        let is_number = id.0 < self.shared.config.maps_max as usize;
        if !is_number || !is_live(self.shared.map_words(id.0)) {
            return Err(MapsError::NotThere);
        }
        let shards = self.shared.shards_in(self.shared.map_words(id.0));
        let is_right = shards.is_some_and(|shards| shards.first == id.0);
        if is_right { Ok(Map::new(self, id.0)) } else { Err(MapsError::Damaged) }
    }

    /// Limits how long a change waits for a lock of its map, and how long the creation of a map
    /// waits for the directory's lock. After that time they fail with
    /// [`MapError::Busy`](crate::MapError::Busy) or [`MapsError::Busy`]. `None`, the default, is no
    /// limit, even if the owner of the lock is stopped. A dead owner is not waited for. Readers
    /// never wait.
    pub fn set_wait_max(&self, wait_max: Option<Duration>) {
        self.wait_max.set(wait_max);
    }

    /// Sweeps dead participants, because leases keep some entries from being freed; returns whether
    /// any participant was swept. Without `must`, only one of [`KEPT_BETWEEN_SWEEPS`] calls sweeps.
    pub(crate) fn sweep_holders(&self, must: bool) -> bool {
        let kept_count = self.kept_count.get() + 1;
        let is_due = must || kept_count >= KEPT_BETWEEN_SWEEPS;
        self.kept_count.set(if is_due { 0 } else { kept_count });
        // If a system call fails, the leases stay until a later sweep.
        is_due && self.shared.sweep().is_ok_and(|swept| swept > 0)
    }

    /// The names of all maps.
    #[must_use]
    pub fn map_names(&self) -> Vec<Vec<u8>> {
        directory::names(&self.shared)
    }

    pub(crate) fn shared(&self) -> &SharedRegion {
        &self.shared
    }

    /// Takes a lock of the region.
    #[track_caller]
    pub(crate) fn lock<'a>(
        &'a self,
        lock: &'a RobustLock<Area, SystemFutex>,
    ) -> Result<RobustGuard<'a, Area, SystemFutex>, AcquireError> {
        if !self.is_ours() {
            return Err(AcquireError::Forked);
        }
        let taken = match self.wait_max.get() {
            None => lock.lock(&self.deputy),
            Some(wait_max) => lock.lock_within(&self.deputy, wait_max),
        };
        taken.map_err(AcquireError::Lock)
    }

    /// Takes a lock of the region, unless a living participant holds it.
    pub(crate) fn try_lock<'a>(
        &'a self,
        lock: &'a RobustLock<Area, SystemFutex>,
    ) -> Result<Option<RobustGuard<'a, Area, SystemFutex>>, AcquireError> {
        if !self.is_ours() {
            return Err(AcquireError::Forked);
        }
        lock.try_lock(&self.deputy).map_err(AcquireError::Lock)
    }

    /// Takes a lock of the region, unless the wait exceeds [`SOON`].
    pub(crate) fn lock_soon<'a>(
        &'a self,
        lock: &'a RobustLock<Area, SystemFutex>,
    ) -> Result<RobustGuard<'a, Area, SystemFutex>, AcquireError> {
        if !self.is_ours() {
            return Err(AcquireError::Forked);
        }
        lock.lock_within(&self.deputy, SOON).map_err(AcquireError::Lock)
    }

    /// Whether this is the process that joined; a forked child must not take locks or leases.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.pid == process_id()
    }

    pub(crate) fn row(&self) -> &LeaseRow<Area> {
        &self.row
    }
}

impl Drop for MapParticipant {
    fn drop(&mut self) {
        let participant = self.participant.take();
        if !self.is_ours() {
            return;
        }
        // SAFETY:
        // - Everything that borrowed this participant is gone, so no thread reads by its leases any
        //   more. An `Entry` that was passed to `mem::forget` left only its lease.
        // - The row still belongs to this participant.
        unsafe { self.shared.leases.clear_row(self.deputy.id().row as usize) };
        if let Some(participant) = participant {
            participant.leave();
        }
    }
}

impl fmt::Debug for MapParticipant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MapParticipant").field("id", &self.deputy.id()).finish_non_exhaustive()
    }
}
