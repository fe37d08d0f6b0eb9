//! What matches, and what stays of it in words.

use super::*;
use crate::purge::predicate::Buffer;

#[test]
fn a_predicate_matches_what_it_names() {
    use Predicate::{All, Key, Prefix};
    let cases: &[(Predicate<'_>, &[u8], bool)] = &[
        (Key(b"site/a"), b"site/a", true),
        (Key(b"site/a"), b"site/ab", false),
        (Key(b"site/a"), b"site/", false),
        (Key(b"site/a"), b"site/A", false),
        (Prefix(b"site/a"), b"site/a", true),
        (Prefix(b"site/a"), b"site/ab", true),
        (Prefix(b"site/a"), b"site/", false),
        (Prefix(b"site/a"), b"", false),
        (Prefix(b""), b"", true),
        (Prefix(b""), b"anything", true),
        (All, b"", true),
        (All, b"anything", true),
    ];
    for (predicate, key, expected) in cases {
        assert_eq!(predicate.may_match(key), *expected, "{predicate:?}, {key:?}");
    }
}

/// What the ring says of the last purge.
fn announced(predicate: Predicate<'_>) -> OwnedPredicate {
    let made = made(SLOTS);
    // What an earlier purge has left in the slot is not taken for a part of it.
    for _ in 0..SLOTS {
        made.purge(&[0xff; PREDICATE_BYTES_MAX]);
    }
    made.purges.announce(predicate);
    made.purges.last().unwrap().1
}

#[test]
fn what_fits_stays_whole_and_what_is_longer_becomes_a_prefix() {
    let bytes: Vec<u8> = (0..PREDICATE_BYTES_MAX + 9).map(|index| index as u8).collect();
    let first = Predicate::Prefix(&bytes[..PREDICATE_BYTES_MAX]);
    for length in [0, 1, 7, 8, 9, 60, PREDICATE_BYTES_MAX - 1, PREDICATE_BYTES_MAX] {
        for predicate in [Predicate::Key(&bytes[..length]), Predicate::Prefix(&bytes[..length])] {
            assert_eq!(predicate.fitted(), predicate, "{length} bytes");
            assert_eq!(announced(predicate).borrowed(), predicate, "{length} bytes");
        }
    }
    for length in [PREDICATE_BYTES_MAX + 1, PREDICATE_BYTES_MAX + 9] {
        for predicate in [Predicate::Key(&bytes[..length]), Predicate::Prefix(&bytes[..length])] {
            assert_eq!(predicate.fitted(), first, "{length} bytes");
            assert_eq!(announced(predicate).borrowed(), first, "{length} bytes");
            assert!(first.may_match(&bytes[..length]));
        }
    }
    assert_eq!(announced(Predicate::All), OwnedPredicate::All);
}

#[test]
fn words_that_end_early_are_no_panic() {
    let mut buffer: Buffer = [0; PREDICATE_BYTES_MAX];
    assert_eq!(Predicate::decode(std::iter::empty(), &mut buffer), Predicate::All);
    let words = Predicate::Key(b"0123456789").encode();
    let decoded = Predicate::decode(words.take(2), &mut buffer);
    assert_eq!(decoded, Predicate::Key(b"01234567\0\0"));
}
