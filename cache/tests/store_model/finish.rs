//! Checks of the invariants of a whole store: from time to time, and after all keys were purged.

use forebay_cache::{CheckDepth, Store, StoreWorker};

use crate::oracle::check_sums;
use crate::store_common;

/// Checks an idle store: the index names live, whole records only, their bytes are the live bytes,
/// and the key index agrees with them.
pub(crate) fn check_live(store: &Store, worker: &StoreWorker) -> Result<(), String> {
    let stats = store.stats();
    check_sums(&stats)?;
    let named = worker.named();
    let named_bytes: u64 = named.iter().map(|named| named.record_bytes).sum();
    if named_bytes != stats.live_bytes {
        return Err(format!("the index names {named_bytes} bytes, not those of {stats:?}"));
    }
    if let Some(named) = named.iter().find(|named| !named.is_live || !named.is_whole) {
        return Err(format!("{named:?}"));
    }
    let order = worker.check_key_index().map_err(|error| error.to_string())?;
    if order.left_over > 0 || !order.faults.is_empty() {
        return Err(format!("{order:?}"));
    }
    let report = store.check(CheckDepth::Headers, |_| ()).map_err(|error| error.to_string())?;
    if report.fault_count + report.drift_count > 0 { Err(report.to_string()) } else { Ok(()) }
}

/// Checks a store whose keys are all purged, without handles and other participants. Only fragments
/// of bodies are still live, until they are evicted. No segment is pinned, and all segments can be
/// freed.
pub(crate) fn check_empty(store: &Store, worker: &StoreWorker) -> Result<(), String> {
    check_live(store, worker)?;
    if let Some(named) = worker.named().iter().find(|named| !named.is_fragment) {
        return Err(format!("the index still names {named:?} after all purges"));
    }
    worker.empty();
    let (stats, phases, pin_count) = (store.stats(), store.phases(), store.pin_count());
    let in_use = stats.live_bytes + stats.growing_bytes + stats.copied_bytes + pin_count;
    if in_use == 0 && u64::from(phases.free) == stats.segment_count {
        return check_live(store, worker);
    }
    Err(format!("{pin_count} pins, {phases:?}, {:?}: {stats:?}", worker.named()))
}

/// Purges the keys of an idle store, and checks its invariants before and after.
pub(crate) fn check_end(store: &Store, keys: u32) -> Result<(), String> {
    let worker = store.join().map_err(|error| error.to_string())?;
    check_live(store, &worker)?;
    for key in 0..keys {
        worker.purge(&store_common::key_bytes(key)).map_err(|busy| busy.to_string())?;
    }
    check_empty(store, &worker)
}
