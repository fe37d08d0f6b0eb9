//! Tests of entries and walks, each with maps in a region of its own.

#![allow(unsafe_code)]

use forebay_ordmap::MapError;
use forebay_shm::{BarrierWish, Participant, Region, RegionSpec};

use super::*;
use crate::tags::RecordTags;

struct Scene {
    part: KeyIndexHandle,
    _order: KeyIndex,
    participant: Option<Participant>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // No test uses the handle after this, so no thread uses the participant's row any more.
        if let Some(participant) = self.participant.take() {
            participant.leave();
        }
    }
}

fn scene(records: u64) -> Scene {
    let config = config(records, 4);
    let areas = areas(&config).unwrap();
    let bytes = (1 << 20) + areas.iter().map(|area| area.bytes).sum::<u64>();
    let barrier = BarrierWish::Best;
    let region =
        Region::anonymous(&RegionSpec { bytes, participants_max: 4, barrier, areas: &areas });
    let region = region.unwrap();
    let order = KeyIndex::within(&region, &config, region.barrier()).unwrap();
    let participant = region.join().unwrap();
    // SAFETY: nothing uses the part after the participant has left.
    let part = unsafe { order.join(&participant) }.unwrap();
    Scene { part, _order: order, participant: Some(participant) }
}

fn insert_keys(part: &KeyIndexHandle, primary: &str, sequence: u64, tags: &[&str]) {
    let tags = RecordTags::new(tags.iter().map(|tag| tag.as_bytes())).unwrap();
    let (primary, tags) = (primary.as_bytes(), tags.as_bytes());
    part.insert_keys(&RecordKeys { primary, has_key: true, sequence, tags }).unwrap();
}

fn all(mut walk: KeyWalk, part: &KeyIndexHandle) -> Vec<String> {
    let next = || walk.next(part).unwrap();
    std::iter::from_fn(next).map(|key| String::from_utf8(key).unwrap()).collect()
}

#[test]
fn an_entry_holds_key_and_sequence() {
    for (primary, sequence) in [("", 0), ("a", 1), ("a\0b", 0x0102_0304_0506), ("x", (1 << 48) - 1)]
    {
        let entry = key_entry(primary.as_bytes(), sequence);
        assert_eq!(split_key_entry(&entry), Some((primary.as_bytes(), sequence)));
        let tags = RecordTags::new([&b"tag"[..]]).unwrap();
        let (primary, tags) = (primary.as_bytes(), tags.as_bytes());
        let ordered = RecordKeys { primary, has_key: false, sequence, tags };
        let entries: Vec<_> = ordered.tag_entries().collect();
        assert_eq!(entries.len(), 1);
        assert_eq!(split_tag_entry(&entries[0]), Some((primary, sequence)));
    }
    for other in [&b""[..], b"short", b"\x01234567", b"tag\0short"] {
        assert_eq!(split_key_entry(other), None, "{other:?}");
        assert_eq!(split_tag_entry(other), None, "{other:?}");
    }
}

#[test]
fn entries_are_ordered_by_key_and_then_by_sequence() {
    let entries: Vec<_> = [("a", 1), ("a", 255), ("a", 256), ("a!", 2), ("ab", 3)]
        .map(|(primary, sequence)| key_entry(primary.as_bytes(), sequence))
        .into();
    assert!(entries.is_sorted());
}

#[test]
fn a_walk_returns_each_key_once_and_in_order() {
    let scene = scene(10_000);
    for number in 0..300 {
        insert_keys(&scene.part, &format!("k{number:03}"), number + 1, &[]);
        insert_keys(&scene.part, &format!("k{number:03}"), number + 1000, &[]);
    }
    insert_keys(&scene.part, "j", 5, &[]);
    let keys = |range: std::ops::Range<u32>| -> Vec<_> {
        range.map(|number| format!("k{number:03}")).collect()
    };
    let over = |within: &str, after: Option<&str>| {
        all(KeyWalk::over_keys(within.as_bytes(), after.map(str::as_bytes)), &scene.part)
    };
    assert_eq!(over("k", None), keys(0..300));
    assert_eq!(over("k1", None), keys(100..200));
    assert_eq!(over("k", Some("k122")), keys(123..300));
    assert_eq!(over("k1", Some("a")), keys(100..200), "before all of them");
    assert_eq!(over("k1", Some("k3")), keys(0..0), "behind all of them");
    assert_eq!(over("", None).len(), 301);
    assert_eq!(over("x", None), keys(0..0));
}

#[test]
fn a_walk_over_tags_returns_the_keys_with_one_of_them_in_order() {
    let scene = scene(10_000);
    for number in 0..200 {
        let tags: &[_] = match number % 4 {
            0 => &["a"],
            1 => &["b"],
            2 => &["a", "b"],
            _ => &["ab"],
        };
        insert_keys(&scene.part, &format!("k{number:03}"), number + 1, tags);
    }
    let over = |tags: &[&str], within: &str, after: Option<&str>| {
        let tags = tags.iter().map(|tag| tag.as_bytes());
        all(KeyWalk::over_tags(tags, within.as_bytes(), after.map(str::as_bytes)), &scene.part)
    };
    let expected = |wanted: fn(u32) -> bool| -> Vec<_> {
        (0..200).filter(|n| wanted(*n)).map(|number| format!("k{number:03}")).collect()
    };
    assert_eq!(over(&["a"], "", None), expected(|n| n % 4 == 0 || n % 4 == 2));
    assert_eq!(over(&["a", "b"], "", None), expected(|n| n % 4 != 3));
    assert_eq!(over(&["a", "b"], "k1", None), expected(|n| n % 4 != 3 && n >= 100));
    assert_eq!(over(&["a", "b"], "", Some("k150")), expected(|n| n % 4 != 3 && n > 150));
    assert_eq!(over(&["c"], "", None), expected(|_| false));
    assert_eq!(over(&[], "", None), expected(|_| false));
}

#[test]
fn removed_keys_are_in_no_map_and_a_full_map_says_so() {
    let scene = scene(100);
    let tags = RecordTags::new([&b"a"[..], b"b"]).unwrap();
    let key = |number: u64| format!("a key of some length, so that there is an end {number}");
    let mut entered = Vec::new();
    let refused = (1..100_000).find_map(|sequence| {
        let (primary, tags) = (key(sequence), tags.as_bytes());
        let ordered = RecordKeys { primary: primary.as_bytes(), has_key: true, sequence, tags };
        entered.push(sequence);
        scene.part.insert_keys(&ordered).err()
    });
    assert_eq!(refused, Some(MapError::Full));
    assert!(entered.len() > 100, "{} records were inserted", entered.len());
    for sequence in entered {
        let (primary, tags) = (key(sequence), tags.as_bytes());
        let ordered = RecordKeys { primary: primary.as_bytes(), has_key: true, sequence, tags };
        scene.part.remove_keys(&[ordered]).unwrap();
    }
    for which in [KeyMap::Keys, KeyMap::Tags] {
        assert_eq!(scene.part.entries_behind(which, b"", 10).unwrap(), Vec::<Vec<u8>>::new());
    }
    assert!(scene.part.check().unwrap().is_sound());
}
