//! Looks up maps by name, and creates them under the directory's lock.

use super::open::{MapsError, SharedRegion};
use super::participant::{MapOptions, MapParticipant};
use crate::hint_table::BUCKET_BYTES;
use crate::names::{MapShards, NAME_BYTES_MAX, is_live, name_of, write};
use crate::route::SHARDS_MAX;
use crate::shard::{BUDGET, HINT_BUCKETS, HINTS};

/// The first shard of the map with this name; `None` if no map has this name.
pub(crate) fn lookup(shared: &SharedRegion, name: &[u8]) -> Result<Option<usize>, MapsError> {
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(MapsError::Name);
    }
    let mut rows = (0..shared.config.maps_max as usize).map(|index| shared.map_words(index));
    let Some(row) = rows.find(|row| name_of(row).is_some_and(|ours| ours == name)) else {
        return Ok(None);
    };
    let shards = shared.shards_in(row).ok_or(MapsError::Damaged)?;
    Ok(Some(shards.first))
}

/// Creates a map, or returns the existing one of this name.
pub(crate) fn create(
    participant: &MapParticipant,
    name: &[u8],
    options: &MapOptions,
) -> Result<usize, MapsError> {
    let shared = participant.shared();
    let mut guard = participant.lock(&shared.directory_lock)?;
    // A row that a dead process began is not live, and is written again.
    guard.repaired();
    if let Some(shard) = lookup(shared, name)? {
        return Ok(shard);
    }
    let mut rows = 0..shared.config.maps_max as usize;
    let index = rows.find(|index| name_of(shared.map_words(*index)).is_none());
    let index = index.ok_or(MapsError::TooMany)?;
    let shards = shards_for(shared, index, options)?;
    let buckets = options.hint_bytes.div_ceil(BUCKET_BYTES);
    let hints = free_hints(shared, buckets).ok_or(MapsError::HintsFull)?;
    let words = shared.shard_words(index);
    words.store(BUDGET, options.budget_bytes.unwrap_or(0));
    words.store(HINTS, hints);
    words.store(HINT_BUCKETS, buckets);
    write(shared.map_words(index), name, shards);
    Ok(index)
}

/// The first of `buckets` free buckets; `None` if the region has fewer. Maps are never removed, so
/// all buckets after the last map's buckets are free.
fn free_hints(shared: &SharedRegion, buckets: u64) -> Option<u64> {
    let rows = (0..shared.config.maps_max as usize).filter(|row| is_live(shared.map_words(*row)));
    let ends = rows.map(|row| {
        let words = shared.shard_words(row);
        words.load(HINTS).saturating_add(words.load(HINT_BUCKETS))
    });
    let first = ends.max().unwrap_or(0);
    shared.all_hints().part(first, buckets).map(|_| first)
}

/// The shards of a new map: as many as its options ask for, or fewer if not enough are free. Shards
/// other than a map's first are allocated in order, so the further shards of one map are
/// consecutive.
fn shards_for(
    shared: &SharedRegion,
    index: usize,
    options: &MapOptions,
) -> Result<MapShards, MapsError> {
    let config = &shared.config;
    let mut further = config.maps_max as usize;
    let rows = (0..config.maps_max as usize).map(|index| shared.map_words(index));
    for row in rows.filter(|row| is_live(row)) {
        let taken = shared.shards_in(row).ok_or(MapsError::Damaged)?;
        further = further.max(taken.further + taken.count - 1);
    }
    let wanted = match options.budget_bytes {
        // Eviction looks for victims in one shard.
        Some(_) => 1,
        None => (options.shards_max as usize).clamp(1, SHARDS_MAX),
    };
    let left = shared.shard_count() - further;
    Ok(MapShards { first: index, count: 1 + left.min(wanted - 1), further })
}

/// The names of all maps.
pub(crate) fn names(shared: &SharedRegion) -> Vec<Vec<u8>> {
    let rows = (0..shared.config.maps_max as usize).map(|index| shared.map_words(index));
    rows.filter_map(name_of).collect()
}
