//! The end of a sequence: when all is purged, nothing is left.

use forebay_cache::{Lookup, Times};

use crate::oracle::check_sums;
use crate::play::Play;
use crate::store_common::{self as common, Label};

/// Rounds in which all memory is written anew: what was used most stays for a few.
const ROUNDS_MAX: usize = 12;

/// Keys that no sequence has.
const OTHER_KEYS: u32 = 1 << 20;

/// Purges all keys; then no byte may be live.
///
/// But for variants: when their base has left, nobody knows their keys. They go like everything
/// that is not asked for.
pub(crate) fn check(play: &mut Play<'_>, keys: u32) -> Result<(), String> {
    for key in 0..keys {
        play.purge(key as usize % play.workers.len(), key)?;
    }
    let stats = play.store.stats();
    check_sums(&stats)?;
    if stats.live_bytes == 0 {
        return Ok(());
    }
    if !play.setting.has_variants {
        return Err(format!("{} bytes are live: {stats:?}", stats.live_bytes));
    }
    play.totals.count("variants without a base", 1);
    (0..ROUNDS_MAX).find_map(|_| write_anew(play)).unwrap_or_else(|| {
        Err(format!("bytes stay that nobody can purge: {:?}", play.store.stats()))
    })
}

/// Fills all memory with other records that are used, and purges them. Is nothing left?
fn write_anew(play: &Play<'_>) -> Option<Result<(), String>> {
    let stats = play.store.stats();
    let body_bytes = (stats.segment_bytes / 16) as u32;
    let count = (stats.budget_bytes / u64::from(body_bytes)) as u32;
    let times = Times { response_time: play.now as u32, stale_from: play.now + 100_000 };
    for key in OTHER_KEYS..OTHER_KEYS + count {
        let worker = &play.workers[key as usize % play.workers.len()];
        let label = Label { key, version: 1, body_bytes, value: 0, renewed: 0 };
        let bytes = common::key_bytes(key);
        let leader = common::lead(worker, &bytes, 0, u64::MAX)?;
        let mut filling = common::begin(leader, label, None, true, times)?;
        let is_stored = common::append(&mut filling, label, usize::MAX / 2) && filling.finish();
        if !is_stored || matches!(worker.lookup(&bytes), Lookup::Miss) {
            return Some(Err("what nobody hinders is not stored".to_owned()));
        }
        worker.turn(play.now, |_| ());
    }
    for key in OTHER_KEYS..OTHER_KEYS + count {
        let purged = play.workers[0].purge(&common::key_bytes(key));
        purged.ok()?;
    }
    let stats = play.store.stats();
    let checked = check_sums(&stats);
    (stats.live_bytes == 0 || checked.is_err()).then_some(checked)
}
