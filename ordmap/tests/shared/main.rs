//! Tests that may share their region: many processes may run them at the same time, in any order,
//! on one region that exists already.
//!
//! With `FOREBAY_ORDMAP_REGION=PATH` they use the region at that path, otherwise one for each test
//! process. `scripts/ordmap-parallel` runs them on one region.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
mod entries;
mod maps;
mod order;
mod races;

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_ordmap::{Map, MapError, MapOptions, MapParticipant, OrdConfig, OrdRegion};

/// The region of all these tests.
pub(crate) fn region() -> OrdRegion {
    // Ten processes may store their largest values at the same time, each in one piece, between the
    // remains of maps that were split.
    let config = OrdConfig { splits_max: 60, ..OrdConfig::with_bytes(64 << 20) };
    match std::env::var_os("FOREBAY_ORDMAP_REGION") {
        Some(path) => OrdRegion::open_or_create(Path::new(&path), &config).unwrap(),
        None => OrdRegion::anonymous(&config).unwrap(),
    }
}

/// The map of a test, with the same options in all processes.
pub(crate) fn map<'m>(participant: &'m MapParticipant, test: &str) -> Map<'m> {
    participant.map(test, &MapOptions { shards_max: 4, ..MapOptions::default() }).unwrap()
}

/// Moves entries near a key into another shard, unless another process is moving some.
pub(crate) fn split_or_move(map: &Map<'_>, key: &[u8]) {
    for moved in [map.split_at(key), map.move_up(key), map.move_down(key)] {
        assert!(matches!(moved, Ok(_) | Err(MapError::Busy)), "{moved:?}");
    }
}

/// Returns a new prefix for the keys of a test: no other call, in any process, returned it before.
pub(crate) fn own() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one(count);
    format!("{:07}.{random:016x}.{count:04}/", std::process::id())
}
