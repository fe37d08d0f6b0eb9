//! Tests of words, size classes and hashes, without an index.

use super::*;

#[test]
fn a_word_has_the_documented_bits() {
    let cases = [
        (IndexWord::new(1, WordState::Unchecked, 0, 0), 1 << 42),
        (IndexWord::new(0x3f_ffff, WordState::Reserved, u32::MAX, 63).with_uses(3), u64::MAX),
        (IndexWord::new(5, WordState::Live, 9, 20), 5 << 42 | 20 << 36 | 1 << 34 | 9),
        (IndexWord::new(5, WordState::Live, 9, 200), 5 << 42 | 63 << 36 | 1 << 34 | 9),
        (IndexWord::new(5, WordState::Live, 9, 20).with_uses(2), 5 << 42 | 20 << 36 | 6 << 32 | 9),
        (IndexWord::new(5, WordState::Live, 9, 20).with_uses(9), 5 << 42 | 20 << 36 | 7 << 32 | 9),
        (
            IndexWord::new(5, WordState::Live, 9, 20).with_location(8),
            5 << 42 | 20 << 36 | 1 << 34 | 8,
        ),
        (
            IndexWord::new(5, WordState::Unchecked, 9, 20).with_state(WordState::Disk),
            5 << 42 | 20 << 36 | 2 << 34 | 9,
        ),
    ];
    for (word, bits) in cases {
        assert_eq!(word.bits(), bits, "{word:?}");
        let again =
            IndexWord::new(word.fingerprint(), word.state(), word.location(), word.size_class());
        assert_eq!(again.with_uses(word.uses()), word);
        assert!(!word.is_empty());
    }
    assert!(IndexWord::EMPTY.is_empty() && !IndexWord::EMPTY.is_in_memory());
}

#[test]
fn only_a_live_word_of_its_fingerprint_is_read() {
    let word = |state| IndexWord::new(5, state, 9, 20).with_uses(1);
    let cases = [
        ("live", word(WordState::Live), true, true),
        ("unchecked", word(WordState::Unchecked), false, true),
        ("on disk", word(WordState::Disk), false, false),
        ("reserved", word(WordState::Reserved), false, false),
        ("empty", IndexWord::EMPTY, false, false),
        ("another one", IndexWord::new(4, WordState::Live, 9, 20), false, false),
    ];
    for (case, word, is_live, is_in_memory) in cases {
        assert_eq!((word.is_live_of(5), word.is_of(5)), (is_live, is_in_memory), "{case}");
    }
    assert!(word(WordState::Live).is_same_record(word(WordState::Live).with_uses(3)));
    assert!(!word(WordState::Live).is_same_record(word(WordState::Unchecked)));
}

#[test]
fn a_size_class_is_at_most_half_as_large_again_as_its_smallest_record() {
    let cases = [
        (0, 0, 1),
        (1, 0, 1),
        (2, 2, 2),
        (3, 3, 3),
        (4, 4, 4),
        (5, 4, 4),
        (64, 12, 64),
        (95, 12, 64),
        (96, 13, 96),
        (128, 14, 128),
        (64 << 10, 32, 64 << 10),
        (8 << 20, 46, 8 << 20),
        (u32::MAX, 63, 3 << 30),
    ];
    for (bytes, class, bytes_min) in cases {
        assert_eq!(size_class(bytes), class, "{bytes}");
        assert_eq!(size_class_bytes_min(class), bytes_min, "{bytes}");
    }
}

#[test]
fn a_hash_chooses_two_buckets_and_a_fingerprint_that_is_not_zero() {
    for bucket_count in [2, 3, 4, 1000, 1 << 26] {
        for hash in [0, 1, 1 << 22, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef] {
            let [first, second] = KeyHash::new(hash).buckets(bucket_count);
            assert!(first != second, "{hash:x}, {bucket_count}");
            assert!(first < bucket_count && second < bucket_count, "{hash:x}, {bucket_count}");
            let expected = (hash & 0x3f_ffff).max(1);
            assert_eq!(u64::from(KeyHash::new(hash).fingerprint()), expected);
        }
    }
}
