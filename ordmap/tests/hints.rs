//! Maps with a hint table.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_ordmap::{MapOptions, MapsError, OrdConfig, OrdOpenError, OrdRegion};

/// 16 bytes for each of 1000 entries.
const HINT_BYTES: u64 = 16_000;

fn config() -> OrdConfig {
    OrdConfig { hint_bytes: 2 * HINT_BYTES, ..OrdConfig::with_bytes(4 << 20) }
}

fn options(hint_bytes: u64) -> MapOptions {
    MapOptions { hint_bytes, ..MapOptions::default() }
}

#[test]
fn maps_share_what_the_region_has_for_hashes() {
    let region = OrdRegion::anonymous(&config()).unwrap();
    let participant = region.join().unwrap();
    // Whole buckets of 64 bytes.
    for (name, asked, has) in [("one", 16_000, 16_000), ("two", 1, 64), ("three", 0, 0)] {
        let map = participant.map(name, &options(asked)).unwrap();
        assert_eq!(map.stats().hint_bytes, has, "{name}");
        assert_eq!(participant.map(name, &options(7)).unwrap().stats().hint_bytes, has, "{name}");
    }
    let rest = 16_000 - 64;
    assert_eq!(participant.map("four", &options(rest + 1)).unwrap_err(), MapsError::HintsFull);
    assert_eq!(participant.map("four", &options(u64::MAX)).unwrap_err(), MapsError::HintsFull);
    assert_eq!(participant.existing_map("four").unwrap_err(), MapsError::NotThere);
    assert_eq!(participant.map("four", &options(rest)).unwrap().stats().hint_bytes, rest);
    assert_eq!(participant.map("five", &options(1)).unwrap_err(), MapsError::HintsFull);
    for name in ["one", "two", "three", "four"] {
        let map = participant.existing_map(name).unwrap();
        (0..500_u32).for_each(|key| _ = map.insert(&key.to_le_bytes(), name.as_bytes()).unwrap());
    }
    for name in ["one", "two", "three", "four"] {
        let map = participant.existing_map(name).unwrap();
        for key in 0..500_u32 {
            assert_eq!(map.get(&key.to_le_bytes()).unwrap().unwrap(), name.as_bytes(), "{key}");
        }
    }
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
fn a_hint_table_that_is_too_large_is_refused() {
    for hint_bytes in [4 << 20, 1 << 50, u64::MAX] {
        let config = OrdConfig { hint_bytes, ..config() };
        let refused = OrdRegion::anonymous(&config).map(|_| ());
        assert!(matches!(refused, Err(OrdOpenError::Config(_))), "{hint_bytes}: {refused:?}");
    }
}

#[test]
fn an_attached_region_has_the_hint_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps/region");
    let region = OrdRegion::open_or_create(&path, &config()).unwrap();
    let participant = region.join().unwrap();
    let map = participant.map("towns", &options(HINT_BYTES)).unwrap();
    map.insert(b"lyon", b"Rhone").unwrap();
    let other = OrdRegion::attach(&path).unwrap();
    assert_eq!(*other.config(), config());
    let other = other.join().unwrap();
    let theirs = other.existing_map("towns").unwrap();
    assert_eq!(theirs.stats(), map.stats());
    // Each participant finds the changes of the other.
    for value in [&b"Rhone, Saone"[..], b"Saone"] {
        theirs.insert(b"lyon", value).unwrap();
        assert_eq!(map.get(b"lyon").unwrap().as_deref(), Some(value));
    }
    theirs.remove(b"lyon").unwrap();
    assert!(!map.contains(b"lyon").unwrap());
    assert!(other.check().unwrap().is_sound());
}
