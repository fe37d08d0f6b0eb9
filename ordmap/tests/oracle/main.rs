//! Random operations on a map and on a `BTreeMap`: both give the same results, and the map stays
//! sound.
//!
//! `FOREBAY_STEPS=1000000` for a longer run, `FOREBAY_SEED` to repeat one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod journal;
#[path = "../common/keys.rs"]
mod keys;
mod play;
mod processes;

use forebay_ordmap::{MapOptions, OrdConfig, OrdRegion};
use forebay_testkit::Rng;
use keys::Keys;
use play::Play;

fn steps() -> usize {
    let usual = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    std::env::var("FOREBAY_STEPS").map_or(usual, |steps| steps.parse().unwrap())
}

#[test]
fn a_map_does_what_an_ordinary_one_does() {
    let mut random = Rng::of("a_map_does_what_an_ordinary_one_does");
    for (turn, keys) in Keys::ALL.into_iter().enumerate() {
        // No hint table, one whose buckets are full, and one with room for all entries.
        let hint_bytes = [0, 1 << 10, 1 << 18][turn % 3];
        let config = OrdConfig { hint_bytes, ..OrdConfig::with_bytes(64 << 20) };
        let region = OrdRegion::anonymous(&config).unwrap();
        let participant = region.join().unwrap();
        let options = MapOptions { hint_bytes, ..MapOptions::default() };
        let map = participant.map("oracle", &options).unwrap();
        assert_eq!(map.stats().hint_bytes, hint_bytes);
        let mut play = Play::new(&map, keys, random.fork());
        for step in 0..steps() / Keys::ALL.len() {
            play.step();
            if step % 2000 == 0 {
                play.compare_all();
                play.take_changes();
                let report = participant.check().unwrap();
                assert!(report.is_sound(), "{keys:?}, step {step}: {report}");
            }
        }
        play.empty();
        let report = participant.check().unwrap();
        assert!(report.is_sound(), "{keys:?}, emptied: {report}");
        assert_eq!((report.entries, report.nodes), (0, 0), "{keys:?}: {report}");
        assert_eq!(map.reclaim().unwrap(), report.waiting, "{keys:?}: {report}");
        assert_eq!(map.stats().used_bytes, 0, "{keys:?}: {:?}", map.stats());
    }
}

/// Compares a map whose entries move between shards all the time with an ordinary map.
#[test]
fn a_map_that_is_split_does_what_an_ordinary_one_does() {
    let mut random = Rng::of("a_map_that_is_split_does");
    for keys in Keys::ALL {
        let config = OrdConfig { splits_max: 9, maps_max: 4, ..OrdConfig::with_bytes(64 << 20) };
        let region = OrdRegion::anonymous(&config).unwrap();
        let participant = region.join().unwrap();
        let options = MapOptions { shards_max: 8, ..MapOptions::default() };
        // Its shards are not the first of the region.
        participant.map("before", &MapOptions { shards_max: 3, ..options }).unwrap();
        let map = participant.map("oracle", &options).unwrap();
        let mut play = Play::new(&map, keys, random.fork());
        for step in 0..steps() / Keys::ALL.len() {
            play.step();
            play.split_or_move();
            if step % 1000 == 0 {
                play.compare_all();
                let report = participant.check().unwrap();
                assert!(report.is_sound(), "{keys:?}, step {step}: {report}");
            }
        }
        assert_eq!(map.stats().shard_count, 8);
        assert!(play.moved > 1000, "{keys:?}: {} entries moved", play.moved);
        play.empty();
        let report = participant.check().unwrap();
        assert!(report.is_sound(), "{keys:?}, emptied: {report}");
        assert_eq!((report.entries, report.nodes), (0, 0), "{keys:?}: {report}");
        assert_eq!(map.reclaim().unwrap(), report.waiting, "{keys:?}: {report}");
        assert_eq!(map.stats().used_bytes, 0, "{keys:?}: {:?}", map.stats());
    }
}
