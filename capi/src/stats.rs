//! Statistics of a map.

use crate::code::Code;
use crate::failure::guard;
use crate::handle::require;
use crate::map::MapHandle;
use crate::sized::{self, SizedStruct};

/// Statistics of a map. Other participants may change these numbers at any time.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiStats {
    /// `sizeof(forebay_stats)`.
    pub struct_bytes: usize,
    /// The number of entries.
    pub len: u64,
    /// Bytes of entries and nodes, including waiting entries.
    pub used_bytes: u64,
    /// Bytes of the chunks that the map owns.
    pub owned_bytes: u64,
    /// The limit of `used_bytes`; 0: only the region limits the map.
    pub budget_bytes: u64,
    /// The number of waiting entries: they have left the map but are not freed, because a lease may
    /// hold them.
    pub waiting_count: u64,
    /// The number of entries evicted so far.
    pub evicted_count: u64,
    /// The number of changes since the map was created.
    pub change_count: u64,
    /// How often a shard was repaired after a process had died while it held the shard's lock.
    pub repair_count: u64,
    /// Bytes of the hint table; 0: the map has none.
    pub hint_bytes: u64,
    /// The number of shards of the map.
    pub shard_count: u64,
}

// SAFETY: eleven numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiStats {}

/// Writes the statistics of a map to `stats`.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant.
/// - `stats` is null or points to as many bytes as its field `struct_bytes` says. The caller sets
///   this field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_stats(map: Option<&MapHandle>, stats: *mut AbiStats) -> Code {
    guard(|| {
        let found = require(map, "map")?.inner.what.stats();
        let answer = AbiStats {
            struct_bytes: size_of::<AbiStats>(),
            len: found.len,
            used_bytes: found.used_bytes,
            owned_bytes: found.owned_bytes,
            budget_bytes: found.budget_bytes,
            waiting_count: found.waiting_count,
            evicted_count: found.evicted_count,
            change_count: found.change_count,
            repair_count: found.repair_count,
            hint_bytes: found.hint_bytes,
            shard_count: found.shard_count,
        };
        // SAFETY: the caller meets the same contract.
        unsafe { sized::write(stats, &answer, "stats")? };
        Ok(Code::Ok)
    })
}
