//! Tests of reading without a pin, and through a read-only mapping.

use forebay_shm::{AreaSpec, BarrierWish, Region, RegionSpec};
use forebay_sync::atomic::Relaxed;

use super::*;
use crate::segment::state::word;

#[test]
fn a_copy_is_valid_only_if_the_generation_did_not_change() {
    let made = made(1);
    let mut open = made.claim(0).unwrap();
    let parts = Parts::sized(20, 3, 90, 700);
    let location = parts.append(&mut open, 1).unwrap();
    let outside = made.segments.unpinned();
    let state = made.table.word(word::STATE);
    let raise = || {
        state.fetch_add(1 << 32, Relaxed);
    };
    let copied = outside.copy(location, || true).unwrap();
    assert_eq!(Parts::of(&copied.record()), parts);
    assert_eq!(outside.copy(location, || false).err(), Some(CopyError::Gone), "the word is gone");
    let raised = outside.copy(location, || {
        raise();
        true
    });
    assert_eq!(raised.err(), Some(CopyError::Gone), "the segment was freed during the copy");
    assert!(outside.copy(location, || true).is_ok(), "a copy within the next generation is valid");
    made.flip(u64::from(location.0) * 512 + 40 * 8);
    assert_eq!(outside.copy(location, || true).err(), Some(CopyError::BadChecksum));
    state.store(u64::MAX, Relaxed);
    assert_eq!(outside.copy(location, || true).err(), Some(CopyError::Gone), "no such state");
    assert!(outside.walk(0).is_none() && outside.walk(1).is_none());
    let beyond = outside.copy(Location(1 << 10), || true);
    let why = HeaderError::NoRoom;
    let damage = RecordDamage { location: Location(1 << 10), why };
    assert_eq!(beyond.err(), Some(CopyError::Damaged(damage)), "there is no such location");
}

#[test]
fn a_read_only_tool_finds_the_records_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let geometry = Geometry::of(u64::from(SEGMENT_BYTES), 8).unwrap();
    let area = |kind, bytes| AreaSpec { kind, version: 1, bytes };
    let spec = RegionSpec {
        bytes: 1 << 20,
        participants_max: 2,
        barrier: BarrierWish::Fence,
        areas: &[area(17, 8 * 64), area(24, geometry.data_bytes())],
    };
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let region = Region::open_or_create(&path, &spec).unwrap();
    let areas = [17, 24].map(|kind| region.area(kind).unwrap());
    let [table, data] = areas;
    // SAFETY: the areas are new.
    let segments = unsafe { Segments::new(table, data, geometry, 2) }.unwrap();
    // SAFETY: one thread.
    let mut open = unsafe { segments.claim(1, SegmentQueue::Small, None) }.unwrap();
    let parts = Parts::sized(20, 3, 90, 7000);
    let location = open.append(&parts.new_record(1, &[&parts.body])).unwrap();
    // SAFETY: the segment is ours.
    let record = unsafe { segments.record(location) }.unwrap();
    assert_eq!(Parts::of(&record), parts);

    let reader = Region::attach_read_only(&path).unwrap();
    let [table, data] = [17, 24].map(|kind| reader.area(kind).unwrap());
    let outside = UnpinnedReader::new(&table, &data, geometry).unwrap();
    assert_eq!(outside.state(4).unwrap().owner, Some(1));
    let walked = outside.walk(4).unwrap();
    assert_eq!(walked.records.iter().map(|found| found.location).collect::<Vec<_>>(), [location]);
    assert_eq!(walked.damage, None);
    let copied = outside.copy(location, || true).unwrap();
    assert_eq!(Parts::of(&copied.record()), parts);
    assert_eq!(UnpinnedReader::new(&data, &table, geometry).err(), Some(TooFewWords));
}
