//! Values that are stored, compared, read and copied.

use std::ffi::CStr;
use std::ptr::null;

use forebay_capi::*;

use crate::scene::{
    OutPlace, Scene, answered, by, by_mut, bytes, closing, config, last_message, take, text,
};

#[test]
fn changes_with_a_condition_are_done_if_it_holds() {
    let scene = Scene::open(1);
    let map = || by(scene.map);
    let (key, one, two) = (bytes(b"key"), bytes(b"1"), bytes(b"2"));
    // SAFETY: the bytes are valid in all calls below.
    unsafe {
        assert_eq!(forebay_map_put_if_value(map(), key, one, two), Code::Differs);
        assert_eq!(forebay_map_remove_if_value(map(), key, one), Code::Differs);
        assert_eq!(forebay_map_put_if_absent(map(), key, one), Code::Ok);
        assert_eq!(forebay_map_put_if_absent(map(), key, one), Code::Differs);
        assert_eq!(forebay_map_put_if_value(map(), key, two, one), Code::Differs);
        assert_eq!(forebay_map_put_if_value(map(), key, one, two), Code::Ok);
        assert_eq!(forebay_map_contains(map(), key), Code::Ok);
        assert_eq!(answered(|was| forebay_map_put(map(), key, two, was)), Ok(1));
        let entry = scene.entry("key").unwrap();
        assert_eq!(answered(|was| forebay_map_put(map(), key, two, was)), Ok(1));
        assert_eq!(forebay_map_remove_if_same(map(), by(entry)), Code::Differs);
        forebay_entry_release(closing(entry));
        assert_eq!(forebay_map_remove_if_value(map(), key, one), Code::Differs);
        assert_eq!(forebay_map_remove_if_value(map(), key, two), Code::Ok);
        assert_eq!(forebay_map_contains(map(), key), Code::Absent);
        assert_eq!(forebay_map_remove(map(), key), Code::Absent);
        assert_eq!(answered(|was| forebay_map_put(map(), key, two, was)), Ok(0));
        assert_eq!(forebay_map_remove(map(), key), Code::Ok);
    }
}

#[test]
fn values_are_copied_where_there_is_room() {
    let scene = Scene::open(1);
    scene.put("key", "value");
    scene.put("empty", "");
    let read = |key: &str, room: &mut [u8]| {
        let (place, bytes_max) = (room.as_mut_ptr(), room.len());
        let mut len = std::mem::MaybeUninit::new(99);
        let key = bytes(key.as_bytes());
        // SAFETY: the bytes and the buffer are valid during the call.
        let code =
            unsafe { forebay_map_read(by(scene.map), key, place, bytes_max, Some(&mut len)) };
        // SAFETY: the length was initialised.
        (code, unsafe { len.assume_init() })
    };
    let mut room = *b"........";
    assert_eq!(read("key", &mut room[..4]), (Code::Buffer, 5));
    assert_eq!(&room, b"........");
    assert_eq!(read("key", &mut room[..5]), (Code::Ok, 5));
    assert_eq!(&room, b"value...");
    assert_eq!(read("none", &mut room), (Code::Absent, 99));
    assert_eq!(read("empty", &mut []), (Code::Ok, 0));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let scene = Scene::open(1);
    let long = vec![b'x'; (1 << 20) + 1];
    let at = |data: *const u8, len: usize| AbiBytes { data, len };
    let cases = [
        (at(null(), 1), bytes(b""), Code::Null, "key is null"),
        (bytes(b""), at(null(), 1), Code::Null, "value is null"),
        (
            at(long.as_ptr(), usize::MAX),
            bytes(b""),
            Code::Argument,
            "key has an impossible length of 18446744073709551615 bytes",
        ),
        (bytes(&long[..8193]), bytes(b""), Code::KeyTooLong, "the key is longer than 8192 bytes"),
        (bytes(b""), bytes(&long), Code::ValueTooLong, "the value is longer than 1048576 bytes"),
        (at(null(), 0), at(null(), 0), Code::Ok, ""),
    ];
    for (key, value, code, message) in cases {
        // SAFETY: the bytes are valid, or are refused before they are read.
        let found = unsafe { forebay_map_put(by(scene.map), key, value, None) };
        assert_eq!(found, code, "{message}");
        assert!(code == Code::Ok || last_message().starts_with(message), "{}", last_message());
    }
}

#[test]
fn ranges_have_the_ends_that_they_are_given() {
    let scene = Scene::open(1);
    ["a", "b", "ba", "c"].iter().for_each(|key| scene.put(key, ""));
    let bound =
        |kind: BoundKind, key: &'static [u8]| Some(AbiBound { kind: kind as i32, key: bytes(key) });
    let (included, excluded) = (BoundKind::Included, BoundKind::Excluded);
    let no_key = AbiBytes { data: null(), len: 9 };
    let cases = [
        (None, None, "a b ba c"),
        (bound(included, b"b"), None, "b ba c"),
        (bound(excluded, b"b"), bound(included, b"c"), "ba c"),
        (bound(included, b"a"), bound(excluded, b"c"), "a b ba"),
        (Some(AbiBound { kind: 0, key: no_key }), bound(included, b"aa"), "a"),
        (bound(included, b"c"), bound(excluded, b"b"), ""),
    ];
    for (low, high, expected) in cases {
        let (low, high) = (low.as_ref(), high.as_ref());
        // SAFETY: the keys are valid during the call.
        let range =
            |place: OutPlace<'_, _>| unsafe { forebay_map_range(by(scene.map), low, high, place) };
        let (up, down) = (answered(range).unwrap(), answered(range).unwrap());
        let found = [
            keys(|place| forebay_range_next(by_mut(up), place)),
            reversed(keys(|place| forebay_range_previous(by_mut(down), place))),
        ];
        assert_eq!(found, [expected, expected]);
        forebay_range_close(closing(up));
        forebay_range_close(closing(down));
        // SAFETY: as above.
        let scan =
            |place: OutPlace<'_, _>| unsafe { forebay_map_scan(by(scene.map), low, high, place) };
        let (up, down) = (answered(scan).unwrap(), answered(scan).unwrap());
        let found = [
            keys(|place| forebay_scan_next(by_mut(up), place)),
            reversed(keys(|place| forebay_scan_previous(by_mut(down), place))),
        ];
        assert_eq!(found, [expected, expected], "copied");
        forebay_scan_close(closing(up));
        forebay_scan_close(closing(down));
        // SAFETY: as above.
        let count = |place: OutPlace<'_, _>| unsafe {
            forebay_map_estimate(by(scene.map), low, high, place)
        };
        assert_eq!(answered(count), Ok(expected.split_whitespace().count() as u64), "{expected}");
    }
    let odd = AbiBound { kind: 3, key: bytes(b"") };
    // SAFETY: the key is valid during the call.
    let open = |place: OutPlace<'_, _>| unsafe {
        forebay_map_range(by(scene.map), Some(&odd), None, place)
    };
    assert_eq!(answered(open).unwrap_err(), Code::Argument);
    assert_eq!(last_message(), "low: 3 is not a kind of bound; it must be 0, 1 or 2");
}

/// Returns the keys of all items up to the end.
fn keys(mut next: impl FnMut(OutPlace<'_, AbiItem>) -> Code) -> String {
    let shown = || Some(text(answered(&mut next).ok()?.key));
    std::iter::from_fn(shown).collect::<Vec<_>>().join(" ")
}

fn reversed(keys: String) -> String {
    keys.split(' ').rev().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_scan_copies_and_takes_no_lease() {
    let scene = Scene::open(1);
    ["a1", "a2", "b"].iter().for_each(|key| scene.put(key, "old"));
    let held: Vec<_> = std::iter::from_fn(|| scene.entry("b").ok()).collect();
    // SAFETY: the bytes are valid during the call.
    let open = |place: OutPlace<'_, _>| unsafe {
        forebay_map_scan_prefix(by(scene.map), bytes(b"a"), place)
    };
    let scan = answered(open).unwrap();
    let next = || answered(|place| forebay_scan_next(by_mut(scan), place));
    let item = next().unwrap();
    scene.put("a1", "new");
    scene.put("a2", "new");
    assert_eq!((text(item.key), text(item.value)), ("a1".into(), "old".into()));
    let item = next().unwrap();
    assert_eq!((text(item.key), text(item.value)), ("a2".into(), "new".into()));
    assert_eq!(next().unwrap_err(), Code::Absent);
    forebay_scan_close(closing(scan));
    held.into_iter().for_each(|entry| _ = forebay_entry_release(closing(entry)));
}

#[test]
fn regions_are_made_found_and_replaced() {
    let mut scene = Scene::open(3);
    let path = scene.path();
    let how = |region| answered(|place| forebay_region_opened(by(region), place)).unwrap();
    assert_eq!(how(scene.region), OpenedHow::Created);
    scene.put("key", "value");
    // SAFETY: the string is valid during the call.
    let found = answered(|place| unsafe { forebay_region_attach(path.as_ptr(), place) }).unwrap();
    assert_eq!(how(found), OpenedHow::Attached);
    let participant = answered(|place| forebay_participant_join(by(found), place)).unwrap();
    let mut names = Vec::new();
    let mut room = [0; 65];
    // SAFETY: the buffer can be written.
    while unsafe {
        forebay_participant_map_name(by(participant), names.len(), room.as_mut_ptr(), 65)
    } == Code::Ok
    {
        // SAFETY: a NUL follows the name.
        names.push(unsafe { CStr::from_ptr(room.as_ptr()) }.to_owned());
    }
    assert_eq!(names, [c"map".to_owned()]);
    // SAFETY: the strings are valid during the calls.
    let other = |name: &CStr| unsafe {
        answered(|place| forebay_participant_existing_map(by(participant), name.as_ptr(), place))
            .unwrap_err()
    };
    assert_eq!(other(c"another"), Code::NoMap);
    assert_eq!(other(c"\xff"), Code::Name);
    assert_eq!(other(c""), Code::Name);
    // SAFETY: the buffer can be written.
    let code = unsafe { forebay_participant_map_name(by(participant), 0, room.as_mut_ptr(), 3) };
    assert_eq!(code, Code::Buffer);
    forebay_participant_leave(closing(participant));
    forebay_region_close(closing(found));
    let config = config(9);
    // SAFETY: the string and the struct are valid during the call.
    let open =
        |place: OutPlace<'_, _>| unsafe { forebay_region_open(path.as_ptr(), &config, place) };
    assert_eq!(answered(open).unwrap_err(), Code::InUse);
    forebay_map_close(take(&mut scene.map));
    forebay_participant_leave(take(&mut scene.participant));
    let replaced = answered(open).unwrap();
    assert_eq!(how(replaced), OpenedHow::Replaced);
    forebay_region_close(closing(replaced));
}
