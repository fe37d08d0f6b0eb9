//! The pieces that a leader gets from the body that it has appended.

use super::*;

#[test]
fn a_range_is_lent_from_the_fragments_that_hold_it() {
    let flights = new_flights(config());
    // Each part is more than twice as long as the next part, so that they are not joined.
    let parts: [&[u8]; 3] = [b"abcdefg", b"hij", b"k"];
    let mut writer = begin(take_lead(&flights, b"a", None).0, b"", None);
    assert!(writer.pieces(0..1).is_empty(), "no byte was appended yet");
    parts.iter().for_each(|part| writer.append(part).unwrap());
    let cases: &[(std::ops::Range<u64>, &[&[u8]])] = &[
        (0..11, &parts),
        (0..7, &[b"abcdefg"]),
        (1..9, &[b"bcdefg", b"hi"]),
        (7..11, &[b"hij", b"k"]),
        (8..9, &[b"i"]),
        (10..99, &[b"k"]),
        (11..99, &[]),
        (8..8, &[]),
        (std::ops::Range { start: 9, end: 8 }, &[]),
        (0..u64::MAX, &parts),
    ];
    for (range, expected) in cases {
        assert_eq!(writer.pieces(range.clone()), *expected, "{range:?}");
    }
    assert_eq!(writer.bytes(), 11);
    writer.give_up_storing(0);
    assert!(writer.pieces(0..11).is_empty(), "a window has no bytes to be stored");
}

#[test]
fn dribbled_bytes_are_joined() {
    // Each case: the bytes of the body, the bytes of an append, the largest number of fragments.
    let cases = [(1, 1, 1), (4096, 1, 13), (4096, 1000, 3), (4097, 4097, 1), (40_000, 1, 30)];
    for (bytes, step, fragments_max) in cases {
        let flights = new_flights(config());
        let (lead, follower) = take_lead(&flights, b"a", None);
        let mut writer = begin(lead, b"", None);
        let body = content(bytes as u64, bytes);
        body.chunks(step).for_each(|part| writer.append(part).unwrap());
        let pieces = writer.pieces(0..bytes as u64);
        assert!(pieces.len() <= fragments_max, "{bytes} by {step}: {} pieces", pieces.len());
        assert_eq!(pieces.concat(), body, "{bytes} by {step}");
        writer.finish(None);
        assert_eq!(read_now(&mut reader(follower)).0, body, "{bytes} by {step}");
        drop(pieces);
        check_at_rest(&flights);
    }
}
