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
    Err(format!("{} bytes are live: {stats:?}", stats.live_bytes))
}
