//! Statistics of a map.

use crate::code::Code;
use crate::failure::guard;
use crate::handle::require;
use crate::map::MapHandle;
use crate::sized::{self, SizedStruct};

/// Statistics of a map. They are a snapshot, which may be out of date at once.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiStats {
    /// `sizeof(forebay_stats)`.
    pub struct_bytes: usize,
    /// Entries.
    pub len: u64,
    /// Bytes of entries and nodes, including entries that wait for leases.
    pub used_bytes: u64,
    /// Bytes of the region that belong to the map.
    pub owned_bytes: u64,
    /// The limit of `used_bytes`; 0: limited only by the region.
    pub budget_bytes: u64,
    /// Entries that left the map and wait until no lease holds them.
    pub waiting_count: u64,
    /// Entries evicted so far.
    pub evicted_count: u64,
    /// Changes since the map was created.
    pub change_count: u64,
    /// Changes of dead processes that were finished or undone.
    pub repair_count: u64,
    /// Bytes of the hint table; 0: none.
    pub hint_bytes: u64,
    /// Shards of the map.
    pub shard_count: u64,
}

// SAFETY: ten numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiStats {}

/// The statistics of a map.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant.
/// - `stats` is null or has as many bytes as its `struct_bytes`, which the caller sets, says.
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
        // SAFETY: the contract is the same.
        unsafe { sized::write(stats, &answer, "stats")? };
        Ok(Code::Ok)
    })
}
