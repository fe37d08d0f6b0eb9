//! What must be true of the store as a whole: now and then, and when all is purged.

use forebay_cache::{Store, StoreWorker};

use crate::oracle::check_sums;
use crate::store_common;

/// While nobody works: what counts as live is what the index names, and can be found.
pub(crate) fn check_live(store: &Store, worker: &StoreWorker) -> Result<(), String> {
    let stats = store.stats();
    check_sums(&stats)?;
    let named = worker.named();
    let named_bytes: u64 = named.iter().map(|named| named.record_bytes).sum();
    if named_bytes != stats.live_bytes {
        return Err(format!("{named_bytes} bytes are named: {stats:?}"));
    }
    match named.iter().find(|named| !named.is_live || !named.is_whole) {
        None => Ok(()),
        Some(named) => Err(format!("{named:?}")),
    }
}

/// All keys are purged, nothing is lent, all others have left: no byte is live, nothing is pinned,
/// and all segments can be free.
pub(crate) fn check_empty(store: &Store, worker: &StoreWorker) -> Result<(), String> {
    check_live(store, worker)?;
    // Fragments stay for who may be sending them, and leave when their segments are drained.
    let named = worker.named();
    let left = named.iter().find(|named| named.key.first() != Some(&0xff));
    if let Some(left) = left {
        return Err(format!("{left:?} is left"));
    }
    worker.empty();
    let (stats, phases, pin_count) = (store.stats(), store.phases(), store.pin_count());
    let bytes = stats.live_bytes + stats.growing_bytes + stats.copied_bytes;
    let is_empty = u64::from(phases.free) == stats.segment_count && bytes + pin_count == 0;
    if is_empty { Ok(()) } else { Err(format!("{pin_count} pins, {phases:?} stay: {stats:?}")) }
}

/// Nobody works any more: purges these keys, and looks.
pub(crate) fn check_end(store: &Store, keys: u32) -> Result<(), String> {
    let worker = store.join().map_err(|error| error.to_string())?;
    check_live(store, &worker)?;
    for key in 0..keys {
        worker.purge(&store_common::key_bytes(key)).map_err(|busy| busy.to_string())?;
    }
    check_empty(store, &worker)
}
