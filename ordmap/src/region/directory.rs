//! Looking for maps by their names, and making them under the directory's lock.

use super::member::Member;
use super::open::{MapsError, Shared};
use crate::names::{NAME_BYTES_MAX, name_of, shard_of, write};
use crate::shard::BUDGET;

/// The shard of the map with this name, if there is one.
pub(crate) fn lookup(shared: &Shared, name: &[u8]) -> Result<Option<usize>, MapsError> {
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(MapsError::Name);
    }
    let mut rows = (0..shared.config.maps_max as usize).map(|index| shared.map_words(index));
    let Some(row) = rows.find(|row| name_of(row).is_some_and(|ours| ours == name)) else {
        return Ok(None);
    };
    let shard = shard_of(row, shared.config.maps_max as usize);
    shard.map(Some).ok_or(MapsError::Damaged)
}

/// Makes a map; gives the one of this name, if there is one already.
pub(crate) fn create(member: &Member, name: &[u8], budget_bytes: u64) -> Result<usize, MapsError> {
    let shared = member.shared();
    let mut guard = member.lock(&shared.directory_lock)?;
    // What a dead one had begun is not live, and is written anew.
    guard.repaired();
    if let Some(shard) = lookup(shared, name)? {
        return Ok(shard);
    }
    let mut rows = 0..shared.config.maps_max as usize;
    let index = rows.find(|index| name_of(shared.map_words(*index)).is_none());
    let index = index.ok_or(MapsError::TooMany)?;
    shared.shard_words(index).store(BUDGET, budget_bytes);
    write(shared.map_words(index), name, index);
    Ok(index)
}

/// The names of all maps.
pub(crate) fn names(shared: &Shared) -> Vec<Vec<u8>> {
    let rows = (0..shared.config.maps_max as usize).map(|index| shared.map_words(index));
    rows.filter_map(name_of).collect()
}
