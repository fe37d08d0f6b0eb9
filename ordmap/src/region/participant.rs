//! A thread's part in a region of maps.

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

/// A thread that takes part in a region: it may move to another thread, but is used by one at a
/// time. What it lends ends before it does. A child that is forked off can only read with its copy.
pub struct MapParticipant {
    shared: Arc<SharedRegion>,
    /// Nothing, if somebody else's participant is who takes part.
    participant: Option<Participant>,
    deputy: Deputy,
    row: LeaseRow<Area>,
    /// Whose it is: a child that was forked off has copies of everything.
    pid: u32,
    /// How long it waits for a lock; `None`: as long as it lasts.
    wait_max: Cell<Option<Duration>>,
    /// How often something was held by leases since it last looked for dead holders.
    kept_count: Cell<u32>,
}

/// Looking for the dead costs a system call for each participant.
const KEPT_BETWEEN_SWEEPS: u32 = 16;

/// How long who need not have a lock waits for it.
const SOON: Duration = Duration::from_millis(2);

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireError {
    /// In this process nothing may be locked.
    Forked,
    Lock(LockError),
}

/// How a map is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Bytes that the map may take, with everything that belongs to it; then the entries that were
    /// not used are evicted. `None`: as much as the region has, and nothing is evicted. Some 20 KiB
    /// are always left for nodes: a map with less holds nothing.
    pub budget_bytes: Option<u64>,
    /// Bytes of a hash in front of the tree, by which single keys are looked up: 16 for each entry
    /// that is expected, of those that the region [has](crate::OrdConfig::hint_bytes). 0: none.
    pub hint_bytes: u64,
    /// Into how many shards the map may be split, up to 16, when its writers wait for each other:
    /// each shard has a range of keys and a lock of its own. 0 and 1: into none, and one at a time
    /// changes the map. As many as the region has [left](OrdConfig::splits_max); a map with a
    /// budget is not split.
    pub shards_max: u32,
}

/// Which map of a region it is: the same number for all participants, as long as the map is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapId(pub(crate) usize);

impl MapParticipant {
    pub(crate) fn join(shared: Arc<SharedRegion>) -> Result<MapParticipant, JoinError> {
        let participant = match shared.region.join() {
            // The dead keep no place from the living.
            Err(JoinError::Full { .. }) => {
                shared.sweep().map_err(JoinError::Io)?;
                shared.region.join()?
            }
            joined => joined?,
        };
        let row = participant.id().row;
        // SAFETY:
        // - The row of leases has the number of the participant's row, which it alone has until it
        //   leaves; and `LeaseRow` goes before that.
        // - All who open the region have the same plan, and write leases by these tables only.
        let row = unsafe { shared.leases.row(row as usize) };
        let Some(row) = row else {
            return Err(JoinError::Full { participants_max: shared.config.participants_max });
        };
        Ok(MapParticipant::of(shared, row, participant.deputy(), Some(participant)))
    }

    /// Takes part in the name of a participant of the region that the maps lie in.
    ///
    /// # Safety
    /// - The participant is one of that region, and stays in it until the participant is dropped.
    /// - It has no other participant.
    pub(super) unsafe fn join_embedded(
        shared: Arc<SharedRegion>,
        participant: &Participant,
    ) -> Result<MapParticipant, JoinError> {
        // SAFETY:
        // - The participant alone has the row, as long as this participant lives (contract).
        // - As in `join`.
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

    /// The map of this name; made if there is none.
    ///
    /// The options of the one who made it stand.
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

    /// The map of this name.
    ///
    /// # Errors
    /// [`MapsError::NotThere`], or what [`map`](MapParticipant::map) may meet.
    pub fn existing_map(&self, name: &str) -> Result<Map<'_>, MapsError> {
        let shard = directory::lookup(&self.shared, name.as_bytes())?;
        shard.map(|shard| Map::new(self, shard)).ok_or(MapsError::NotThere)
    }

    /// The map that another participant of this region calls its [own](Map::id), without looking
    /// for its name.
    ///
    /// # Errors
    /// [`MapsError::NotThere`]: the number is one of another region; [`MapsError::Damaged`].
    pub fn map_of(&self, id: MapId) -> Result<Map<'_>, MapsError> {
        let is_number = id.0 < self.shared.config.maps_max as usize;
        if !is_number || !is_live(self.shared.map_words(id.0)) {
            return Err(MapsError::NotThere);
        }
        let shards = self.shared.shards_in(self.shared.map_words(id.0));
        let is_right = shards.is_some_and(|shards| shards.first == id.0);
        if is_right { Ok(Map::new(self, id.0)) } else { Err(MapsError::Damaged) }
    }

    /// How long a change waits for the lock of its map, and the making of a map for that of the
    /// directory; then they fail with [`MapError::Busy`](crate::MapError::Busy) and nothing has
    /// changed. `None`, as at first: as long as the owner needs, who may be stopped; who is dead
    /// is not waited for. Readers wait for nobody.
    pub fn set_wait_max(&self, wait_max: Option<Duration>) {
        self.wait_max.set(wait_max);
    }

    /// Takes back what dead ones hold, as leases keep something; yes, if there were any. Not each
    /// time, unless it `must`.
    pub(crate) fn sweep_holders(&self, must: bool) -> bool {
        let kept_count = self.kept_count.get() + 1;
        let is_due = must || kept_count >= KEPT_BETWEEN_SWEEPS;
        self.kept_count.set(if is_due { 0 } else { kept_count });
        // If the system refuses, what they hold stays for now.
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

    /// Takes a lock of the region, if nobody alive has it.
    pub(crate) fn try_lock<'a>(
        &'a self,
        lock: &'a RobustLock<Area, SystemFutex>,
    ) -> Result<Option<RobustGuard<'a, Area, SystemFutex>>, AcquireError> {
        if !self.is_ours() {
            return Err(AcquireError::Forked);
        }
        lock.try_lock(&self.deputy).map_err(AcquireError::Lock)
    }

    /// Takes a lock of the region, if that takes no longer than some changes.
    pub(crate) fn lock_soon<'a>(
        &'a self,
        lock: &'a RobustLock<Area, SystemFutex>,
    ) -> Result<RobustGuard<'a, Area, SystemFutex>, AcquireError> {
        if !self.is_ours() {
            return Err(AcquireError::Forked);
        }
        lock.lock_within(&self.deputy, SOON).map_err(AcquireError::Lock)
    }

    /// Is this the process that joined, and no child of it, whose copy may lock and lease nothing?
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
        // - What was lent borrows this participant, so nobody reads it any more: entries that were
        //   forgotten left their leases, and nothing else.
        // - The row is still ours.
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
