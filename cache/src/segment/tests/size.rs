//! Tests of the division of memory into segments.

use super::*;
use crate::segment::size::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

#[test]
fn segments_are_a_sixty_fourth_of_each_participants_share() {
    let cases = [
        // Bytes, participants, bytes of a segment, segments.
        (4 * MIB, 1, 64 * KIB, 64),
        (8 * MIB, 1, 128 * KIB, 64),
        (12 * MIB, 1, 128 * KIB, 96),
        (4 * MIB + 64 * KIB - 1, 1, 64 * KIB, 64),
        (512 * KIB, 1, 64 * KIB, 8),
        (64 * MIB, 4, 256 * KIB, 256),
        (GIB, 4, 4 * MIB, 256),
        (16 * GIB, 4, 8 * MIB, 2048),
        (256 * GIB, 64, 8 * MIB, 32768),
        (4 * MIB, 0, 64 * KIB, 64),
    ];
    for (bytes, participants, segment_bytes, segment_count) in cases {
        let made = Geometry::plan(bytes, participants).unwrap();
        let got = (u64::from(made.segment_bytes()), u64::from(made.segment_count()));
        let case = format!("{bytes} bytes, {participants} participants");
        assert_eq!(got, (segment_bytes, segment_count), "{case}");
        assert!(made.data_bytes() <= bytes, "{case}");
        assert_eq!(Geometry::of(segment_bytes, segment_count), Ok(made), "{case}");
    }
}

#[test]
fn a_refused_size_names_the_limit() {
    let cases = [
        (0, 1, SizeError::TooSmall { minimum_bytes: 512 * KIB }),
        (512 * KIB - 1, 1, SizeError::TooSmall { minimum_bytes: 512 * KIB }),
        (4 * MIB - 1, 8, SizeError::TooSmall { minimum_bytes: 4 * MIB }),
        (MIB, u32::MAX, SizeError::TooSmall { minimum_bytes: 512 * KIB * u64::from(u32::MAX) }),
        (256 * GIB + 8 * MIB, 1, SizeError::TooLarge { maximum_bytes: 256 * GIB }),
        (u64::MAX, 1, SizeError::TooLarge { maximum_bytes: 256 * GIB }),
    ];
    for (bytes, participants, expected) in cases {
        let got = Geometry::plan(bytes, participants);
        assert_eq!(got, Err(expected), "{bytes} bytes, {participants} participants");
        if let SizeError::TooSmall { minimum_bytes } = expected {
            let minimum = Geometry::plan(minimum_bytes, participants);
            let is_enough = minimum.is_ok() || minimum_bytes > DATA_BYTES_MAX;
            assert!(is_enough, "{minimum_bytes} bytes are said to be enough");
            assert!(expected.to_string().contains(&minimum_bytes.to_string()), "{expected}");
        }
    }
}

#[test]
fn stored_sizes_are_checked() {
    let (least, most) = (u64::from(SEGMENT_BYTES_MIN), u64::from(SEGMENT_BYTES_MAX));
    let cases = [
        (least, 1, Ok(())),
        (most, DATA_BYTES_MAX / most, Ok(())),
        (least, DATA_BYTES_MAX / least, Ok(())),
        (0, 1, Err(SizeError::Damaged)),
        (least, 0, Err(SizeError::Damaged)),
        (least / 2, 1, Err(SizeError::Damaged)),
        (most * 2, 1, Err(SizeError::Damaged)),
        (least + 64, 1, Err(SizeError::Damaged)),
        (u64::MAX, u64::MAX, Err(SizeError::Damaged)),
        (least, u64::MAX, Err(SizeError::TooLarge { maximum_bytes: DATA_BYTES_MAX })),
        (
            most,
            DATA_BYTES_MAX / most + 1,
            Err(SizeError::TooLarge { maximum_bytes: DATA_BYTES_MAX }),
        ),
    ];
    for (segment_bytes, segment_count, expected) in cases {
        let got = Geometry::of(segment_bytes, segment_count).map(|_| ());
        assert_eq!(got, expected, "{segment_count} segments of {segment_bytes} bytes");
    }
}

#[test]
fn a_location_is_in_one_segment_or_in_none() {
    let three = Geometry::of(64 * KIB, 3).unwrap();
    let all = Geometry::of(u64::from(SEGMENT_BYTES_MAX), 32768).unwrap();
    let cases = [
        (three, 0, Some((0, 64 * 1024))),
        (three, 1, Some((0, 64 * 1023))),
        (three, 1023, Some((0, 64))),
        (three, 1024, Some((1, 64 * 1024))),
        (three, 3071, Some((2, 64))),
        (three, 3072, None),
        (three, u32::MAX, None),
        (all, u32::MAX, Some((32767, 64))),
    ];
    for (geometry, location, expected) in cases {
        let location = Location(location);
        let got = geometry.segment_of(location).zip(geometry.room_bytes(location));
        assert_eq!(got, expected, "{location:?} of {geometry:?}");
        if let Some((segment, room)) = got {
            assert_eq!(geometry.location(segment, geometry.segment_bytes() - room), location);
        }
    }
}
