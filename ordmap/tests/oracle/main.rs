//! Random operations on a map and on a `BTreeMap`: both say the same, and the map stays sound.
//!
//! `FOREBAY_STEPS=1000000` for a longer run, `FOREBAY_SEED` for the same one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod journal;
#[path = "../common/keys.rs"]
mod keys;
mod play;
mod processes;
#[path = "../../../sync/tests/rng/mod.rs"]
mod rng;

use forebay_ordmap::{MapOptions, OrdConfig, OrdRegion};
use keys::Keys;
use play::Play;
use rng::Rng;

fn steps() -> usize {
    let usual = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    std::env::var("FOREBAY_STEPS").map_or(usual, |steps| steps.parse().unwrap())
}

#[test]
fn a_map_does_what_an_ordinary_one_does() {
    let mut random = Rng::of("a_map_does_what_an_ordinary_one_does");
    for (turn, keys) in Keys::ALL.into_iter().enumerate() {
        // No hash in front, one whose buckets are full, and one with room for all.
        let front_bytes = [0, 1 << 10, 1 << 18][turn % 3];
        let config = OrdConfig { front_bytes, ..OrdConfig::with_bytes(64 << 20) };
        let region = OrdRegion::anonymous(&config).unwrap();
        let member = region.join().unwrap();
        let options = MapOptions { front_bytes, ..MapOptions::default() };
        let map = member.map("oracle", &options).unwrap();
        assert_eq!(map.stats().front_bytes, front_bytes);
        let mut play = Play::new(&map, keys, random.fork());
        for step in 0..steps() / Keys::ALL.len() {
            play.step();
            if step % 2000 == 0 {
                play.compare_all();
                play.take_changes();
                let report = member.check().unwrap();
                assert!(report.is_sound(), "{keys:?}, step {step}: {report}");
            }
        }
        play.empty();
        let report = member.check().unwrap();
        assert!(report.is_sound(), "{keys:?}, emptied: {report}");
        assert_eq!((report.entries, report.nodes), (0, 0), "{keys:?}: {report}");
        assert_eq!(map.reclaim().unwrap(), report.waiting, "{keys:?}: {report}");
        assert_eq!(map.stats().used_bytes, 0, "{keys:?}: {:?}", map.stats());
    }
}
