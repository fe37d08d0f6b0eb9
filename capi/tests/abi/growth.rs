//! Programs and libraries of different versions.

use std::ffi::{CStr, CString};
use std::path::Path;

use forebay_capi::*;
use forebay_ordmap::OrdRegion;

use crate::scene::{OutPlace, Scene, answered, by, closing, last_message, stats_of};

#[test]
fn structs_of_older_and_newer_programs_are_understood() {
    let scene = Scene::open(1);
    scene.put("key", "value");
    // An older program knows two words of the struct, and a newer program knows twelve.
    for (known, expected) in [(16, [16, 1, 9]), (96, [96, 1, scene.stats().used_bytes])] {
        let mut words = [9_u64; 12];
        words[0] = known;
        // SAFETY: there is room for the size in the first word.
        let code = unsafe { forebay_map_stats(by(scene.map), words.as_mut_ptr().cast()) };
        assert_eq!(code, Code::Ok);
        assert_eq!(words[..3], expected, "{known} bytes");
        assert_eq!(words[9..], if known == 96 { [0, 1, 0] } else { [9, 9, 9] }, "{known} bytes");
    }
}

#[test]
fn a_field_of_a_later_version_is_refused() {
    let scene = Scene::open(1);
    let path = scene.path();
    let open = |words: &[u64]| {
        // SAFETY: the string is there, and as many bytes as the first word says.
        answered(|place| unsafe {
            forebay_region_open(path.as_ptr(), words.as_ptr().cast(), place)
        })
        .map(|_| ())
    };
    assert_eq!(open(&[48, 4 << 20, 0, 0, 0, 7]), Err(Code::Version));
    assert_eq!(
        last_message(),
        "config: the caller sets a field that only a later version of the library knows"
    );
    assert_eq!(open(&[32, 4 << 20, 0, 5000 << 32]), Err(Code::Argument));
    assert_eq!(open(&[1 << 40]), Err(Code::Argument));
    assert_eq!(open(&[8]), Err(Code::Argument));
    assert!(last_message().contains("needs at least"), "{}", last_message());
    assert_eq!(open(&[32, 4 << 20, 1 << 31, 0]), Err(Code::Argument));
}

/// The map is split through another handle of the same region.
#[test]
fn a_map_is_split_up_to_its_limit() {
    let scene = Scene::open(2);
    let struct_bytes = size_of::<AbiOptions>();
    let options = AbiOptions { struct_bytes, shards_max: 3, ..AbiOptions::default() };
    // SAFETY: the string and the struct are valid during the call.
    let made = answered(|place| unsafe {
        forebay_participant_map(by(scene.participant), c"split".as_ptr(), &options, place)
    });
    let made = made.unwrap();
    let region = OrdRegion::attach(Path::new(scene.path().to_str().unwrap())).unwrap();
    let participant = region.join().unwrap();
    for (map, parts) in [(scene.map, 1), (made, 3)] {
        let name = if map == made { "split" } else { "map" };
        let other = participant.existing_map(name).unwrap();
        (0..200).for_each(|key: u8| _ = other.insert(&[key], b"value").unwrap());
        (0..9).for_each(|_| _ = other.split_at(&[100]).unwrap());
        assert_eq!(stats_of(map).shard_count, parts, "{name}");
        assert_eq!(stats_of(map).len, 200, "{name}");
    }
    assert_eq!(forebay_map_close(closing(made)), Code::Ok);
}

#[test]
fn a_map_has_a_hash_in_front_if_it_is_wanted() {
    let scene = Scene::open(1);
    let path = [scene.path().as_bytes(), b".other"].concat();
    let path = CString::new(path).unwrap();
    let struct_bytes = size_of::<AbiConfig>();
    let config =
        AbiConfig { struct_bytes, bytes: 4 << 20, hint_bytes: 4096, ..AbiConfig::default() };
    // SAFETY: the string and the struct are valid during the call.
    let open = |place: OutPlace<'_, _>| unsafe {
        forebay_region_open(path.as_ptr(), &raw const config, place)
    };
    let region = answered(open).unwrap();
    let participant = answered(|place| forebay_participant_join(by(region), place)).unwrap();
    let map = |name: &CStr, hint_bytes| {
        let struct_bytes = size_of::<AbiOptions>();
        let options = AbiOptions { struct_bytes, hint_bytes, ..AbiOptions::default() };
        // SAFETY: the string and the struct are valid during the call.
        answered(|place| unsafe {
            forebay_participant_map(by(participant), name.as_ptr(), &raw const options, place)
        })
    };
    let towns = map(c"towns", 4096).unwrap();
    let mut stats = AbiStats { struct_bytes: size_of::<AbiStats>(), ..AbiStats::default() };
    // SAFETY: the struct can be written.
    assert_eq!(unsafe { forebay_map_stats(by(towns), &raw mut stats) }, Code::Ok);
    assert_eq!((stats.hint_bytes, scene.stats().hint_bytes), (4096, 0));
    assert_eq!(map(c"rivers", 64), Err(Code::Full));
    assert_eq!(last_message(), "the region has too few bytes left for a hint table of this size");
    forebay_map_close(closing(towns));
    forebay_participant_leave(closing(participant));
    forebay_region_close(closing(region));
}

#[test]
fn a_check_of_what_is_sound_counts_it() {
    let scene = Scene::open(1);
    (0..100).for_each(|key| scene.put(&key.to_string(), "value"));
    let struct_bytes = size_of::<AbiCheckReport>();
    let mut report = AbiCheckReport { struct_bytes, ..AbiCheckReport::default() };
    // SAFETY: the struct can be written.
    let code = unsafe { forebay_participant_check(by(scene.participant), &raw mut report) };
    assert_eq!(code, Code::Ok);
    assert_eq!((report.maps, report.entries, report.findings), (1, 100, 0));
    assert!(report.nodes > 1 && report.free_chunks > 0, "{report:?}");
    assert_eq!(answered(|swept| forebay_region_sweep(by(scene.region), swept)), Ok(0));
}
