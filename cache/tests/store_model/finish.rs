//! The end of a sequence: when all is purged, nothing is left.

use crate::oracle::check_sums;
use crate::play::Play;

/// Purges all keys; then no byte may be live.
pub(crate) fn check(play: &mut Play<'_>, keys: u32) -> Result<(), String> {
    for key in 0..keys {
        play.purge(key as usize % play.workers.len(), key)?;
    }
    let stats = play.store.stats();
    check_sums(&stats)?;
    if stats.live_bytes == 0 {
        return Ok(());
    }
    let named = play.workers[0].named();
    let keys: Vec<_> = named.iter().map(|named| String::from_utf8_lossy(&named.key)).collect();
    let named_bytes: u64 = named.iter().map(|named| named.record_bytes).sum();
    Err(format!("{} bytes are live, {named_bytes} of {keys:?}: {stats:?}", stats.live_bytes))
}
