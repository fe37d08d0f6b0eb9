//! The layout of a region. `docs/format/ordmap.md` describes it; a test compares the two.

use crate::hint_table::BUCKET_BYTES;
use crate::names::ROW_WORDS;
use crate::object::{CHUNK_UNITS, CHUNK_WORDS, LIST_WORDS, MARK_WORDS, POOL_WORDS};
use crate::region::{OrdConfig, OrdConfigError};
use crate::route::ROUTE_ROW_WORDS;
use crate::shard;
use forebay_sync::LINE_WORDS;

/// Kinds of areas.
pub(crate) mod kind {
    pub(crate) const HEAD: u32 = 16;
    pub(crate) const MAPS: u32 = 17;
    pub(crate) const SHARDS: u32 = 18;
    pub(crate) const LEASES: u32 = 19;
    pub(crate) const CHUNKS: u32 = 20;
    pub(crate) const MARKS: u32 = 21;
    pub(crate) const DATA: u32 = 22;
    /// Present only if the region has hint tables.
    pub(crate) const HINTS: u32 = 23;
    /// Present only if maps may be split.
    pub(crate) const ROUTES: u32 = 24;
}

/// Words of the area `HEAD`.
pub(crate) mod head {
    pub(crate) const REGION_BYTES: usize = 0;
    pub(crate) const MAPS_MAX: usize = 1;
    pub(crate) const PARTICIPANTS_MAX: usize = 2;
    pub(crate) const LEASES_MAX: usize = 3;
    pub(crate) const HINT_BYTES: usize = 4;
    pub(crate) const SPLITS_MAX: usize = 5;
    pub(crate) const POOL: usize = 16;
    pub(crate) const DIRECTORY_LOCK: usize = 32;
    pub(crate) const COUNT: usize = 48;
}

/// Version of all areas.
pub(crate) const VERSION: u32 = 5;

pub(crate) const MAPS_MAX: u32 = 4096;
pub(crate) const LEASES_MAX: u32 = 1024;
/// The maximum of `hint_bytes`: as many bytes as references can address.
const HINT_BYTES_MAX: u64 = 1 << 40;
pub(crate) const SPLITS_MAX: u32 = 4096;

/// Bytes that a plan reserves for the region's header and directory and for the padding of areas.
/// Each participant adds 64.
const REGION_FIXED_BYTES: u64 = 64 * 1024;

/// The sizes of all areas of a region. They follow from its configuration alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionPlan {
    pub(crate) shard_words: usize,
    pub(crate) chunk_count: usize,
    /// The kind of each area, and its size in bytes.
    pub(crate) areas: Vec<(u32, u64)>,
}

impl RegionPlan {
    /// The plan of a region that holds only maps.
    pub(crate) fn of(config: &OrdConfig) -> Result<RegionPlan, OrdConfigError> {
        RegionPlan::beside(config, REGION_FIXED_BYTES + u64::from(config.participants_max) * 64)
    }

    /// The plan of areas inside the region of another owner.
    pub(crate) fn within(config: &OrdConfig) -> Result<RegionPlan, OrdConfigError> {
        RegionPlan::beside(config, 0)
    }

    fn beside(config: &OrdConfig, others_bytes: u64) -> Result<RegionPlan, OrdConfigError> {
        config.check()?;
        let leases = config.participants_max as usize * config.leases_max as usize;
        let shard_words = shard::words_needed(leases);
        let (maps, splits) = (config.maps_max as usize, config.splits_max as usize);
        let shards = maps + splits;
        let route_words = splits * 2 * ROUTE_ROW_WORDS;
        let row_words = (config.leases_max as usize).next_multiple_of(LINE_WORDS);
        let lease_words = config.participants_max as usize * row_words;
        let shards_words = maps * ROW_WORDS + shards * shard_words + route_words;
        let fixed_words = head::COUNT + shards_words + lease_words;
        let hint_bytes = config.hint_bytes.checked_next_multiple_of(BUCKET_BYTES);
        let hint_bytes = hint_bytes.filter(|bytes| *bytes <= HINT_BYTES_MAX);
        let hint_bytes = hint_bytes.ok_or(OrdConfigError::TooLarge)?;
        let fixed_bytes = others_bytes + fixed_words as u64 * 8 + hint_bytes;
        let chunk_bytes = ((CHUNK_WORDS + MARK_WORDS + 1) * 8) as u64;
        let chunk_count = config.bytes.saturating_sub(fixed_bytes) / chunk_bytes;
        // The minimum: one chunk for nodes, and one each for several size classes.
        let least = 8;
        if chunk_count < least {
            let minimum_bytes = (fixed_bytes + least * chunk_bytes).next_multiple_of(4096);
            return Err(OrdConfigError::TooSmall { minimum_bytes });
        }
        // A reference has 36 bits for the number of a unit.
        if chunk_count >= (1 << 36) / CHUNK_UNITS as u64 {
            return Err(OrdConfigError::TooLarge);
        }
        let chunk_count = chunk_count as usize;
        let bytes = |words: usize| words as u64 * 8;
        let mut areas = vec![
            (kind::HEAD, bytes(head::COUNT)),
            (kind::MAPS, bytes(maps * ROW_WORDS)),
            (kind::SHARDS, bytes(shards * shard_words)),
            (kind::LEASES, bytes(lease_words)),
            (kind::CHUNKS, bytes(chunk_count)),
            (kind::MARKS, bytes(chunk_count * MARK_WORDS)),
            (kind::DATA, bytes(chunk_count * CHUNK_WORDS)),
        ];
        if hint_bytes > 0 {
            areas.push((kind::HINTS, hint_bytes));
        }
        if route_words > 0 {
            areas.push((kind::ROUTES, bytes(route_words)));
        }
        Ok(RegionPlan { shard_words, chunk_count, areas })
    }
}

const _: () = assert!(POOL_WORDS <= head::DIRECTORY_LOCK - head::POOL && LIST_WORDS == 33);

#[cfg(test)]
mod tests;
