//! Maps embedded in the region of another owner, the *host*. The host provides the areas of the
//! maps and manages the participants.

use std::sync::Arc;

use forebay_shm::{AreaSpec, Dead, JoinError, Participant, Region};
use forebay_sync::Barrier;

use super::config::{OrdConfig, OrdConfigError};
use super::directory;
use super::open::{OrdOpenError, OrdRegion, SharedRegion};
use super::participant::{MapId, MapParticipant};
use crate::layout::{RegionPlan, VERSION, kind};
use crate::map::MapStats;
use crate::object::{CHUNK_WORDS, UNIT_WORDS};

impl OrdRegion {
    /// The areas that maps of this configuration need in a host's region. Their kinds begin at
    /// `first_kind`. `config.bytes` limits their total size; `config.participants_max` must be at
    /// least the host's.
    ///
    /// # Errors
    /// [`OrdConfigError`].
    pub fn areas_within(
        config: &OrdConfig,
        first_kind: u32,
    ) -> Result<Vec<AreaSpec>, OrdConfigError> {
        let plan = RegionPlan::within(config)?;
        let spec = |(kind, bytes): (u32, u64)| AreaSpec {
            kind: first_kind + (kind - kind::HEAD),
            version: VERSION,
            bytes,
        };
        Ok(plan.areas.into_iter().map(spec).collect())
    }

    /// Opens the maps in a host's region that was created with the areas of
    /// [`areas_within`](OrdRegion::areas_within). `barrier` is the barrier of the region's
    /// participants. The host's participants [join the maps](OrdRegion::join_embedded) instead of
    /// calling [`join`](OrdRegion::join), and the host's sweep calls
    /// [`take_back`](OrdRegion::take_back).
    ///
    /// # Errors
    /// [`OrdOpenError`].
    pub fn within(
        region: &Region,
        config: &OrdConfig,
        first_kind: u32,
        barrier: Barrier,
    ) -> Result<OrdRegion, OrdOpenError> {
        let plan = RegionPlan::within(config).map_err(OrdOpenError::Config)?;
        let shared = SharedRegion::over(region.clone(), *config, plan, barrier, first_kind, true)?;
        Ok(OrdRegion { shared: Arc::new(shared) })
    }

    /// Joins the maps as one of the host's participants.
    ///
    /// # Errors
    /// The number of the participant's row is not below the `participants_max` of the maps.
    ///
    /// # Safety
    /// - The maps were opened by [`within`](OrdRegion::within). The participant is one of the
    ///   region in which they lie, and stays in it until the result is dropped.
    /// - The participant has no other [`MapParticipant`] of these maps.
    /// - Every process that opens these maps has given [`within`](OrdRegion::within) the same
    ///   barrier, which orders all participants of the region.
    /// - The participant did not join by [`OrdRegion::join`].
    pub unsafe fn join_embedded(
        &self,
        participant: &Participant,
    ) -> Result<MapParticipant, JoinError> {
        // SAFETY: the caller meets the same contract.
        unsafe { MapParticipant::join_embedded(Arc::clone(&self.shared), participant) }
    }

    /// The statistics of a map, without a participant; `None` if no map has this name.
    #[must_use]
    pub fn stats_of(&self, name: &str) -> Option<MapStats> {
        let shard = directory::lookup(&self.shared, name.as_bytes()).ok()??;
        Some(MapStats::of(&self.shared, shard))
    }

    /// Takes back the leases and locks of a dead participant, as part of the host's sweep.
    pub fn take_back(&self, dead: &Dead) {
        self.shared.take_back(dead);
    }
}

/// How much of the shared memory some maps use. Other participants may change these numbers at any
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Bytes of entries and nodes.
    pub used_bytes: u64,
    /// Bytes of the chunks that the maps own. The free part of such a chunk is available only for
    /// objects of the chunk's size class.
    pub owned_bytes: u64,
    /// Bytes of all chunks of the region.
    pub capacity_bytes: u64,
}

impl MapParticipant {
    /// The configuration of the maps' areas.
    #[must_use]
    pub fn config(&self) -> &OrdConfig {
        &self.shared().config
    }

    /// The memory that these maps use together.
    #[must_use]
    pub fn memory_usage(&self, maps: &[MapId]) -> MemoryUsage {
        let there = maps.iter().filter(|id| id.0 < self.shared().config.maps_max as usize);
        let (mut units, mut chunks) = (0_u64, 0_u64);
        let shards = there.flat_map(|id| self.shared().shards_of(id.0).numbers());
        for allocator in shards.map(|shard| self.shared().allocator(shard)) {
            units = units.saturating_add(allocator.taken_units());
            chunks = chunks.saturating_add(allocator.chunks_owned());
        }
        let (unit, chunk) = ((UNIT_WORDS * 8) as u64, (CHUNK_WORDS * 8) as u64);
        MemoryUsage {
            used_bytes: units.saturating_mul(unit),
            owned_bytes: chunks.saturating_mul(chunk),
            capacity_bytes: self.shared().plan.chunk_count as u64 * chunk,
        }
    }
}
