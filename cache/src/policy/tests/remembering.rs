//! Tests of ghosts.

use super::ghosts::{GHOSTS_PER_WORD, GhostSlot, GhostTime};
use forebay_testkit::Rng;

/// The time for which ghosts last in tests in which none expires, in drained segments.
const ALWAYS: u64 = 1000;

/// A slot with this tag, in the only word of a table.
fn tagged(tag: u64) -> GhostSlot {
    GhostSlot::of(tag << 48, 1)
}

fn at(evicted: u64) -> GhostTime {
    GhostTime::new(evicted, ALWAYS)
}

#[test]
fn a_ghost_stays_until_it_is_taken_or_two_newer_ones_come() {
    let noted = |tags: &[u64]| tags.iter().fold(0, |word, tag| tagged(*tag).noted(word, at(0)));
    let cases: &[(&[u64], &[u64])] = &[
        (&[], &[]),
        (&[1], &[1]),
        (&[1, 2], &[1, 2]),
        (&[1, 2, 3], &[2, 3]),
        (&[1, 1], &[1]),
        (&[1, 2, 2], &[1, 2]),
        (&[1, 2, 1], &[1, 2]),
        (&[1, 2, 1, 3], &[1, 3]),
    ];
    for (tags, expected) in cases {
        let word = noted(tags);
        let is_there = |tag: &u64| tagged(*tag).taken(word, at(0)).is_some();
        let found: Vec<u64> = (1..=3).filter(is_there).collect();
        assert_eq!(found, *expected, "noted {tags:?}");
        for tag in *expected {
            let left = tagged(*tag).taken(word, at(0)).unwrap();
            let others = expected.iter().filter(|other| *other != tag);
            others.for_each(|other| {
                assert!(tagged(*other).taken(left, at(0)).is_some(), "{tags:?} without {tag}");
            });
            assert_eq!(tagged(*tag).taken(left, at(0)), None, "{tag} taken twice, {tags:?}");
        }
    }
    assert_eq!(GHOSTS_PER_WORD, 2);
}

#[test]
fn an_empty_word_has_no_ghost_whatever_the_hash_and_the_time() {
    for hash in [0, 1, 1 << 48, u64::MAX] {
        for evicted in [0, 1, 65_535, 65_536] {
            assert_eq!(
                GhostSlot::of(hash, 64).taken(0, at(evicted)),
                None,
                "{hash:#x} at {evicted}"
            );
        }
    }
}

#[test]
fn a_ghost_expires_after_its_number_of_evictions() {
    // Each case: the time for which the ghost lasts, the time after which it is looked up, whether
    // it is found.
    let cases = [
        (0, 0, true),
        (0, 1, false),
        (57, 57, true),
        (57, 58, false),
        (1024, 1024, true),
        (1024, 1025, false),
        // In these cases a step of time is several segments.
        (29_491, 29_400, true),
        (29_491, 29_550, false),
        (29_491, 66_000, false),
        (u64::MAX, u64::MAX / 2, true),
    ];
    for (lasts, after, is_there) in cases {
        // Where a step is several segments, the ghost may be noted within a step, so only a start
        // at 0 gives exact results.
        let starts: &[u64] = if lasts <= 1024 { &[0, 1, 40_000, 1 << 40] } else { &[0] };
        for start in starts {
            let word = tagged(7).noted(0, GhostTime::new(*start, lasts));
            let taken = tagged(7).taken(word, GhostTime::new(start + after, lasts));
            assert_eq!(taken.is_some(), is_there, "lasts {lasts}, {after} after {start}");
        }
    }
}

#[test]
fn each_ghost_of_a_word_has_its_own_age() {
    let word = tagged(1).noted(0, GhostTime::new(10, 5));
    let word = tagged(2).noted(word, GhostTime::new(14, 5));
    for (now, expected) in [(15, [true, true]), (16, [false, true]), (20, [false, false])] {
        let time = GhostTime::new(now, 5);
        let found = [1, 2].map(|tag| tagged(tag).taken(word, time).is_some());
        assert_eq!(found, expected, "at {now}");
    }
}

#[test]
fn noting_a_ghost_again_makes_it_young() {
    for tags in [&[1, 1][..], &[1, 2, 1]] {
        let mut word = 0;
        for (tag, evicted) in tags.iter().zip([0, 4, 8]) {
            word = tagged(*tag).noted(word, GhostTime::new(evicted, 5));
        }
        let last = 4 * (tags.len() as u64 - 1);
        let time = GhostTime::new(last + 5, 5);
        assert!(tagged(1).taken(word, time).is_some(), "{tags:?}");
    }
}

#[test]
fn the_time_of_ghosts_wraps_around() {
    for start in [65_530, 65_535, 131_071] {
        let word = tagged(9).noted(0, GhostTime::new(start, 10));
        assert!(tagged(9).taken(word, GhostTime::new(start + 10, 10)).is_some(), "{start}");
        assert_eq!(tagged(9).taken(word, GhostTime::new(start + 11, 10)), None, "{start}");
    }
}

#[test]
fn word_and_tag_use_different_bits_of_the_hash() {
    let hash = 0xabcd_0000_0000_0013;
    let cases = [(1, 0), (2, 1), (16, 3), (64, 0x13), (1 << 48, 0x13)];
    for (words, word) in cases {
        assert_eq!(GhostSlot::of(hash, words).word, word, "{words} words");
    }
    let others = [0xabce_0000_0000_0013, 0xabcd_0000_0000_0012];
    for other in others {
        assert_ne!(GhostSlot::of(hash, 64), GhostSlot::of(other, 64), "{other:#x}");
    }
    // The tag 0 means that there is no ghost, so a hash with this tag gets the tag 1.
    assert_eq!(GhostSlot::of(0x13, 64), GhostSlot::of(1 << 48 | 0x13, 64));
}

#[test]
fn a_wrong_ghost_is_found_in_one_of_32768_lookups_at_most() {
    const WORDS: usize = 1024;
    const LOOKUPS: u32 = 4_000_000;
    let mut rng = Rng::of("strangers");
    let mut hash = || rng.next_u64();
    let mut table = [0; WORDS];
    for _ in 0..8 * WORDS {
        let trace = GhostSlot::of(hash(), WORDS);
        table[trace.word] = trace.noted(table[trace.word], at(0));
    }
    let is_found = |hash| {
        let trace = GhostSlot::of(hash, WORDS);
        trace.taken(table[trace.word], at(0)).is_some()
    };
    let found = (0..LOOKUPS).filter(|_| is_found(hash())).count();
    // 122 ghosts are expected to be found; the limit is five standard deviations above.
    assert!(found < 178, "{found} of {LOOKUPS}");
}
