//! Appending records and reading them back.

use forebay_sync::atomic::Relaxed;

use super::*;

#[test]
fn an_appended_record_can_be_read() {
    let cases = [
        ("the least", Parts::sized(1, 0, 0, 0)),
        ("a word", Parts::sized(8, 8, 8, 8)),
        ("to the end of a unit", Parts::sized(24, 0, 0, 0)),
        ("one more", Parts::sized(25, 0, 0, 0)),
        ("odd lengths", Parts::sized(3, 5, 7, 11)),
        ("no head", Parts::sized(3, 0, 0, 100)),
        ("no body", Parts::sized(60, 13, 300, 0)),
        ("a long key", Parts::sized(30_000, 1, 1, 1)),
        ("a long body", Parts::sized(60, 0, 300, 30_001)),
    ];
    for (case, parts) in &cases {
        let made = made(1);
        // Old bytes of the segment must not show.
        (0..1 << 13).for_each(|word| made.data.word(word).store(u64::MAX, Relaxed));
        let mut open = made.claim(0).unwrap();
        let first = parts.append(&mut open, 41).unwrap();
        let second = parts.append(&mut open, 42).unwrap();
        for (location, sequence) in [(first, 41), (second, 42)] {
            let record = made.record(location).unwrap();
            assert_eq!(Parts::of(&record), *parts, "{case}");
            assert!(record.has_valid_checksum(), "{case}");
            let header = record.header;
            assert_eq!((header.sequence, header.kind), (sequence, HeaderKind::Whole), "{case}");
            assert_eq!((header.purge_noted, header.response_time), (7, 1_700_000_000), "{case}");
            assert_eq!(record.marks.stale_from_seconds(), 1_700_000_600, "{case}");
        }
        assert_eq!(open.filled_bytes() / 64, 2 * second.0, "{case}: units");
        assert_zeros_behind(&made, first, case);
    }
}

fn assert_zeros_behind(made: &Made, location: Location, case: &str) {
    let header = made.record(location).unwrap().header;
    let bytes: Vec<u8> = (0..header.record_bytes() as usize / 8)
        .flat_map(|word| made.data.word(location.0 as usize * 8 + word).load(Relaxed).to_le_bytes())
        .collect();
    let written = HEADER_BYTES as usize + header.payload_bytes() as usize;
    assert!(bytes[written..].iter().all(|byte| *byte == 0), "{case}: not zero behind it");
}

#[test]
fn a_body_may_arrive_in_pieces() {
    let body: Vec<u8> = (0..100).collect();
    let cuts: [&[usize]; 6] = [&[], &[0], &[1], &[7, 8], &[1, 2, 3, 50, 50, 99], &[100]];
    for cut in cuts {
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut start = 0;
        for &end in cut.iter().chain([&body.len()]) {
            pieces.push(&body[start..end]);
            start = end;
        }
        let made = made(1);
        let mut open = made.claim(0).unwrap();
        let parts = Parts { key: b"key".to_vec(), ..Parts::default() };
        let location = open.append(&parts.new_record(1, &pieces)).unwrap();
        let record = made.record(location).unwrap();
        assert!(record.has_valid_checksum() && record.body() == body, "cut at {cut:?}");
    }
}

#[test]
fn a_refused_record_changes_nothing() {
    let full = SEGMENT_BYTES as usize - HEADER_BYTES as usize;
    let impossible = AppendError::Impossible;
    let cases = [
        ("no key", 1, Parts::sized(0, 0, 0, 1), impossible(HeaderError::Length)),
        ("no sequence", 0, Parts::sized(1, 0, 0, 1), impossible(HeaderError::Sequence)),
        (
            "a sequence too high",
            1 << 48,
            Parts::sized(1, 0, 0, 1),
            impossible(HeaderError::Sequence),
        ),
        ("a key too long", 1, Parts::sized(65536, 0, 0, 1), impossible(HeaderError::TooLong)),
        ("tags too long", 1, Parts::sized(1, 65536, 0, 1), impossible(HeaderError::TooLong)),
        ("a head too long", 1, Parts::sized(1, 0, 65536, 1), impossible(HeaderError::TooLong)),
        ("longer than a segment", 1, Parts::sized(1, 0, 0, full), impossible(HeaderError::TooLong)),
        ("longer than the rest", 1, Parts::sized(1, 0, 0, full - 1), AppendError::Full),
    ];
    let made = made(1);
    let mut open = made.claim(0).unwrap();
    let location = Parts::sized(9, 0, 0, 0).append(&mut open, 1).unwrap();
    let before: Vec<u64> = made.data.iter().map(|word| word.load(Relaxed)).collect();
    for (case, sequence, parts, expected) in cases {
        assert_eq!(parts.append(&mut open, sequence), Err(expected), "{case}");
        assert_eq!(open.filled_bytes(), 64, "{case}");
        let now: Vec<u64> = made.data.iter().map(|word| word.load(Relaxed)).collect();
        assert!(now == before, "{case}: something was written");
    }
    assert!(made.record(location).unwrap().has_valid_checksum());
    let nothing = Parts::default();
    let filler = NewRecord { kind: HeaderKind::Filler, ..nothing.new_record(0, &[]) };
    assert_eq!(open.append(&filler), Err(AppendError::Impossible(HeaderError::Kind)));
}

#[test]
fn a_segment_can_be_filled_to_its_last_byte() {
    let full = SEGMENT_BYTES as usize - HEADER_BYTES as usize;
    for (rest, fillers) in [(0, 0), (63, 0), (64, 1), (128, 2)] {
        let made = made(2);
        let mut open = made.claim(0).unwrap();
        let parts = Parts::sized(1, 0, 0, full - 1 - rest);
        let location = parts.append(&mut open, 1).unwrap();
        assert_eq!(open.room_bytes(), fillers * 64, "{rest} bytes left");
        seal(open, 1);
        let found: Vec<Location> =
            made.scan(0).into_iter().map(|found| found.unwrap().location).collect();
        assert_eq!(found, [location], "{rest} bytes left");
        assert_eq!(made.segments.table().filled_bytes(0), u64::from(SEGMENT_BYTES));
        assert_eq!(made.data.word(1 << 13).load(Relaxed), 0, "the next segment is not touched");
    }
}

#[test]
fn a_copy_equals_its_record_and_has_the_frozen_marks() {
    let made = made(2);
    let (mut from, mut to) = (made.claim(0).unwrap(), made.claim(2).unwrap());
    Parts::sized(5, 0, 0, 0).append(&mut to, 3).unwrap();
    let parts = Parts::sized(33, 10, 200, 3000);
    let old = parts.append(&mut from, 9).unwrap();
    made.marks(old).mark_soft().unwrap();
    let record = made.record(old).unwrap();
    let frozen = made.marks(old).freeze();
    let copy = to.append_copy(&record, frozen).unwrap();
    let copied = made.record(copy).unwrap();
    assert_eq!(Parts::of(&copied), parts);
    assert_eq!(copied.header, record.header);
    assert!(copied.has_valid_checksum());
    assert!(copied.marks.is_soft() && !copied.marks.is_frozen());
    while to.append_copy(&record, frozen).is_ok() {}
    assert_eq!(to.append_copy(&record, frozen), Err(AppendError::Full));
    assert_eq!(to.append_copy(&record, frozen).unwrap_err().to_string(), "the segment is full");
}

#[test]
fn a_segment_expires_with_its_last_record() {
    let made = made(1);
    let mut open = made.claim(0).unwrap();
    let parts = Parts::sized(9, 0, 0, 0);
    for seconds in [5, 900, 30] {
        let marks = RecordMarks::stale_from(seconds);
        open.append(&NewRecord { marks, ..parts.new_record(1, &[]) }).unwrap();
    }
    // Two checkers find the time, too, even if the first one dies.
    for row in [0, 1] {
        // SAFETY: as if the owners had ended.
        unsafe { made.segments.suspect(0, row) }.unwrap();
        // SAFETY: one thread.
        open = unsafe { made.segments.adopt(0, row + 1) }.unwrap();
    }
    assert_eq!(open.filled_bytes(), 3 * 64);
    seal(open, 8);
    assert_eq!(made.segments.table().expires(0), 900);
    assert_eq!(made.scan(0).len(), 3);
}

#[test]
fn bytes_behind_damage_are_not_overwritten() {
    let made = made(1);
    let mut open = made.claim(0).unwrap();
    let parts = Parts::sized(9, 0, 0, 0);
    let locations = [1, 2, 3].map(|sequence| parts.append(&mut open, sequence).unwrap());
    made.flip(u64::from(locations[1].0) * 512 + 64 + 48);
    // SAFETY: as if the owner had ended.
    unsafe { made.segments.suspect(0, 0) }.unwrap();
    // SAFETY: one thread.
    let adopted = unsafe { made.segments.adopt(0, 1) }.unwrap();
    assert_eq!(adopted.room_bytes(), 0);
    seal(adopted, 1);
    assert!(made.record(locations[2]).unwrap().has_valid_checksum());
}
