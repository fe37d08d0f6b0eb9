//! Ownership of handles, and the lifetime of items.

use forebay_capi::*;

use crate::scene::{
    OutPlace, Scene, answered, by, by_mut, bytes, closing, last_message, take, text,
};

fn item_of(entry: *mut EntryHandle) -> (String, String) {
    let item = answered(|place| forebay_entry_item(by(entry), place)).unwrap();
    (text(item.key), text(item.value))
}

#[test]
fn an_entry_stays_what_it_was_until_it_is_released() {
    let scene = Scene::open(2);
    scene.put("key", "old");
    let entry = scene.entry("key").unwrap();
    let shown = answered(|place| forebay_entry_item(by(entry), place)).unwrap();
    scene.put("key", "new");
    assert_eq!(answered(|freed| forebay_map_reclaim(by(scene.map), freed)), Ok(0));
    assert_eq!((text(shown.value), shown.value.data.align_offset(8)), ("old".into(), 0));
    assert_eq!(scene.stats().waiting_count, 1);
    assert_eq!(forebay_entry_release(closing(entry)), Code::Ok);
    assert_eq!(answered(|freed| forebay_map_reclaim(by(scene.map), freed)), Ok(1));
    assert_eq!(scene.stats().waiting_count, 0);
}

#[test]
fn handles_are_closed_in_any_order() {
    let mut scene = Scene::open(1);
    scene.put("key", "value");
    let entry = scene.entry("key").unwrap();
    let cursor = scene.cursor();
    let join = |scene: &Scene| answered(|place| forebay_participant_join(by(scene.region), place));
    assert_eq!(join(&scene).unwrap_err(), Code::ParticipantsFull);
    forebay_participant_leave(take(&mut scene.participant));
    forebay_map_close(take(&mut scene.map));
    assert_eq!(
        join(&scene).unwrap_err(),
        Code::ParticipantsFull,
        "the cursor still keeps its participant"
    );
    let item = answered(|place| forebay_cursor_next(by_mut(cursor), place)).unwrap();
    assert_eq!(text(item.value), "value");
    forebay_cursor_close(closing(cursor));
    assert_eq!(item_of(entry), ("key".into(), "value".into()));
    forebay_entry_release(closing(entry));
    let participant = join(&scene).unwrap();
    forebay_region_close(take(&mut scene.region));
    // SAFETY: the string is valid during the call.
    let map = answered(|place| unsafe {
        forebay_participant_existing_map(by(participant), c"map".as_ptr(), place)
    });
    assert_eq!(answered(|place| forebay_map_len(by(map.unwrap()), place)), Ok(1));
    forebay_map_close(closing(map.unwrap()));
    forebay_participant_leave(closing(participant));
}

#[test]
fn a_cursor_gives_its_entry_away() {
    let scene = Scene::open(1);
    scene.put("key", "old");
    let cursor = scene.cursor();
    // The cursor is not at an entry, but the call still closes it.
    assert_eq!(
        answered(|place| forebay_cursor_into_entry(closing(cursor), place)).unwrap_err(),
        Code::Absent
    );
    let cursor = scene.cursor();
    let item = answered(|place| forebay_cursor_first(by_mut(cursor), place)).unwrap();
    assert_eq!(
        forebay_cursor_into_entry(closing(cursor), None),
        Code::Null,
        "the cursor stays open"
    );
    let entry = answered(|place| forebay_cursor_into_entry(closing(cursor), place)).unwrap();
    scene.put("key", "new");
    assert_eq!(answered(|freed| forebay_map_reclaim(by(scene.map), freed)), Ok(0));
    assert_eq!(text(item.value), "old");
    assert_eq!(item_of(entry), ("key".into(), "old".into()));
    forebay_entry_release(closing(entry));
}

#[test]
fn a_call_without_a_free_lease_fails() {
    let scene = Scene::open(1);
    scene.put("key", "value");
    let held: Vec<_> = std::iter::from_fn(|| scene.entry("key").ok()).take(100).collect();
    assert_eq!(held.len(), 16);
    assert_eq!(scene.entry("key").unwrap_err(), Code::Leases);
    assert_eq!(last_message(), "all leases of the participant are in use; drop an entry");
    let mut held = held.into_iter();
    forebay_entry_release(held.next().and_then(closing));
    let entry = scene.entry("key").unwrap();
    held.chain([entry]).for_each(|entry| {
        forebay_entry_release(closing(entry));
    });
}

#[test]
fn a_key_that_the_cursor_shows_may_be_the_one_to_go_to() {
    let scene = Scene::open(1);
    ["a", "b", "c"].iter().for_each(|key| scene.put(key, ""));
    let cursor = scene.cursor();
    let mut item = answered(|place| forebay_cursor_first(by_mut(cursor), place)).unwrap();
    let mut keys = vec![text(item.key)];
    loop {
        // SAFETY: the cursor holds the key until it has moved on.
        let above = |place: OutPlace<'_, _>| unsafe {
            forebay_cursor_above(by_mut(cursor), item.key, place)
        };
        let Ok(next) = answered(above) else { break };
        keys.push(text(next.key));
        item = next;
    }
    assert_eq!(keys, ["a", "b", "c"]);
    assert_eq!(forebay_cursor_item(by(cursor), None), Code::Absent);
    forebay_cursor_close(closing(cursor));
}

#[test]
fn entries_of_other_regions_are_no_expectation() {
    let (scene, other) = (Scene::open(1), Scene::open(1));
    scene.put("key", "value");
    other.put("key", "value");
    let (ours, theirs) = (scene.entry("key").unwrap(), other.entry("key").unwrap());
    // SAFETY: the bytes are valid during the call.
    let put = |entry| unsafe { forebay_map_put_if_same(by(scene.map), by(entry), bytes(b"x")) };
    // Both entries lie at the same location in their regions.
    assert_eq!(put(theirs), Code::Differs);
    assert_eq!(forebay_map_remove_if_same(by(scene.map), by(theirs)), Code::Differs);
    assert_eq!(forebay_entry_is_same(by(ours), by(theirs)), Code::Differs);
    assert_eq!(forebay_entry_is_same(by(ours), by(ours)), Code::Ok);
    assert_eq!(put(ours), Code::Ok);
    assert_eq!(put(ours), Code::Differs);
    forebay_entry_release(closing(ours));
    forebay_entry_release(closing(theirs));
}
