//! Predicates: matching, and encoding in words.

use super::*;
use crate::purge::predicate::PredicateBuffer;
use crate::tags::{RecordTags, TagExpr};

#[test]
fn a_predicate_matches_its_keys() {
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

#[test]
fn a_predicate_with_tags_matches_by_prefix_and_tags() {
    let expr: TagExpr = "red and not blue".parse().unwrap();
    let predicate = Predicate::Tags(b"site/", expr.encoded());
    for (key, tags, expected) in [
        (&b"site/a"[..], "red", true),
        (b"site/a", "red green", true),
        (b"site/a", "red blue", false),
        (b"site/a", "", false),
        (b"other/a", "red", false),
        (b"", "red", false),
    ] {
        let tags = RecordTags::new(tags.split_whitespace().map(str::as_bytes)).unwrap();
        assert_eq!(predicate.matches(key, tags.as_bytes()), expected, "{key:?}, {tags:?}");
        // Without the record's tags, only a mismatch of the prefix is certain.
        assert_eq!(predicate.may_match(key), key.starts_with(b"site/"), "{key:?}");
    }
}

#[test]
fn a_tag_predicate_that_does_not_fit_becomes_its_prefix() {
    let tag = "t".repeat(250);
    let fitting = format!("{tag} or {}", "u".repeat(250));
    let long = [&fitting[..], &"v".repeat(250), &"w".repeat(250)].join(" or ");
    for (within, expr, fits) in [
        (&b""[..], "red", true),
        (b"site/", "red and not (blue or green)", true),
        (b"site/", &fitting, true),
        (b"site/", &long, false),
        (&[b's'; PREDICATE_BYTES_MAX], "red", false),
    ] {
        let expr: TagExpr = expr.parse().unwrap();
        let predicate = Predicate::Tags(within, expr.encoded());
        let expected = if fits { predicate } else { Predicate::Prefix(within) };
        assert_eq!(predicate.fitted(), expected, "{} bytes", within.len());
        assert_eq!(announced(predicate).borrowed(), expected, "{} bytes", within.len());
    }
}

#[test]
fn damaged_tags_are_a_purge_of_everything() {
    let expr: TagExpr = "red and not blue".parse().unwrap();
    let words: Vec<u64> = Predicate::Tags(b"site/", expr.encoded()).encode().collect();
    let decoded = |words: &[u64]| {
        let mut buffer: PredicateBuffer = [0; PREDICATE_BYTES_MAX];
        let decoded = Predicate::decode(words.iter().copied(), &mut buffer);
        (decoded == Predicate::All, decoded.may_match(b"site/a"))
    };
    assert_eq!(decoded(&words), (false, true));
    // Words that are cut short, or with a prefix that is longer than the bytes.
    assert_eq!(decoded(&words[..2]), (true, true));
    let mut torn = words.clone();
    torn[1] |= 0xffff;
    assert_eq!(decoded(&torn), (true, true));
    for bit in 0..64 * words.len() {
        let mut flipped = words.clone();
        flipped[bit / 64] ^= 1 << (bit % 64);
        // The result may be any predicate, but decoding causes no panic.
        decoded(&flipped);
    }
}

/// Announces a predicate, and returns the last purge of the ring.
fn announced(predicate: Predicate<'_>) -> OwnedPredicate {
    let made = made(SLOTS);
    // An earlier predicate in the slot must not become a part of this one.
    for _ in 0..SLOTS {
        made.purge(&[0xff; PREDICATE_BYTES_MAX]);
    }
    made.purges.announce(predicate);
    made.purges.last().unwrap().1
}

#[test]
fn a_key_that_does_not_fit_becomes_a_prefix() {
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
fn truncated_words_cause_no_panic() {
    let mut buffer: PredicateBuffer = [0; PREDICATE_BYTES_MAX];
    assert_eq!(Predicate::decode(std::iter::empty(), &mut buffer), Predicate::All);
    let words = Predicate::Key(b"0123456789").encode();
    let decoded = Predicate::decode(words.take(2), &mut buffer);
    assert_eq!(decoded, Predicate::Key(b"01234567\0\0"));
}
