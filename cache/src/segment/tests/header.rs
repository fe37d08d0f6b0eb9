//! Tests of encoding and decoding headers and marks.

use super::*;

fn header() -> RecordHeader {
    RecordHeader {
        sequence: 0x1234_5678_9abc,
        kind: HeaderKind::Base,
        key_bytes: 0x1112,
        tags_bytes: 0x2122,
        head_bytes: 0x3132,
        body_bytes: 0x0041_4243,
        purge_noted: 0x5152_5354,
        response_time: 0x6162_6364,
        checksum: 0x7172_7374,
    }
}

/// A header with one field changed.
fn with(change: impl FnOnce(&mut RecordHeader)) -> RecordHeader {
    let mut changed = header();
    change(&mut changed);
    changed
}

fn filler(change: impl FnOnce(&mut RecordHeader)) -> RecordHeader {
    let mut changed = RecordHeader::filler();
    change(&mut changed);
    changed
}

const ROOM: u32 = 8 * 1024 * 1024;

#[test]
fn each_header_field_has_its_documented_bytes() {
    let bytes: Vec<u8> = header().encode().iter().flat_map(|word| word.to_le_bytes()).collect();
    #[rustfmt::skip]
    let expected = [
        0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 4, 0,
        0x12, 0x11, 0x32, 0x31, 0x43, 0x42, 0x41, 0,
        0x54, 0x53, 0x52, 0x51, 0x74, 0x73, 0x72, 0x71,
        0x64, 0x63, 0x62, 0x61, 0x22, 0x21, 0, 0,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(bytes.len() + 8, HEADER_BYTES as usize);
}

#[test]
fn an_encoded_header_decodes_to_itself() {
    let kinds = [HeaderKind::Whole, HeaderKind::LongHead, HeaderKind::Fragment, HeaderKind::Base];
    let mut cases: Vec<RecordHeader> =
        kinds.map(|kind| with(|header| header.kind = kind)).into_iter().collect();
    cases.extend([
        header(),
        RecordHeader::filler(),
        with(|header| header.sequence = 1),
        with(|header| header.sequence = SEQUENCE_MAX),
        with(|header| (header.key_bytes, header.tags_bytes) = (u16::MAX, 0)),
        with(|header| (header.head_bytes, header.body_bytes) = (0, 0)),
    ]);
    for case in cases {
        assert_eq!(RecordHeader::decode(case.encode(), ROOM), Ok(case), "{case:?}");
    }
}

#[test]
fn an_invalid_header_is_refused() {
    let words = |header: RecordHeader| header.encode();
    let set = |number: usize, bits: u64| {
        let mut words = header().encode();
        words[number] |= bits;
        words
    };
    let cases = [
        ("zeros", [0; 4], ROOM, HeaderError::Kind),
        ("ones", [u64::MAX; 4], ROOM, HeaderError::Kind),
        ("no such kind", set(0, 3 << 48), ROOM, HeaderError::Kind),
        ("a flag", set(0, 1 << 52), ROOM, HeaderError::Spare),
        ("the last flag", set(0, 1 << 63), ROOM, HeaderError::Spare),
        ("spare bits", set(3, 1 << 48), ROOM, HeaderError::Spare),
        ("the last spare bit", set(3, 1 << 63), ROOM, HeaderError::Spare),
        ("no sequence", words(with(|header| header.sequence = 0)), ROOM, HeaderError::Sequence),
        ("a filler's", words(filler(|header| header.sequence = 1)), ROOM, HeaderError::Sequence),
        ("no key", words(with(|header| header.key_bytes = 0)), ROOM, HeaderError::Length),
        ("a filler's key", words(filler(|it| it.key_bytes = 1)), ROOM, HeaderError::Length),
        ("a filler's body", words(filler(|it| it.body_bytes = 1)), ROOM, HeaderError::Length),
        ("no room at all", words(header()), 0, HeaderError::NoRoom),
        ("no room for a filler", words(RecordHeader::filler()), 39, HeaderError::NoRoom),
        ("the body too long", words(header()), 0x0041_4243, HeaderError::TooLong),
        (
            "the longest of all",
            words(with(|header| header.body_bytes = u32::MAX)),
            ROOM,
            HeaderError::TooLong,
        ),
    ];
    for (case, words, room_bytes, expected) in cases {
        assert_eq!(RecordHeader::decode(words, room_bytes), Err(expected), "{case}");
    }
}

#[test]
fn a_record_is_rounded_up_to_whole_units() {
    for (payload, record_bytes) in [(1, 64), (24, 64), (25, 128), (88, 128), (89, 192)] {
        let case = with(|header| {
            (header.key_bytes, header.tags_bytes, header.head_bytes) = (1, 0, 0);
            header.body_bytes = payload - 1;
        });
        assert_eq!(case.record_bytes(), u64::from(record_bytes), "{payload} bytes");
        assert_eq!(case.check(record_bytes), Ok(()), "{payload} bytes");
        assert_eq!(case.check(record_bytes - 1), Err(HeaderError::TooLong), "{payload} bytes");
    }
}

#[test]
fn every_bit_outside_the_checksum_changes_it() {
    use crate::segment::header::RecordChecksum;
    let before = RecordChecksum::of(&header()).value();
    for bit in (0..256).filter(|bit| !(160..192).contains(bit)) {
        let mut words = header().encode();
        words[bit / 64] ^= 1 << (bit % 64);
        if let Ok(changed) = RecordHeader::decode(words, ROOM) {
            assert_ne!(RecordChecksum::of(&changed).value(), before, "bit {bit}");
        }
    }
    let same = with(|header| header.checksum = 0);
    assert_eq!(RecordChecksum::of(&same).value(), before);
}

#[test]
fn marks_hold_time_soft_and_frozen_independently() {
    let made = made(1);
    let mut open = made.claim(0).unwrap();
    let location = Parts::sized(1, 0, 0, 0).append(&mut open, 1).unwrap();
    let word = made.marks(location);
    let seen =
        |marks: RecordMarks| (marks.stale_from_seconds(), marks.is_soft(), marks.is_frozen());
    assert_eq!(seen(word.load()), (1_700_000_600, false, false), "as written");
    assert_eq!(word.mark_soft(), Ok(()));
    assert_eq!(word.mark_soft(), Ok(()), "marked twice");
    assert_eq!(seen(word.load()), (1_700_000_600, true, false), "soft");
    assert_eq!(seen(word.freeze().marks()), (1_700_000_600, true, false), "as the copy gets them");
    assert_eq!(seen(word.load()), (1_700_000_600, true, true), "frozen");
    assert_eq!(word.mark_soft(), Err(AlreadyFrozen));
    assert_eq!(seen(word.freeze().marks()), (1_700_000_600, true, false), "frozen twice");
    assert!(!word.load().is_damaged());
}

#[test]
fn unused_bits_of_marks_are_damage() {
    let far = RecordMarks::stale_from(u64::MAX);
    assert_eq!(far.stale_from_seconds(), (1 << 40) - 1);
    let cases = [(0, false), ((1 << 42) - 1, false), (1 << 42, true), (u64::MAX, true)];
    for (word, is_damaged) in cases {
        assert_eq!(RecordMarks::of(word).is_damaged(), is_damaged, "{word:x}");
    }
    assert!(!far.is_soft() && !far.is_frozen() && !far.is_damaged());
}
